"""Store times that leap: restored where neighbours, index or queues leave one answer, else kept as they are."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest
import salvages
from golden_data import given_for

from storeio import audit, findings
from storeio.checks import marks
from storeio.codes import DOUBT_CODES
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.salvage.evidence import Known, Stored
from storeio.salvage.node import salvage
from storeio.salvage.restore import restored
from storeio.salvage.survey import survey
from storeio.salvage.times import Times
from storeio.salvaged import Salvaged

pytestmark = pytest.mark.share(2)

GARBAGE: Final = bytes.fromhex("5be3c0917d20aa4e")
BROKEN: Final = (b"\xff" * 4, bytes(8), GARBAGE)


def time_at(head: bytes) -> int:
    """Return where in a record its store time stands."""
    (flag,) = struct.unpack_from(">i", head, log.SYS_FLAG_AT)
    return log.BORN_HOST_AT + log.host_bytes(flag)[0]


def broken(name: str, place: int, at: int, data: bytes, root: Path) -> tuple[Path, salvages.Original]:
    """Return a copy of a store in which bytes of the store time of the record at a place are others."""
    record, size = salvages.originals_of(name)[place], int(golden.options(name)["clFile"])
    edit = ["write", f"commitlog/{place - place % size:020d}", place % size + time_at(record.raw) + at, data.hex()]
    return golden.damaged(name, [edit], root / "store"), record


def saved(name: str, root: Path, place: Path) -> tuple[Salvaged, salvages.Originals]:
    """Return what a salvage tells, and the records of what it wrote."""
    size = int(golden.options(name)["clFile"])
    given = {"mappedFileSizeCommitLog": str(size)}
    if "bcqTopics" not in golden.options(name):
        given["mappedFileSizeConsumeQueue"] = str(20 * golden.options(name)["cqEntries"])
    result = salvage(root, place / "new", given=given, jobs=1)
    assert result.problems == []
    return result, salvages.records_of(place / "new", size)


def with_topic(name: str, prefix: bytes) -> int:
    """Return the place of a record of such a topic, away from the log's ends."""
    records = salvages.originals_of(name)
    return next(at for at in sorted(records)[20:] if records[at].head.topic.startswith(prefix))


@pytest.mark.share(2)
@pytest.mark.parametrize("data", BROKEN)
@pytest.mark.parametrize(
    ("name", "prefix"),
    [("rich-5.3.3", b"bcq_"), ("rich-5.5.1", b"bcq_"), ("ext-4.9.8", b"topic"), ("ext-5.5.1", b"topic")],
)
def test_queues_that_keep_times_tell_any(name: str, prefix: bytes, data: bytes, tmp_path: Path) -> None:
    place = with_topic(name, prefix)
    root, record = broken(name, place, 8 - len(data), data, tmp_path)
    result, records = saved(name, root, tmp_path)
    assert records[place].raw == record.raw
    (fixed,) = result.restored
    assert fixed.field == "store_timestamp"


@pytest.mark.parametrize("at", [4, 5])
@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1", "rich-4.9.8"])
def test_one_byte_between_neighbours(name: str, at: int, tmp_path: Path) -> None:
    place = with_topic(name, b"topic")
    old = salvages.originals_of(name)[place].raw
    byte = old[time_at(old) + at]
    root, record = broken(name, place, at, bytes((byte ^ 0x5A,)), tmp_path)
    _, records = saved(name, root, tmp_path)
    assert records[place].raw == record.raw


@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.3.3"])
def test_the_index_tells_the_seconds_of_the_last_record(name: str, tmp_path: Path) -> None:
    place = max(salvages.originals_of(name))
    old = salvages.originals_of(name)[place].raw
    root, record = broken(name, place, 4, bytes((old[time_at(old) + 4] ^ 0x99,)), tmp_path)
    known = survey(audit.look_at_store(root, given=given_for(name), jobs=1, kept=DOUBT_CODES))
    read = known.record(place)
    assert read is not None
    bounds = Times(known).of(place, read)
    assert bounds.first_ms is not None
    assert bounds.last_ms is not None
    assert bounds.first_ms <= record.head.store_ms <= bounds.last_ms < bounds.first_ms + 1000
    _, records = saved(name, root, tmp_path)
    assert records[place].raw == record.raw


