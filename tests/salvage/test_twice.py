"""Logs that were damaged more than once, or hold bytes of an earlier life: what is no message stays none."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import golden_data as golden
import pytest
from salvages import Original, Originals, originals_of, records_of
from sampled import seeds

import storeio
from storeio.format import commitlog as log
from storeio.salvage.fillers import Lost, Setting, tombstone


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1", "base-long-5.5.1", "ext-4.9.8"])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_records_of_other_places_behind_the_end_are_no_messages(name: str, count: int, tmp_path: Path) -> None:
    """Nothing is missing from any queue, so what could be restored there would have the number of another record."""
    root, originals = golden.copy_of(name, tmp_path / "store"), originals_of(name)
    size = int(golden.options(name)["clFile"])
    last = max((root / "commitlog").iterdir())
    end = max(at + len(record.raw) for at, record in originals.items())
    copies = random.Random(count).sample(sorted(originals), count)
    with last.open("r+b") as file:
        file.seek(end - int(last.name))
        file.write(b"".join(originals[at].raw for at in copies)[: size - end % size])
    result = storeio.salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)})
    assert (result.problems, result.lost, result.restored) == ([], [], [])
    saved = records_of(tmp_path / "new", size)
    assert {at: record.raw for at, record in saved.items() if at < end} == {
        at: record.raw for at, record in originals.items()
    }
    assert all(record.head.topic.startswith(b"storeio_") for at, record in saved.items() if at >= end)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(20, 60))
def test_older_records_behind_newer_ones_get_nothing_of_lost_messages(seed: int, tmp_path: Path) -> None:
    """Messages were written over the tail of an earlier life of the log, whose queues are still there."""
    chance = random.Random(seed)
    name = chance.choice(("base-4.9.8", "base-5.5.1"))
    root, originals = golden.copy_of(name, tmp_path / "store"), originals_of(name)
    size = int(golden.options(name)["clFile"])
    last = max((root / "commitlog").iterdir())
    place = at = chance.choice([at for at in sorted(originals) if at >= int(last.name)][5:40])
    with last.open("r+b") as file:
        file.seek(place - int(last.name))
        written = [originals[chance.choice(sorted(originals))] for _ in range(chance.randrange(1, 5))]
        for i, record in enumerate(written):
            earlier = sum(other.name == record.name for other in written[:i])
            file.write(_written_later(originals, record, place, at, earlier))
            at = int(last.name) + file.tell()
    result = storeio.salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)})
    saved = records_of(tmp_path / "new", size)
    behind = [r.physical_offset for r in result.restored if r.physical_offset >= at]
    assert [place for place in behind if saved[place].raw != originals[place].raw] == []
    if len(written) == 1:  # it was born as late as it was stored: it is the ones behind it that are old
        after = storeio.check(tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)})
        assert "LOG_TIME" not in {finding.code for finding in after.findings}


def _written_later(originals: Originals, record: Original, place: int, at: int, earlier: int) -> bytes:
    """Return a message like another one as a broker writes it ``at`` a place, ``earlier`` ones behind the log's end."""
    before = (r.numbers.stop for offset, r in originals.items() if offset < place and r.name == record.name)
    raw, time_at = bytearray(record.raw), 68 if record.head.sys_flag & log.SYS_BORN_V6 else 56
    raw[20:36] = (max(before, default=0) + earlier).to_bytes(8, "big") + at.to_bytes(8, "big")
    for field in (log.BORN_TIMESTAMP_AT, time_at):
        raw[field : field + 8] = (originals[max(originals)].head.store_ms + 60_000).to_bytes(8, "big")
    return bytes(raw)


def test_the_smallest_tombstones_are_not_damaged_for_having_no_crc(tmp_path: Path) -> None:
    """Where there was no room for one, though all other records have it."""
    name = "rich-5.3.3"
    originals, size = originals_of(name), int(golden.options(name)["clFile"])
    numbered = [at for at, row in originals.items() if row.numbers]
    edits: list[golden.Edit] = []
    for at in sorted(numbered, key=lambda at: len(originals[at].raw))[:2]:
        row = originals[at]
        lost = Lost(row.head.topic, row.head.queue_id, row.numbers.start, {})
        new = tombstone(at, len(row.raw), lost, Setting(row.head.store_ms))
        edits.append(["write", f"commitlog/{at - at % size:020d}", at % size, new.whole().hex()])
    root = golden.damaged(name, edits, tmp_path / "store")
    result = storeio.salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)})
    assert (result.exit_code, result.dropped, result.lost, result.problems) == (0, [], [], [])


@pytest.mark.parametrize("count", [1, 76, 91])
def test_a_hole_that_is_too_small_for_a_record_costs_the_one_behind_it(count: int, tmp_path: Path) -> None:
    """A shorter message was written over an earlier one: what is left of that nothing can cover."""
    name = "base-4.9.8"
    originals, size = originals_of(name), int(golden.options(name)["clFile"])
    places = sorted(originals)
    i = next(i for i in range(40, 200) if originals[places[i]].head.body_length > 200 and places[i + 2] % size > 9000)
    at, behind = places[i], places[i + 1]
    old = log.decode_record(originals[at].raw)
    body = old.body[:-count]
    new = replace(old, size=old.size - count, body=body, body_crc=log.body_crc(body))
    edit = ["write", f"commitlog/{at - at % size:020d}", at % size, (log.encode_record(new) + bytes(count)).hex()]
    root = golden.damaged(name, [edit, ["rmtree", "consumequeue"]], tmp_path / "store")
    given = {"mappedFileSizeCommitLog": str(size)}
    result = storeio.salvage(root, tmp_path / "new", given=given)
    assert (result.problems, result.lost_count, [row.physical_offset for row in result.dropped]) == ([], 1, [behind])
    now = records_of(tmp_path / "new", size)
    assert [place for place in originals if place not in now or now[place].raw != originals[place].raw] == [at, behind]
    again = storeio.salvage(tmp_path / "new", tmp_path / "again", given=given)
    assert (again.exit_code, again.dropped, again.restored) == (0, [], [])


def test_a_copy_of_bytes_in_the_same_segment_ends_no_search(tmp_path: Path) -> None:
    """What is intact begins again amid a copied record, at which no record stands."""
    root = golden.copy_of("base-4.9.8", tmp_path / "store")
    path = root / f"commitlog/{5 * 32768:020d}"
    data = bytearray(path.read_bytes())
    data[4775 : 4775 + 4096] = data[1054 : 1054 + 4096]
    path.write_bytes(data)
    result = storeio.salvage(root, tmp_path / "new", jobs=1)
    assert [(part.first_queue_offset, part.stop_queue_offset) for part in result.lost][:2] == [(122, 126), (108, 110)]
