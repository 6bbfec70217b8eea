"""Compiled first look at all records of a walk: whether there is anything that asks for a second one."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.tables import MARK_HAS_PROPERTY_CRC
from storeio.kernels.tags import TAGS

Numbers = npt.NDArray[np.int64]

# Places in what a glance says.
(BODIES, MARKS, PROPERTY_CRCS, FLAGS, FIRST_MS, LAST_MS, LEAPS, STORE_HOSTS, BORN_HOSTS, KEYS) = range(10)
PLACES: Final = 10

_COLUMN: Final = "readonly(int64[::1])"


@compiled(f"void({_COLUMN}, {_COLUMN}, {_COLUMN}, {_COLUMN}, {_COLUMN}, {_COLUMN}, {_COLUMN}, int64[::1])")
def glance(
    body_bytes: Numbers, marks: Numbers, flags: Numbers, times: Numbers, store_hosts: Numbers, born_hosts: Numbers,
    key_kinds: Numbers, said: Numbers,
) -> None:  # fmt: skip
    """Fill what columns of at least one record say, and the kinds of their keys.

    BODIES, PROPERTY_CRCS and KEYS are numbers of records with a body and with a property CRC, and of keys that are no
    tags; MARKS and FLAGS the bits that any record has; FIRST_MS and LAST_MS the lowest and the highest time. LEAPS
    are inner times above the next one, which is not below the one before, or below the one before, which is not above
    the next. STORE_HOSTS and BORN_HOSTS are 0 where all records have the same.
    """
    bodies = crcs = leaps = keys = any_mark = any_flag = other_stores = other_born = np.int64(0)
    for i in range(len(marks)):  # loops are apart where the compiler makes vectors of them then
        bodies += body_bytes[i] > 0
        crcs += (marks[i] & MARK_HAS_PROPERTY_CRC) != 0
        any_mark |= marks[i]
        any_flag |= flags[i]
    for i in range(len(store_hosts)):
        other_stores |= store_hosts[i] ^ store_hosts[0]
        other_born |= born_hosts[i] ^ born_hosts[0]
    lowest = highest = times[0]
    for i in range(len(times)):
        lowest, highest = min(lowest, times[i]), max(highest, times[i])
    for i in range(1, len(times) - 1):
        leaps += (times[i - 1] <= times[i + 1]) & ((times[i] > times[i + 1]) | (times[i] < times[i - 1]))
    for i in range(len(key_kinds)):
        keys += key_kinds[i] != TAGS
    said[BODIES], said[MARKS], said[PROPERTY_CRCS], said[FLAGS] = bodies, any_mark, crcs, any_flag
    said[FIRST_MS], said[LAST_MS], said[LEAPS] = lowest, highest, leaps
    said[STORE_HOSTS], said[BORN_HOSTS], said[KEYS] = other_stores, other_born, keys