def test_the_record_behind_a_hole_bounds_a_time_in_front_of_it(tmp_path: Path) -> None:
    """Tombstones in the hole have its time: one that is later would leap out of them in the new store."""
    name, size = "base-5.3.3", 32768
    records = salvages.originals_of(name)
    place, lost, behind = sorted(records)[40:43]
    root, _ = broken(name, place, 4, b"\xff" * 4, tmp_path)
    segment = f"commitlog/{lost - lost % size:020d}"
    golden.apply_edits(root, [["zero", segment, lost % size, len(records[lost].raw)], ["rmtree", "index"]])
    known = survey(audit.look_at_store(root, given=given_for(name), jobs=1, kept=DOUBT_CODES))
    read = known.record(place)
    assert read is not None
    assert Times(known).of(place, read).last_ms == records[behind].head.store_ms


def test_what_nothing_tells_is_kept(tmp_path: Path) -> None:
    name = "base-5.3.3"
    records = salvages.originals_of(name)
    places = sorted(records)
    times = [records[at].head.store_ms for at in places]
    row = next(i for i in range(20, len(places)) if times[i - 1] + 1 < times[i + 1])
    root, _ = broken(name, places[row], 4, b"\xff" * 4, tmp_path)
    result, found = saved(name, root, tmp_path)
    assert result.restored == []
    assert found[places[row]].raw[: log.PHYSICAL_OFFSET_AT] == records[places[row]].raw[: log.PHYSICAL_OFFSET_AT]
    after = audit.check(tmp_path / "new", given={"mappedFileSizeCommitLog": "32768"}, jobs=1)
    assert {f.code for f in after.findings if f.severity != "info"} == {"LOG_TIME"}


@pytest.mark.parametrize(
    ("bounds", "answer"),
    [
        (lambda ms: Stored(ms - 400, ms + 300), True),
        (lambda ms: Stored(None, ms + 100), True),
        (lambda ms: Stored(ms - 100, None), True),
        (lambda ms: Stored(ms, ms), True),
        (lambda ms: Stored(ms - 400, ms + 300).within(ms - 900, ms + 99, "x"), True),
        (lambda ms: Stored(ms - 400, ms + 60_000).within(None, ms + 99, "x"), True),
        (lambda ms: Stored(ms + 1, ms + 300), False),
        (lambda ms: Stored(ms - 400, ms + 300).within(ms - 900, ms - 500, "x"), False),
        (lambda ms: Stored(None, None), False),
        (lambda ms: None, False),
    ],
)  # fmt: skip
def test_bounds_decide(bounds: object, answer: bool) -> None:
    place = with_topic("base-5.3.3", b"topic")
    record = salvages.originals_of("base-5.3.3")[place]
    at = time_at(record.raw)
    data = bytearray(record.raw)
    data[at + 4] ^= 0x5A
    assert callable(bounds)
    known = Known(place, ((len(data), "its own size"),), stored=bounds(record.head.store_ms))
    found = restored(bytes(data), known)
    assert (found is not None and found.raw == record.raw) == answer
    assert answer or found is None


def test_many_leaps_of_which_the_audit_tells_a_range_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records amid the range that do not leap are not looked at, and stay as they are."""
    name, size = "base-5.3.3", 32768
    originals = salvages.originals_of(name)
    rows = sorted(originals)[10:400:3]
    edits = [
        ["write", f"commitlog/{at - at % size:020d}", at % size + time_at(originals[at].raw) + 4, "0000"] for at in rows
    ]
    root = golden.damaged(name, edits, tmp_path / "store")
    monkeypatch.setattr(findings, "MOST_ROWS", 3)
    found = audit.look_at_store(root, given=given_for(name), jobs=1, kept=DOUBT_CODES)
    assert sum(f.count > 1 for f in found.audit.findings if f.code == "LOG_TIME") > 1
    assert survey(found).leaping == set(rows)
    result, records = saved(name, root, tmp_path)
    changed = {at for at, record in records.items() if record.raw != originals[at].raw}
    assert changed <= set(rows)
    assert {fixed.physical_offset for fixed in result.restored} == set(rows) - changed


@pytest.mark.parametrize(("times", "born", "leaping"), [
    ([10, 11, 900, 12, 13], [9, 10, 11, 11, 12], [2]),  # damaged: it was born when its neighbours were
    ([10, 11, 900, 12, 13], [9, 10, 899, 11, 12], []),  # newer, and the next ones are left of an earlier life
    ([10, 11, 900, 12, 13], [13, 14, 15, 15, 16], [2]),  # a client's clock is ahead
    ([10, 11, 2**63 - 1, 12, 13], [9, 10, 11, 11, 12], [2]),
    ([10, 11, -(2**63), 12, 13], [9, 10, 11, 11, 12], [2]),
    ([10, 11, 3, 12, 13], [9, 10, 11, 11, 12], [2]),
    ([900, 12, 13], [11, 11, 12], [0]),
    ([900, 12, 13], [899, 11, 12], []),
    ([11, 900, 12], [11, 899, 11], []),
    ([11, 12, 5], [11, 11, 12], [2]),
])  # fmt: skip
def test_which_store_times_leap(times: list[int], born: list[int], leaping: list[int]) -> None:
    """Of records at the edges of splits, the log's first and last among them."""
    finding = Finding("LOG_TIME", "", 0, 0)
    edges = [
        marks.TimedRecord(*row, False, replace(finding, count=i)) for i, row in enumerate(zip(times, born, strict=True))
    ]
    assert [found.count for found in marks.edge_findings(edges, 1000)] == leaping


