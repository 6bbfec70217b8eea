"""The record table's stage: whatever the table's shape and wherever a walk stops, what was put is in the table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storeio.kernels import tables as w
from storeio.kernels.memory import LINE
from storeio.kernels.staged import STAGE_PLACES, close_line, has_whole_lines, leave_line, open_line
from storeio.walk import _Tables

Numbers = npt.NDArray[np.int64]

UNTOUCHED = -7


def table_of(columns: int, first: int) -> Numbers:
    """Return a table that begins so many numbers behind a line's beginning, full of the same number."""
    room = np.full(w.RECORD_ROWS * columns + 2 * LINE, UNTOUCHED, np.int64)
    start = -room.ctypes.data % (8 * LINE) // 8 + first
    return room[start : start + w.RECORD_ROWS * columns].reshape(w.RECORD_ROWS, columns)


def put(table: Numbers, first: int, stop: int) -> None:
    """Put records as one call of the walk does, record n as the numbers ``1000 * row + n``."""
    stage = np.full(STAGE_PLACES, -1, np.int64)
    open_line(table, first, stage)
    for number in range(first, stop):
        for row in range(w.RECORD_ROWS):
            stage[LINE * row + number % LINE] = 1000 * row + number
        leave_line(table, number, stage, int(has_whole_lines(table)))
    close_line(table, stop, stage)


@settings(derandomize=True, database=None)
@given(st.integers(1, 40), st.integers(0, LINE - 1), st.lists(st.integers(0, 20), max_size=6))
def test_what_was_put_is_there(columns: int, first: int, calls: list[int]) -> None:
    table = table_of(columns, first)
    count = 0
    for more in calls:
        stop = min(count + more, columns)
        put(table, count, stop)
        count = stop
        expected = np.add.outer(1000 * np.arange(w.RECORD_ROWS), np.arange(count))
        assert np.array_equal(table[:, :count], expected)
        assert (table[:, count:] == UNTOUCHED).all()


@pytest.mark.parametrize(("columns", "first", "whole"), [(16, 0, True), (16, 1, False), (12, 0, False), (8, 0, True)])
def test_which_tables_have_whole_lines(columns: int, first: int, whole: bool) -> None:
    assert bool(has_whole_lines(table_of(columns, first))) is whole


@pytest.mark.parametrize("count", [0, 1000, 1 << 20, 64 << 20])
def test_the_walk_s_own_tables_have_whole_lines_that_are_no_power_of_two_apart(count: int) -> None:
    tables = _Tables.for_bytes(count)
    for _ in range(3):
        assert has_whole_lines(tables.records)
        for stride in (tables.records.strides[0], tables.keys.strides[0]):
            assert stride & -stride == 8 * LINE, "rows would begin in few sets of a cache"
        tables.grow(w.FULL_RECORDS)
