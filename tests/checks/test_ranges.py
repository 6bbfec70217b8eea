"""Half-open ranges against sets of numbers."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storeio.checks.ranges import Bounds, Range, Ranges, add, meeting, merged, subtract

ROW = st.tuples(st.integers(0, 40), st.integers(1, 8)).map(lambda row: (row[0], row[0] + row[1]))
ROWS = st.lists(ROW, max_size=8)


def numbers(ranges: Ranges) -> set[int]:
    """Return the numbers in some ranges."""
    return {number for low, high in ranges for number in range(low, high)}


@given(ROWS)
def test_merged_ranges_have_gaps_between_them(rows: Ranges) -> None:
    found = merged(rows)
    assert numbers(found) == numbers(rows)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@given(ROWS, st.tuples(st.integers(0, 48), st.integers(0, 48)))
def test_what_is_left_lies_in_no_range(rows: Ranges, whole: Range) -> None:
    left = subtract(whole, merged(rows))
    assert numbers(left) == set(range(*whole)) - numbers(rows)
    assert left == merged(left)


@given(ROWS, ROW)
def test_ranges_that_meet_another_one_share_a_number_with_it(rows: Ranges, row: Range) -> None:
    ranges = merged(rows)
    assert list(meeting(ranges, *row)) == [one for one in ranges if numbers([one]) & numbers([row])]


@given(ROWS)
def test_ranges_added_one_by_one_are_merged(rows: Ranges) -> None:
    found: Ranges = []
    for row in rows:
        add(found, row)
    assert found == merged(rows)


@pytest.mark.parametrize("seed", range(20))
def test_ranges_that_meet_another(seed: int) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(100) for _ in range(30)]
    ranges = [(start, start + chance.randrange(1, 30)) for start in starts]
    bounds = Bounds(ranges)
    for start in range(0, 120, 3):
        stop = start + chance.randrange(1, 20)
        expected = [i for i, (low, high) in enumerate(ranges) if low < stop and high > start]
        assert bounds.meeting(start, stop).tolist() == expected
    assert Bounds([]).meeting(0, 100).tolist() == []