def test_times_of_tombstones_are_those_of_records_that_do_not_leap(tmp_path: Path) -> None:
    """At the log's end, with a wild time amid the log; and in front of a damaged record with an intact head."""
    name, size = "base-5.3.3", 32768
    originals = salvages.originals_of(name)
    places = sorted(originals)
    last, wild = places[-1], places[300]
    far = struct.pack(">q", originals[wild].head.store_ms + 400 * 86_400_000)
    assert last - last % size > places[0]
    edits = [
        ["write", f"commitlog/{wild - wild % size:020d}", wild % size + time_at(originals[wild].raw), far.hex()],
        ["zero", f"commitlog/{last - last % size:020d}", last % size + 88, len(originals[last].raw) - 88],
        ["zero", f"commitlog/{places[-2] - places[-2] % size:020d}", places[-2] % size, len(originals[places[-2]].raw)],
    ]
    root = golden.damaged(name, edits, tmp_path / "store")
    result, records = saved(name, root, tmp_path)
    assert sum(part.stop_queue_offset - part.first_queue_offset for part in result.lost) == 2
    times = [records[at].head.store_ms for at in sorted(records) if at != wild]
    assert times == sorted(times)
    assert max(times) <= originals[last].head.store_ms


@pytest.mark.parametrize("data", [b"\xff" * 4, bytes(4), GARBAGE[:3], b"\xff" * 2])
@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1", "rich-4.9.8"])
def test_last_bytes_between_neighbours(name: str, data: bytes, tmp_path: Path) -> None:
    """The first bytes of a time are those of its neighbours, and the others are left."""
    root, record = broken(name, place := with_topic(name, b"topic"), 0, data, tmp_path)
    result, records = saved(name, root, tmp_path)
    assert records[place].raw == record.raw
    assert [fixed.field for fixed in result.restored] == ["store_timestamp"]


@pytest.mark.parametrize(("first", "last", "kept", "answers"), [
    (0x18_1234_5678, 0x18_1234_5690, 4, [0x18_1234_5680]),
    (0x18_1234_5678, 0x18_1234_5690, 2, [0x18_1234_5680]),
    (0x18_1234_5678, 0x18_1234_567F, 2, []),
    (0x18_1234_0000, 0x18_1234_FFFF, 2, []),  # every value of two bytes is there
    (0x18_1234_0000, 0x18_1234_FFFF, 3, [0x18_1234_5680]),
])  # fmt: skip
def test_the_time_that_ends_in_the_bytes_that_are_left(first: int, last: int, kept: int, answers: list[int]) -> None:
    rest = 0x18_1234_5680 & (1 << 8 * kept) - 1
    damaged = 0x7F_EEDD_CCBB_AA99 << 8 * kept & (1 << 63) - 1 | rest
    assert Stored(first, last).answers(damaged) == answers


@pytest.mark.parametrize("shift", [1, 1400])
def test_queues_that_keep_times_tell_them_under_another_name(shift: int, tmp_path: Path) -> None:
    """The unit stands at another number than the record's; what it says of the time is as true."""
    name = "ext-5.5.1"
    place = with_topic(name, b"topic_1")
    root, record = broken(name, place, 0, GARBAGE, tmp_path)
    topic, queue_id = record.name
    files = sorted((root / "consumequeue" / topic / str(queue_id)).iterdir())
    files[-1].rename(files[-1].with_name(f"{int(files[-1].name) + 20 * shift:020d}"))
    assert record.numbers.start * 20 >= int(files[-1].name)
    _, records = saved(name, root, tmp_path)
    assert records[place].raw == record.raw
