"""Light queues of lost messages: their tombstones are in them, too, so that consumers pass over nothing."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import golden_data as golden
import pytest
import salvages
from golden_data import given_for
from sampled import sampled

from storeio import audit
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.planning import plan_store
from storeio.predict.start import simulate
from storeio.salvage.missing import light_units
from storeio.salvage.node import salvage

STORES = ("rich-4.9.8", "rich-5.3.3", "rich-5.5.1")
GONE = [*itertools.product(STORES, (2, 5, 9, 11, 12), ("topic_1", "topic_*"))]
LOST = [*itertools.product(STORES, ("body", "head"), (0, 3, -1))]


def given(name: str) -> dict[str, str]:
    """Return the settings of a store, and those with which brokers fill light queues."""
    return given_for(name) | {"enableLmq": "true", "enableMultiDispatch": "true"}


def light(name: str) -> Iterator[int]:
    """Yield the places of the messages that are in light queues."""
    for place, row in sorted(salvages.originals_of(name).items()):
        if p.MULTI_QUEUE_OFFSET in row.head.pairs:
            yield place


def units_of(root: Path) -> dict[str, list[tuple[int, int, int]]]:
    """Return the units of all light queues: physical offset, size and tags code."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for path in sorted((root / "consumequeue").glob("%LMQ%*/0/*")):
        found.setdefault(path.parts[-3], []).extend(struct.iter_unpack(">qiq", path.read_bytes()))
    return {name: [unit for unit in units if unit[1]] for name, units in found.items()}


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "how", "which"), sampled(LOST, LOST[::4]))
def test_a_lost_message_leaves_no_gap_in_its_light_queues(name: str, how: str, which: int, tmp_path: Path) -> None:
    size = int(golden.options(name)["clFile"])
    place = list(light(name))[which]
    record = salvages.originals_of(name)[place]
    path = f"commitlog/{place - place % size:020d}"
    # A head that is damaged beyond doubt leaves the record's own lists, a damaged body the units alone.
    edit = (
        ["write", path, place % size + 68, "ff" * 8] if how == "head" else ["zero", path, place % size, len(record.raw)]
    )
    root = golden.damaged(name, [edit], tmp_path / "store")
    result = salvage(root, tmp_path / "new", given=given(name), jobs=1)
    assert (result.tombstones, result.problems) == (1, [])
    places = {queue: [unit[:2] for unit in units] for queue, units in units_of(golden.store(name)).items()}
    assert {queue: [unit[:2] for unit in units] for queue, units in units_of(tmp_path / "new").items()} == places
    assert audit.check(tmp_path / "new", given=given(name), jobs=1).exit_code == 0
    broker = name.rpartition("-")[2]
    assert not simulate(tmp_path / "new", broker=broker, given=given(name)).harms
    plan = plan_store(
        root, tmp_path / "plan.json", broker=broker, given=given(name), jobs=1, allow_log=True, goal="salvage"
    )
    assert plan.cures


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "number", "gone"), sampled(GONE, GONE[::5]))
def test_units_of_light_queues_alone_keep_their_numbers(name: str, number: int, gone: str, tmp_path: Path) -> None:
    """A segment is lost, and queues of which its messages were."""
    root = golden.copy_of(name, tmp_path / "store")
    segment = sorted((root / "commitlog").iterdir())[number]
    segment.write_bytes(bytes(segment.stat().st_size))
    for path in (root / "consumequeue").glob(gone):
        shutil.rmtree(path)
    result = salvage(root, tmp_path / "new", given=given(name), jobs=1)
    assert result.problems == []
    places = {queue: [unit[:2] for unit in units] for queue, units in units_of(golden.store(name)).items()}
    assert {queue: [unit[:2] for unit in units] for queue, units in units_of(tmp_path / "new").items()} == places
    assert audit.check(tmp_path / "new", given=given(name), jobs=1).exit_code == 0
    broker = name.rpartition("-")[2]
    assert not simulate(tmp_path / "new", broker=broker, given=given(name)).harms
    again = salvage(tmp_path / "new", tmp_path / "again", given=given(name), jobs=1)
    assert (again.tombstones, again.lost, again.problems) == (0, [], [])


def test_light_queues_stay_at_their_numbers_when_segments_are_deleted(tmp_path: Path) -> None:
    """Lists of 5.x count rolled back messages, too, which have no units: two queues are one number ahead here."""
    name, kept = "rich-5.3.3", 6
    root = golden.copy_of(name, tmp_path / "store")
    segments = sorted((root / "commitlog").iterdir())
    for path in segments[:kept]:
        path.unlink()
    first = int(segments[kept].name)
    result = salvage(root, tmp_path / "new", given=given(name), jobs=1)
    assert (result.lost, result.problems) == ([], [])
    assert places_by_number(tmp_path / "new", first) == places_by_number(root, first)


def places_by_number(root: Path, first: int) -> dict[str, dict[int, int]]:
    """Return the places of the messages from one on that are in each light queue, by their numbers."""
    found: dict[str, dict[int, int]] = {}
    for path in sorted((root / "consumequeue").glob("%LMQ%*/0/*")):
        for number, (place, *_) in enumerate(struct.iter_unpack(">qiq", path.read_bytes()), int(path.name) // 20):
            if place >= first:
                found.setdefault(path.parts[-3], {})[number] = place
    return found


def test_lists_that_do_not_fit_each_other_name_no_units() -> None:
    row = next(row for row in salvages.originals_of("rich-5.3.3").values() if p.MULTI_QUEUE_OFFSET in row.head.pairs)
    record = log.decode_record(row.raw)
    assert [unit.topic for unit in light_units(record, 7)] == row.head.pairs[p.MULTI_DISPATCH].split(",")
    short = record.properties.replace(
        p.MULTI_QUEUE_OFFSET.encode() + b"\x01", p.MULTI_QUEUE_OFFSET.encode() + b"\x015,"
    )
    assert light_units(replace(record, properties=short), 7) == []
