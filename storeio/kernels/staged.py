"""The record table written in whole lines of the CPU's caches, past the caches.

Each record is a number in each of the table's rows, and a row's next number is written a record later. Written at once,
every number would have its line brought from memory first, and throw out what the walk needs: a fifth of its time. So
the numbers of some records are gathered in a small stage, and leave it as whole lines, which need nothing from memory.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels import tables as w
from storeio.kernels.memory import LINE, put_line

Numbers = npt.NDArray[np.int64]

STAGE_PLACES: Final = LINE * w.RECORD_ROWS
LINE_BYTES: Final = 8 * LINE


@compiled("boolean(int64[:, ::1])")
def has_whole_lines(records: Numbers) -> bool:
    """Tell whether the table's rows begin where lines do, so that they can be written past the caches."""
    return records.ctypes.data % LINE_BYTES == 0 and records.shape[1] % LINE == 0


@compiled("void(int64[:, ::1], int64, int64[::1])")
def open_line(records: Numbers, count: int, stage: Numbers) -> None:
    """Put into the stage what the table already has of the line in which record ``count`` stands."""
    first = count - count % LINE
    for row in range(w.RECORD_ROWS):
        for column in range(first, count):
            stage[LINE * row + column - first] = records[row, column]


@compiled("void(int64[:, ::1], int64, int64[::1])")
def close_line(records: Numbers, count: int, stage: Numbers) -> None:
    """Write what the stage has of the line in which record ``count``, the first that is not there, stands."""
    first = count - count % LINE
    for row in range(w.RECORD_ROWS):
        for column in range(first, count):
            records[row, column] = stage[LINE * row + column - first]


@compiled("void(int64[:, ::1], int64, int64[::1], int64)", forceinline=True)
def leave_line(records: Numbers, number: int, stage: Numbers, whole: int) -> None:
    """Write the stage to the table if record ``number``, which was put there, fills it; ``whole`` as the table is."""
    if number % LINE != LINE - 1:
        return
    if whole != 0:
        for row in range(w.RECORD_ROWS):
            put_line(records, row * records.shape[1] + number - (LINE - 1), stage, LINE * row)
    else:
        close_line(records, number, stage)
        for row in range(w.RECORD_ROWS):
            records[row, number] = stage[LINE * row + LINE - 1]
