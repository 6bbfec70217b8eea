"""Sparse files: they claim more zeros than anybody could read, so what is read is bounded by what they hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import numpy as np
import pytest

import storeio
from storeio import audit, cli, local_files
from storeio.inspect.filelist import files
from storeio.inspect.indexunits import entries_of
from storeio.inspect.logwalk import walk_segment
from storeio.inspect.queueunits import units
from storeio.inspect.reader import Reader
from storeio.kernels import tables as w
from storeio.plan.model import RESIZE
from storeio.planning import plan_store
from storeio.prediction import simulate
from storeio.splits import DEFAULT_SPLIT_BYTES, merge_spans

CLAIMED = 1 << 40
SMALL = 1 << 22
MOST_READ = 2 << 30
QUEUE = "consumequeue/topic_0/0/00000000000000004000"
SEGMENT = "commitlog/00000000000000163840"
EXT = "consumequeue_ext/topic_1/0/00000000000000000000"

Grown = Callable[[str, str, int], Path]


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail, and not hang, where holes are read."""
    real, left = local_files.read_bytes, [MOST_READ]

    def counted(root: str, path: str, start: int, stop: int, *, populate_to: int | None = None) -> local_files.Bytes:
        left[0] -= max((stop if populate_to is None else min(populate_to, stop)) - start, 0)
        assert left[0] > 0, f"{path}: {stop - start} bytes at {start}"
        return real(root, path, start, stop, populate_to=populate_to)

    monkeypatch.setattr(local_files, "read_bytes", counted)


@pytest.fixture
def grown(tmp_path: Path) -> Grown:
    """Return what gives a copy of a sound store with one file made longer, or made, by a hole."""

    def make(name: str, path: str, length: int) -> Path:
        root = golden.copy_of(name, tmp_path / f"{length}-{len(list(tmp_path.iterdir()))}")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
        os.truncate(root / path, length)
        return root

    return make


def no_holes_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the system tell of no hole."""
    monkeypatch.delattr(os, "SEEK_DATA")
    monkeypatch.delattr(os, "SEEK_HOLE")


@pytest.mark.parametrize("path", [QUEUE, QUEUE.replace("4000", "5000")])
def test_units_of_a_sparse_queue_file(path: str, grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(length: int) -> tuple[list[Any], list[Any]]:
        reader = Reader(grown("base-5.5.1", path, length))
        (view,) = (view for view in files(reader) if view.path == path)
        assert view.details["units"] == length // 20
        found = [unit for unit in units(reader, topic="topic_0", queue_id=0) if unit.path == path]
        assert sum(unit.count for unit in found if unit.state != "ragged") == length // 20
        assert {unit.state for unit in found[:-1]} <= {"written", "zero"}
        facts = [(unit.position, unit.state, unit.physical_offset, unit.why) for unit in found]
        return [view.details.get("used"), view.details.get("last_queue_offset")], facts

    large = looked_at(CLAIMED)
    with monkeypatch.context() as patch:
        no_holes_told(patch)
        small = looked_at(SMALL + (CLAIMED - SMALL) % 20)
    assert large[0] == small[0]
    assert large[1][:-1] == small[1][:-1]
    assert (large[1][-1][1], small[1][-1][1]) == ("ragged", "ragged")


def test_units_behind_a_hole_are_found(grown: Grown) -> None:
    root = grown("base-5.5.1", QUEUE, CLAIMED)
    at = CLAIMED // 2 // 20
    with (root / QUEUE).open("r+b") as file:
        file.seek(at * 20)
        file.write((1000).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8))
    reader = Reader(root)
    (view,) = (view for view in files(reader) if view.path == QUEUE)
    assert view.details["used"] == at + 1
    found = [unit for unit in units(reader, topic="topic_0", queue_id=0) if unit.path == QUEUE]
    assert [(unit.position, unit.physical_offset) for unit in found if unit.state == "written"][-1] == (at * 20, 1000)
    assert sum(unit.count for unit in found if unit.state != "ragged") == CLAIMED // 20


@pytest.mark.parametrize("path", [SEGMENT, "commitlog/00000000000000294912", "commitlog/00000000000000327680"])
@pytest.mark.parametrize("holes_told", [True, False])
def test_records_of_a_sparse_segment(
    path: str, holes_told: bool, grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk that passes over holes tells the same as one that reads them."""

    def walked(length: int) -> tuple[list[list[int]], list[list[int]]]:
        reader = Reader(grown("base-5.5.1", path, length))
        (segment,) = (each for each in reader.segments() if each.path == path)
        parts = [stretch.walked for stretch in walk_segment(reader, segment)]
        records = np.concatenate([part.records[[w.R_POSITION, w.R_SIZE]] for part in parts], axis=1)
        spans = merge_spans([part.spans for part in parts])
        assert spans[w.SPAN_STOP, -1] == length
        spans[w.SPAN_STOP, -1] = 0
        return records.tolist(), spans.tolist()

    if not holes_told:
        no_holes_told(monkeypatch)
    large = walked(CLAIMED if holes_told else 3 * DEFAULT_SPLIT_BYTES)
    no_holes_told(monkeypatch) if holes_told else None
    assert large == walked(SMALL)


