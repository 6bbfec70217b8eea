"""When findings were seen: the history is the same whatever order runs end in, and whichever are killed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storeio.incremental.history import History, Moment, Seen, finding_id, folded

NAMES = "abc"
RUNS = st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(NAMES))), max_size=8)


def runs_of(drawn: list[tuple[bool, set[str]]]) -> list[Seen]:
    """Return runs, one a second."""
    return [
        Seen((i * 1000, f"run-{i}"), whole, {n: {"detail": n} for n in names}) for i, (whole, names) in enumerate(drawn)
    ]


def expected(runs: list[Seen]) -> dict[str, tuple[Moment, Moment, Moment | None]]:
    """Return first, last and cleared of each finding, one finding at a time."""
    found = {}
    for name in NAMES:
        seen = [run.moment for run in runs if name in run.findings]
        if seen:
            missed = [r.moment for r in runs if r.is_complete and name not in r.findings and r.moment > seen[-1]]
            found[name] = seen[0], seen[-1], missed[0] if missed else None
    return found


@given(RUNS, st.randoms(use_true_random=False))
def test_any_order_of_ends(drawn: list[tuple[bool, set[str]]], rng: object) -> None:
    runs = runs_of(drawn)
    ended = list(runs)
    rng.shuffle(ended)  # type: ignore[attr-defined]
    history: dict[str, History] = {}
    for count in range(1, len(ended) + 1):
        if count == len(ended) or rng.random() < 0.7:  # type: ignore[attr-defined]  # else killed before it came here
            history = folded(history, ended[:count])
    assert {name: (row.first, row.last, row.cleared) for name, row in history.items()} == expected(runs)
    assert folded(history, ended) == history


@given(RUNS, st.integers(0, 8))
def test_runs_that_were_deleted_stay_in_the_history(drawn: list[tuple[bool, set[str]]], cut: int) -> None:
    runs = runs_of(drawn)
    history = folded(folded({}, runs[:cut]), runs[cut:])
    assert {name: (row.first, row.last, row.cleared) for name, row in history.items()} == expected(runs)


def test_ids_tell_findings_apart() -> None:
    row = {
        "store": "/s", "code": "LOG_BODY_CRC", "path": "commitlog/0", "position": 1, "topic": "t", "queue_id": 1,
        "physical_offset": 1,
    }  # fmt: skip
    others = [{**row, name: None if value == 1 else f"{value}x"} for name, value in row.items()]
    assert len({finding_id(each) for each in [row, *others]}) == len(row) + 1
    assert finding_id({**row, "detail": "of another day", "count": 3}) == finding_id(row)


def place_of(position: int, length: int | None, **other: object) -> dict[str, object]:
    """Return a finding of a queue's file."""
    place = {"code": "CQ_UNIT_MISSING", "path": "consumequeue/t/0/0", "topic": "t", "queue_id": 0, "detail": "gone"}
    return {**place, "position": position, "length": length, **other}


WHOLE = Seen((1000, "whole"), True, {"w": place_of(0, 100)})
PIECES = Seen((2000, "late"), False, {"w": place_of(0, 20), "p": place_of(40, 20), "q": place_of(90, 10)})
AGAIN = Seen((3000, "again"), True, {"w": place_of(0, 100)})


def test_pieces_that_a_run_without_time_saw_are_the_whole_seen_again() -> None:
    before = folded({}, [WHOLE])
    late = folded(before, [WHOLE, PIECES])
    assert late == {"w": History(WHOLE.findings["w"], WHOLE.moment, PIECES.moment)}
    assert folded(late, [PIECES]) == late  # also where the complete run was deleted meanwhile
    assert folded(late, [PIECES, AGAIN]) == folded({}, [AGAIN, PIECES, WHOLE])
    only = replace(PIECES, findings={"p": place_of(40, 20)})
    assert folded(before, [only])["w"].last == PIECES.moment
    healed = folded(late, [Seen((4000, "healed"), True)])
    assert (list(healed), healed["w"].cleared) == (["w"], (4000, "healed"))
    assert folded(healed, [PIECES]) == healed


@given(st.integers(0, 2**32))
def test_pieces_stay_what_they_were_when_a_finding_gets_shorter_or_longer(seed: int) -> None:
    """Runs that are folded again and again, as jobs do, against each folded once."""
    rng = random.Random(seed)
    ranges: set[tuple[int, int]] = set()
    once: dict[str, History] = {}
    again: dict[str, History] = {}
    runs: list[Seen] = []
    for number in range(rng.randrange(2, 7)):
        start = rng.randrange(10)
        stop = rng.randrange(start + 1, 12)
        ranges = {one for one in ranges if one[1] < start or one[0] > stop} | {(start, stop)}
        seen = [pair for pair in ranges if rng.random() < 0.8]
        is_complete = rng.random() < 0.5
        if not is_complete:
            seen = [(low := rng.randrange(*pair), rng.randrange(low, pair[1]) + 1) for pair in seen]
        places = {f"{a}": place_of(a, b - a) for a, b in seen}
        runs.append(Seen((1000 * number, f"run-{number}"), is_complete, places))
        once, again = folded(once, runs[-1:]), folded(again, runs)
        assert again == once
    assert folded(again, runs) == again


@pytest.mark.parametrize(
    "place",
    [
        place_of(95, 10),  # reaches out of it
        place_of(100, 10),
        place_of(40, 0),
        place_of(40, 20, code="CQ_UNIT_WRONG"),
        place_of(40, 20, path="consumequeue/t/0/1"),
        place_of(40, 20, queue_id=1),
    ],
)
def test_what_is_no_piece_is_a_finding_of_its_own(place: dict[str, object]) -> None:
    late = replace(PIECES, findings={"p": place})
    assert set(folded({}, [WHOLE, late])) == {"w", "p"}
    assert set(folded({}, [WHOLE, Seen((2000, "complete"), True, {"p": place_of(40, 20)})])) == {"w", "p"}
    cleared = folded({}, [WHOLE, Seen((1500, "healed"), True), replace(PIECES, findings={"p": place_of(40, 20)})])
    assert set(cleared) == {"w", "p"}


def test_rows_of_a_version_that_kept_no_length() -> None:
    old = {"w": History(place_of(0, None), WHOLE.moment, WHOLE.moment)}
    assert set(folded(old, [PIECES])) == {"w", "p", "q"}
    assert set(folded(old, [AGAIN, replace(PIECES, moment=(4000, "late"))])) == {"w"}
