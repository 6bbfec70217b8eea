"""Records that a write put over others: they have no number of their own, and no unit moves for them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
from golden_data import given_for

from storeio import audit
from storeio.checks.numbering import COPY
from storeio.checks.runs import Run, copies_among, joined_runs
from storeio.checks.segments import LogView, Segment
from storeio.findings import Finding
from storeio.paths import describe
from storeio.planning import plan_store
from storeio.rebuild.placement import Part, place
from storeio.results import Audit
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

STORE = "base-4.9.8"
SEGMENT_BYTES = 32768


def written_over(
    root: Path, number: tuple[str, int, int], over: tuple[str, int, int], name: str = STORE
) -> tuple[int, int]:
    """Copy a store, in it a record, by topic, queue id and number, over one of the same size; return both places."""
    golden.copy_of(name, root)
    rows = {(row["topic"], int(row["queue_id"]), int(row["queue_offset"])): row for row in golden.dump(name)}
    (at, size), (to, same) = ((int(rows[key]["phy_offset"]), int(rows[key]["size"])) for key in (number, over))
    assert size == same, "they differ in length"
    segment, position = at - at % SEGMENT_BYTES, at % SEGMENT_BYTES
    raw = (root / f"commitlog/{segment:020d}").read_bytes()[position : position + size]
    segment, position = to - to % SEGMENT_BYTES, to % SEGMENT_BYTES
    with (root / f"commitlog/{segment:020d}").open("r+b") as file:
        file.seek(position)
        file.write(raw)
    return at, to


def of_one_size(queue: tuple[str, int], other: tuple[str, int], last: int) -> tuple[int, int]:
    """Return numbers of two queues whose records have one length, the second number as near to ``last`` as may be."""
    sizes: dict[int, int] = {}
    for row in golden.dump(STORE):
        if (row["topic"], int(row["queue_id"])) == queue and 20 < (number := int(row["queue_offset"])) < 100:
            sizes.setdefault(int(row["size"]), number)
    rows = [row for row in golden.dump(STORE) if (row["topic"], int(row["queue_id"])) == other]
    near = sorted(rows, key=lambda row: abs(int(row["queue_offset"]) - last))
    found = next(row for row in near if int(row["size"]) in sizes and int(row["queue_offset"]) > 100)
    return sizes[int(found["size"])], int(found["queue_offset"])


def about(found: Audit, queue: tuple[str, int]) -> list[Finding]:
    """Return what is said of a queue and its files."""
    return [row for row in found.findings if (row.topic, row.queue_id) == queue]


@pytest.mark.parametrize("last", [120, 170, 205])
@pytest.mark.parametrize("split_bytes", [None, 5000])
def test_a_copy_over_another_queues_record_moves_no_unit(last: int, split_bytes: int | None, tmp_path: Path) -> None:
    queue, other = ("topic_1", 1), ("topic_0", 0)
    number, lost = of_one_size(queue, other, last)
    root = tmp_path / "store"
    _, to = written_over(root, (*queue, number), (*other, lost))
    found = audit.check(root, given=given_for(STORE), jobs=1, split_bytes=split_bytes)
    told = {(row.code, row.physical_offset) for row in about(found, queue)}
    assert told - {("LOG_TIME", to)} == {("LOG_FIELD", to), ("LOG_PHYSICAL_OFFSET", to)}  # others may be as old
    assert [(row.topic, row.first_queue_offset, row.stop_queue_offset) for row in found.lost] == [
        ("topic_0", lost, lost + 1)
    ]
    (root / "abort").touch()
    planned = plan_store(root, tmp_path / "plan.json", given=given_for(STORE), jobs=1, broker="4.9.8").plan
    assert not [action for action in planned.actions if action.path.startswith("consumequeue/topic_1/1/")]


@pytest.mark.parametrize("last", [120, 170, 205])
def test_a_copy_in_its_own_queue_takes_no_number(last: int, tmp_path: Path) -> None:
    queue = ("topic_1", 1)
    number, lost = of_one_size(queue, queue, last)
    root = tmp_path / "store"
    _, to = written_over(root, (*queue, number), (*queue, lost))
    found = audit.check(root, given=given_for(STORE), jobs=1)
    assert [(row.topic, row.first_queue_offset, row.stop_queue_offset) for row in found.lost] == [
        ("topic_1", lost, lost + 1)
    ]
    (copy,) = (row for row in about(found, queue) if row.code == "LOG_FIELD")
    assert (copy.physical_offset, copy.detail.startswith(COPY)) == (to, True)
    planned = plan_store(root, tmp_path / "plan.json", given=given_for(STORE), jobs=1, broker="4.9.8").plan
    actions = [action for action in planned.actions if action.path.startswith("consumequeue/topic_1/1/")]
    assert sum(action.length for action in actions) <= 20  # of the unit of the record that is lost


@pytest.mark.parametrize(("copied", "over", "keeps_queues"), [
    (("topic_0", 1, 40), ("topic_1", 1, 209), False),  # one record of the copy's queue lies behind it
    (("topic_1", 1, 180), ("topic_1", 1, 177), True),  # it is newer than the record behind it
])  # fmt: skip
def test_salvage_changes_no_record_behind_a_copy(
    copied: tuple[str, int, int], over: tuple[str, int, int], keeps_queues: bool, tmp_path: Path
) -> None:
    name = "base-4.9.8" if keeps_queues else "base-5.5.1"
    root = tmp_path / "store"
    written_over(root, copied, over, name)
    if not keeps_queues:
        shutil.rmtree(root / "consumequeue")
    result = salvage(root, tmp_path / "new", given=given_for(name), jobs=1)
    assert not result.restored
    assert [(row.topic, row.queue_id, row.first_queue_offset, row.stop_queue_offset) for row in result.lost] == [
        (*over, over[2] + 1)
    ]
    found = audit.check(tmp_path / "new", given=given_for(name), jobs=1)
    assert not [row for row in found.findings if row.severity in ("error", "warning")]


def log_of(numbers: Sequence[int], copies: Sequence[int]) -> tuple[list[Run], LogView]:
    """Return the joined runs of a queue of such numbers, those at ``copies`` lying elsewhere, and an intact log."""
    rows = [[number, number + 1, at * 100, at * 100 + 100, 1, int(at in copies)] for at, number in enumerate(numbers)]
    size = 100 * len(numbers)
    view = LogView([Segment(describe(f"commitlog/{0:020d}", size), np.empty((4, 0), np.int64))], 0, size)
    return joined_runs(rows), view


@pytest.mark.parametrize("seed", range(40))
def test_units_stand_as_without_copies(seed: int) -> None:
    """Units of a queue with copies stand where they would if these were not there."""
    random = np.random.default_rng(seed)
    numbers = list(range(int(random.integers(2, 40))))
    for _ in range(int(random.integers(0, 3))):  # as of lost records
        del numbers[int(random.integers(1, len(numbers)))]
        if len(numbers) < 2:
            break
    mixed, copies = list(numbers), list[int]()
    for _ in range(int(random.integers(1, 6))):
        # No copy stands where its number would follow on: there it is the record of its number itself.
        at, number = int(random.integers(1, len(mixed) + 1)), int(random.choice(numbers))
        if number in (mixed[at - 1] + 1, mixed[at - 1]) or (at < len(mixed) and mixed[at] == number + 1):
            continue
        copies = [k + (k >= at) for k in copies] + [at]
        mixed.insert(at, number)
    runs, view = log_of(mixed, copies)
    found = place(runs, view)
    alone, plain = log_of(numbers, [])
    expected = place(alone, plain)
    own = [at for at in range(len(mixed)) if at not in copies]
    assert units_of(found.parts) == {number: own[at] for number, at in units_of(expected.parts).items()}
    assert found.replaced == expected.replaced + len(copies)
    assert [(gap.first, gap.stop) for gap in found.gaps] == [(gap.first, gap.stop) for gap in expected.gaps]


def units_of(parts: Sequence[Part]) -> dict[int, int]:
    """Return which unit stands at each number."""
    return {part.number + k: part.at + k for part in parts for k in range(part.count)}


def test_what_lies_elsewhere_and_has_a_number_of_its_own_is_no_copy() -> None:
    runs, _ = log_of([0, 1, 5, 6, 7, 3], [2, 5])
    assert copies_among(runs) == []