def test_a_place_in_a_sparse_segment_says_what_is_there(grown: Grown, capsys: pytest.CaptureFixture[str]) -> None:
    path = "commitlog/00000000000000294912"
    root = grown("base-5.5.1", path, CLAIMED)
    assert cli.run(["inspect", str(root), "--at", str(294912 + CLAIMED // 2)]) == 0
    assert "lies in zero bytes" in capsys.readouterr().err


def test_a_record_behind_a_hole_is_found(grown: Grown) -> None:
    path = "commitlog/00000000000000294912"
    root = grown("base-5.5.1", path, CLAIMED)
    at = CLAIMED // 2 + 4096
    moved = bytearray(golden.store("base-5.5.1").joinpath(path).read_bytes()[25771:])  # the last one: no other is newer
    del moved[int.from_bytes(moved[:4], "big") :]
    moved[28:36] = (294912 + at).to_bytes(8, "big")
    with (root / path).open("r+b") as file:
        file.seek(at)
        file.write(moved)
    reader = Reader(root)
    (segment,) = (each for each in reader.segments() if each.path == path)
    places = [int(n) for stretch in walk_segment(reader, segment) for n in stretch.walked.records[w.R_POSITION]]
    assert places[-1] == at


def test_the_slots_of_a_sparse_index_are_looked_for_where_it_holds_something(grown: Grown) -> None:
    name = min(p.name for p in golden.store("base-5.5.1").glob("index/*"))
    path = f"index/{name}"
    large, small = (
        [
            (entry.path, entry.number, entry.physical_offset)
            for entry in entries_of(Reader(grown("base-5.5.1", path, length)), with_record=False)
        ]
        for length in (16840 + CLAIMED // 20 * 20, 16840 + 20 * 1000)
    )
    assert large == small
    assert any(entry[0] != path for entry in large)


@pytest.mark.parametrize("path", [EXT, EXT.replace("00000000000000000000", "00000000000000100000")])
def test_an_audit_of_a_sparse_ext_file(path: str, grown: Grown) -> None:
    def looked_at(length: int) -> tuple[list[tuple[str, str]], dict[str, int]]:
        found = storeio.check(grown("ext-5.5.1", path, length))
        (report,) = (r for r in _reports(found.store) if r.file.path == path)
        assert sum(report.classes.values()) == length
        return [(f.code, f.path) for f in found.findings], {k: n for k, n in report.classes.items() if k != "zero"}

    assert looked_at(CLAIMED) == looked_at(SMALL)


def _reports(root: str) -> list[audit.FileReport]:
    plan = audit.prepare(root)
    return [audit.run_file_task(plan, task) for task in audit.file_tasks(plan)]


def test_an_inspection_of_a_sparse_ext_file(grown: Grown) -> None:
    large, small = (
        {view.path: view.summary for view in files(Reader(grown("ext-5.5.1", EXT, length)))}
        for length in (CLAIMED, SMALL)
    )
    assert large == small


def test_a_simulated_start_takes_no_digest_of_what_a_sparse_file_claims(grown: Grown) -> None:
    path = f"index/{min(place.name for place in golden.store('base-5.5.1').glob('index/*'))}"
    outcome = simulate(grown("base-5.5.1", path, CLAIMED), broker="5.5.1").outcome
    assert outcome.after_load is not None
    assert (CLAIMED, "") in outcome.after_load.index
    assert all(digest for size, digest in outcome.after_load.index if size != CLAIMED)


@pytest.mark.parametrize("path", ["config/topics.json", "config/consumerOffset.json", "config/delayOffset.json"])
def test_a_table_has_the_length_that_a_broker_makes_of_it(path: str, grown: Grown) -> None:
    """It takes the length as an int: of a multiple of 4 GiB nothing is left, and from 2 GiB on it is negative."""
    assert simulate(grown("base-5.5.1", path, CLAIMED), broker="5.5.1").outcome.outcome == "starts"
    root = grown("base-5.5.1", path, 3 << 30)
    (root / f"{path}.bak").write_text("[")
    assert simulate(root, broker="5.5.1").outcome.outcome == "refuses"


def test_a_salvage_leaves_holes_out(grown: Grown, tmp_path: Path) -> None:
    root = grown("base-5.5.1", "config/x.json", CLAIMED)
    with (root / "config/x.json").open("r+b") as file:
        file.seek(CLAIMED // 2)
        file.write(b"here")
    storeio.salvage(root, tmp_path / "new")
    copied = tmp_path / "new" / "config/x.json"
    assert copied.stat().st_size == CLAIMED
    assert copied.stat().st_blocks * 512 < SMALL
    with copied.open("rb") as file:
        file.seek(CLAIMED // 2)
        assert file.read(4) == b"here"


def test_a_plan_leaves_what_it_can_take_no_digest_of(grown: Grown, tmp_path: Path) -> None:
    root = grown("base-5.5.1", QUEUE, CLAIMED)
    (root / QUEUE.replace("/0/", "/1/")).write_bytes(b"x" * 1000)
    found = plan_store(root, tmp_path / "plan.json", jobs=1)
    assert any(QUEUE in text and "truncate" in text for text in found.plan.left)
    assert not any(action.path == QUEUE and action.kind == RESIZE for action in found.plan.actions)
    assert any("/topic_0/1/" in action.path for action in found.plan.actions)


def test_json_of_an_inspection_is_whole(grown: Grown, capsys: pytest.CaptureFixture[str]) -> None:
    root = grown("base-5.5.1", QUEUE, CLAIMED)
    assert cli.run(["inspect", str(root), "--json"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if QUEUE in line)
    assert json.loads(line)["size"] == CLAIMED
