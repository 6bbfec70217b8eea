"""Deliver times of delayed messages as brokers with other delay levels wrote them.

``messageDelayLevel`` is a setting, which may change between two runs: the log does not tell which delays held when a
unit was written, only the unit does.

Source: ``ScheduleMessageService.parseDelayLevel``: delays are whole seconds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SECOND_MS: Final = 1000
OTHER_LEVELS: Final = "the deliver time of another delay"
MOST_DELAY_MS: Final = 366 * 86_400_000  # a longer one is damage


def is_deliver_time(code: Numbers, store_ms: Numbers) -> Mask:
    """Tell which tags codes are the deliver time of a message under some delay levels, a year at most.

    One flipped bit of a deliver time makes no such code: no power of two is a multiple of 1,000.

    Args:
        code: Of units of delayed messages, shape ``(n,)``; any values.
        store_ms: When their messages were stored, Unix ms, shape ``(n,)``; any values.
    """
    is_sane = (store_ms >= 0) & (code > store_ms)
    delay = np.where(is_sane, code, 0) - np.where(is_sane, store_ms, 0)
    return (delay > 0) & (delay <= MOST_DELAY_MS) & (delay % SECOND_MS == 0)
