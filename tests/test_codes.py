"""Every code of a finding has a cause, a remedy, an entry in the catalogue, and a store that provokes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest

from storeio import audit
from storeio.codes import CODES
from storeio.format import commitlog as log
from storeio.format import consumequeue, index
from storeio.results import Audit

TOP: Final = Path(__file__).parent.parent

# Damages that were recorded with what a real broker made of them, by the code that they provoke.
RECORDED: Final[dict[str, tuple[str, str]]] = {
    "ABORT_PRESENT": ("fuzz-4.9.8", "fuzz-1-0"),
    "CHECKPOINT_AHEAD": ("fuzz-4.9.8", "fuzz-1-0"),
    "CHECKPOINT_BEHIND": ("fuzz-4.9.8", "fuzz-1-2"),
    "CHECKPOINT_MISSING": ("rows-4.9.8", "57-clean"),
    "CQ_BEYOND_LOG": ("fuzz-4.9.8", "fuzz-1-0"),
    "CQ_DIRTY_TAIL": ("fuzz-4.9.8", "fuzz-1-19"),
    "CQ_HOLE": ("rows-long-5.5.1", "20-clean"),
    "CQ_INTO_DAMAGE": ("fuzz-4.9.8", "fuzz-1-8"),
    "CQ_LENGTH": ("fuzz-4.9.8", "fuzz-1-3"),
    "CQ_MAYBE_MISSING": ("fuzz-4.9.8", "fuzz-1-0"),
    "CQ_MISSING": ("fuzz-4.9.8", "fuzz-1-3"),
    "CQ_PRE_BLANK": ("rows-4.9.8", "54A-clean"),
    "CQ_TAGS_CODE": ("fuzz-4.9.8", "fuzz-1-10"),
    "CQ_UNIT_MISSING": ("fuzz-4.9.8", "fuzz-1-2"),
    "CQ_UNIT_ORPHAN": ("fuzz-5.1.4", "fuzz-1-1"),
    "CQ_UNIT_WRONG": ("fuzz-4.9.8", "fuzz-1-2"),
    "INDEX_BEYOND_LOG": ("fuzz-4.9.8", "fuzz-1-0"),
    "INDEX_HEADER": ("rows-4.9.8", "62-clean"),
    "INDEX_LENGTH": ("rows-4.9.8", "61-clean"),
    "INDEX_MISSING": ("fuzz-4.9.8", "fuzz-1-23"),
    "INDEX_UNIT_MISSING": ("rows-4.9.8", "61-clean"),
    "INDEX_UNIT_ORPHAN": ("fuzz-4.9.8", "fuzz-1-8"),
    "INDEX_UNIT_WRONG": ("fuzz-4.9.8", "fuzz-1-10"),
    "LOG_BLANK_EARLY": ("rows-4.9.8", "33-clean"),
    "LOG_BLANK_MISSING": ("fuzz-4.9.8", "fuzz-1-34"),
    "LOG_BODY_CRC": ("fuzz-4.9.8", "fuzz-1-10"),
    "LOG_DIRTY_TAIL": ("fuzz-4.9.8", "fuzz-1-7"),
    "LOG_FIELD": ("fuzz-4.9.8", "fuzz-1-1"),
    "LOG_GAP": ("fuzz-4.9.8", "fuzz-1-31"),
    "LOG_GARBAGE": ("fuzz-4.9.8", "fuzz-1-8"),
    "LOG_HOLE": ("fuzz-4.9.8", "fuzz-1-11"),
    "LOG_INDEX_DISAGREES": ("fuzz-4.9.8", "fuzz-1-10"),
    "LOG_LENGTH": ("rows-4.9.8", "25-clean"),
    "LOG_MISSING": ("rows-4.9.8", "30-clean"),
    "LOG_PHYSICAL_OFFSET": ("fuzz-4.9.8", "fuzz-1-25"),
    "LOG_PROPERTIES": ("fuzz-4.9.8", "fuzz-1-10"),
    "LOG_QUEUE_OFFSET_GAP": ("fuzz-5.1.4", "fuzz-1-1"),
    "LOG_SEGMENT_MISNAMED": ("rows-4.9.8", "31-clean"),
    "LOG_STARTS_LATE": ("rows-4.9.8", "29-clean"),
    "LOG_TAIL_LOST": ("fuzz-4.9.8", "fuzz-1-0"),
    "LOG_TIME": ("fuzz-4.9.8", "fuzz-1-48"),
    "LOG_TOPIC": ("fuzz-5.1.4", "fuzz-1-1"),
    "LOG_TORN_RECORD": ("fuzz-4.9.8", "fuzz-1-0"),
    "LOG_UNIT_DISAGREES": ("fuzz-4.9.8", "fuzz-1-9"),
    "LOG_UNUSUAL": ("fuzz-4.9.8", "fuzz-1-14"),
    "STRAY_DIRECTORY": ("rows-4.9.8", "28-clean"),
    "STRAY_FILE": ("rows-4.9.8", "27-clean"),
}


def put(path: Path, at: int, data: bytes) -> None:
    """Overwrite bytes of a file, from its end where ``at`` is negative."""
    content = bytearray(path.read_bytes())
    at += len(content) if at < 0 else 0
    content[at : at + len(data)] = data
    path.write_bytes(content)


def shorten(path: Path, by: int) -> None:
    """Cut bytes off a file's end."""
    path.write_bytes(path.read_bytes()[:-by])


def first(root: Path, pattern: str) -> Path:
    """Return the first file of a pattern."""
    return min(path for path in root.glob(pattern) if path.is_file())


def blank_of(root: Path) -> tuple[Path, int]:
    """Return the first segment, and where its blank record begins."""
    segment = first(root, "commitlog/*")
    data = segment.read_bytes()
    return segment, data.rindex(log.MAGIC_BLANK.to_bytes(4, "big", signed=True)) - 4


def end_of(root: Path) -> tuple[Path, int]:
    """Return the last segment that holds records, and where they end."""
    found = audit.check(root, jobs=1)
    base = max(b.path for b in found.bands if b.byte_class == "record")
    return root / base, found.log.max_physical_offset - int(Path(base).name)


def record_with(root: Path, text: bytes) -> tuple[Path, int]:
    """Return a segment and a place in it where a text stands."""
    for segment in sorted(root.glob("commitlog/*")):
        at = segment.read_bytes().find(text)
        if at >= 0:
            return segment, at
    raise AssertionError(text)


def units(path: Path, size: int = consumequeue.UNIT_BYTES) -> int:
    """Return how many units of a file are written."""
    data = path.read_bytes()
    return next(i for i in range(len(data) // size, 0, -1) if any(data[(i - 1) * size : i * size]))


def queue(root: Path) -> Path:
    """Return the last file of an ordinary queue that has several."""
    return max((root / "consumequeue" / "topic_1" / "0").iterdir())


def leave_out_a_unit(path: Path) -> None:
    """Leave one unit out of a queue's last file, the rest moves up."""
    data, size = path.read_bytes(), consumequeue.UNIT_BYTES
    path.write_bytes(data[:size] + data[2 * size :] + bytes(size))


def restart_queue(root: Path) -> None:
    """Number the second half of a queue's records from 0 on again, as a broker does that lost the queue's files."""
    found = [row for row in golden.dump("base-5.3.3") if (row["topic"], row["queue_id"]) == ("topic_1", "0")]
    for number, row in enumerate(found[len(found) // 2 :]):
        base, at = divmod(int(row["phy_offset"]), 32768)
        segment = root / "commitlog" / f"{base * 32768:020d}"
        put(segment, at + log.QUEUE_OFFSET_AT, number.to_bytes(8, "big"))


def copy_into_tail(root: Path) -> None:
    """Write the first record once more behind the end of the log."""
    record = first(root, "commitlog/*").read_bytes()
    segment, end = end_of(root)
    put(segment, end + 100, record[: int.from_bytes(record[:4], "big")])


def dirty_blank(root: Path) -> None:
    segment, at = blank_of(root)
    put(segment, at + 12, b"x")


def wrong_blank(root: Path) -> None:
    segment, at = blank_of(root)
    put(segment, at, (7).to_bytes(4, "big"))


def break_property(root: Path) -> None:
    segment, at = record_with(root, b"__CRC32#\1")
    put(segment, at - 3, b"~")


def break_list(root: Path) -> None:
    segment, at = record_with(root, b"INNER_MULTI_QUEUE_OFFSET\1")
    put(segment, at + len(b"INNER_MULTI_QUEUE_OFFSET\1"), b"x")


def lose_old(root: Path) -> None:
    """Lose the beginning of the log, and a file in the middle of what a queue has of it."""
    for segment in sorted((root / "commitlog").iterdir())[:6]:
        segment.unlink()
    sorted((root / "consumequeue" / "topic_1" / "0").iterdir())[1].unlink()


def create_queue(root: Path) -> None:
    """Create a queue's first file, and write nothing into it."""
    path = root / "consumequeue" / "topic_1" / "7" / f"{0:020d}"
    path.parent.mkdir()
    path.write_bytes(bytes(1000))


def create_batch_queue(root: Path) -> None:
    """Likewise, of a batch queue."""
    path = root / "batchconsumequeue" / "bcq_a" / "7" / f"{0:020d}"
    path.parent.mkdir()
    path.touch()
    os.truncate(path, 13_800_000)


def index_of(root: Path) -> tuple[Path, int, int]:
    """Return the last index file, where its unit 0 lies, and how many units it has, unit 0 included."""
    slots = next(int(s.value) for s in audit.check(root, jobs=1).settings if s.name == "maxHashSlotNum")
    path = max((root / "index").iterdir())
    return path, index.units_start(slots), int(index.decode_header(path.read_bytes())["unit_count"])


def break_chain(root: Path) -> None:
    path, units_at, _ = index_of(root)
    put(path, units_at + 20 * 9 + 16, (500_000).to_bytes(4, "big"))


def index_again(root: Path) -> None:
    """Index the last key once more, all chains as they should be."""
    path, units_at, count = index_of(root)
    data = path.read_bytes()
    unit = data[units_at + 20 * (count - 1) : units_at + 20 * count]
    slot = index.HEADER_BYTES + 4 * (int.from_bytes(unit[:4], "big") % ((units_at - index.HEADER_BYTES) // 4))
    put(path, units_at + 20 * count, unit[:16] + data[slot : slot + 4])
    put(path, slot, count.to_bytes(4, "big"))
    put(path, 36, (count + 1).to_bytes(4, "big"))


def later_by(delay_ms: int) -> Callable[[Path], None]:
    """Return the damage by which a delayed message has been stored under another delay."""

    def damage(root: Path) -> None:
        path = first(root, "consumequeue/SCHEDULE_TOPIC_XXXX/*/*")
        put(path, 12, (int.from_bytes(path.read_bytes()[12:20], "big") + delay_ms).to_bytes(8, "big"))

    return damage


def loop(root: Path) -> None:
    path = first(root, "index/*")
    path.unlink()
    path.symlink_to(path.name)


def shift_batch(by: int) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        path = first(root, "batchconsumequeue/bcq_a/0/*")
        value = int.from_bytes(path.read_bytes()[:8], "big")
        put(path, 0, (value + by).to_bytes(8, "big"))

    return damage


def swap_batch(root: Path) -> None:
    path = first(root, "batchconsumequeue/bcq_a/0/*")
    other = first(root, "batchconsumequeue/bcq_a/0/*").read_bytes()[46 : 46 + 8]
    put(path, 0, other)


def ext(at: int, data: bytes) -> Callable[[Path], None]:
    return lambda root: put(first(root, "consumequeue_ext/*/*/*"), at, data)


MADE: Final[dict[str, tuple[str, Callable[[Path], object]]]] = {
    "BCQ_LENGTH": ("rich-5.5.1", lambda root: shorten(first(root, "batchconsumequeue/*/*/*"), 46)),
    "EXT_LENGTH": ("ext-5.5.1", lambda root: shorten(first(root, "consumequeue_ext/*/*/*"), 1)),
    "MISALIGNED_NAME": ("base-5.3.3", lambda root: queue(root).rename(queue(root).with_name(f"{7:020d}"))),
    "QUEUE_TYPE": ("base-5.3.3", lambda root: golden.declare(root, {"topic_1": "BatchCQ"})),
    "QUEUE_ELSEWHERE": ("base-5.3.3", lambda root: (root / "consumequeue").rename(root / "batchconsumequeue")),
    "UNREADABLE": ("base-5.3.3", loop),
    "UNSUPPORTED_LAYOUT": ("base-5.3.3", lambda root: (root / "dledger-n0").mkdir()),
    "STRAY_PASSED_OVER": ("base-5.3.3", lambda root: (root / "consumequeue" / "notes").write_bytes(b"left here")),
    "LOG_BLANK_SIZE": ("base-5.3.3", wrong_blank),
    "LOG_BLANK_DIRTY": ("base-5.3.3", dirty_blank),
    "LOG_STALE": ("base-5.3.3", copy_into_tail),
    "LOG_PROPERTY_CRC": ("rich-5.5.1", break_property),
    "LOG_MULTI_DISPATCH": ("rich-5.3.3", break_list),
    "LOG_QUEUE_OFFSET_REPEATED": ("base-5.3.3", restart_queue),
    "CQ_SHIFTED": ("base-5.3.3", lambda root: leave_out_a_unit(queue(root))),
    "CQ_GAP": ("base-5.3.3", lose_old),
    "CQ_UNWRITTEN": ("base-5.3.3", create_queue),
    "CQ_DELIVER_TIME": (
        "rich-4.9.8",
        lambda root: put(first(root, "consumequeue/SCHEDULE_TOPIC_XXXX/*/*"), 12, (4711).to_bytes(8, "big")),
    ),
    "CQ_DELAY_LEVEL": ("rich-4.9.8", later_by(7000)),
    "BCQ_MISSING": ("rich-5.5.1", lambda root: first(root, "batchconsumequeue/bcq_a/0/*").unlink()),
    "BCQ_UNWRITTEN": ("rich-5.5.1", create_batch_queue),
    "BCQ_UNIT_MISSING": (
        "rich-5.5.1",
        lambda root: put(
            first(root, "batchconsumequeue/bcq_a/0/*"),
            46 * (units(first(root, "batchconsumequeue/bcq_a/0/*"), 46) - 1),
            bytes(46),
        ),
    ),
    "BCQ_UNIT_WRONG": ("rich-5.5.1", swap_batch),
    "BCQ_UNIT_ORPHAN": ("rich-5.5.1", shift_batch(1)),
    "BCQ_DIRTY_TAIL": ("rich-5.5.1", lambda root: put(first(root, "batchconsumequeue/bcq_a/0/*"), -1, b"x")),
    "EXT_CHAIN": ("ext-5.5.1", ext(0, b"\x7f\xff")),
    "INDEX_CHAIN": ("base-5.3.3", break_chain),
    "INDEX_ORDER": ("base-5.5.1", lambda root: first(root, "index/*").rename(root / "index/20991231235959999")),
    "INDEX_COPY": ("base-5.5.1", lambda root: shutil.copyfile(max(root.glob("index/*")), root / "index/2099")),
    "INDEX_DUPLICATE": ("base-5.3.3", index_again),
    "INDEX_DIRTY_TAIL": ("base-5.3.3", lambda root: put(max((root / "index").iterdir()), -1, b"x")),
    "CHECKPOINT_LENGTH": ("base-5.3.3", lambda root: shorten(root / "checkpoint", 4000)),
    "CHECKPOINT_FIELD": ("base-5.3.3", lambda root: put(root / "checkpoint", 0, b"\xff")),
}


def provoked(code: str, place: Path) -> Audit:
    """Return the audit of a store that was damaged so that it has a finding of the code."""
    if code in RECORDED:
        name, case_id = RECORDED[code]
        (case,) = (case for case in golden.cases(name) if case["id"] == case_id)
        return audit.check(golden.damaged(golden.base_of(name), case["edits"], place), jobs=1)
    name, damage = MADE[code]
    root = golden.copy_of(name, place)
    damage(root)
    return audit.check(root, jobs=1)


def test_all_codes_are_here() -> None:
    assert sorted([*RECORDED, *MADE]) == sorted(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_store_provokes_it(code: str, tmp_path: Path) -> None:
    found = [finding for finding in provoked(code, tmp_path / "store").findings if finding.code == code]
    assert found
    row = CODES[code]
    assert {(one.sentence, one.cause, one.remedy) for one in found} == {(row.sentence, row.cause, row.remedy)}
    sound = audit.check(golden.store(base_of(code)), jobs=1)
    assert CODES[code].severity == "info" or code not in {finding.code for finding in sound.findings}


def base_of(code: str) -> str:
    """Return the sound store that was damaged."""
    return golden.base_of(RECORDED[code][0]) if code in RECORDED else MADE[code][0]


@pytest.mark.parametrize("code", sorted(CODES))
def test_it_is_explained(code: str) -> None:
    row = CODES[code]
    assert row.sentence and row.cause.endswith(".") and row.remedy.endswith(".")
    assert f"| `{code}` | {row.severity} | {row.sentence} | {row.cause} | {row.remedy} |" in (
        TOP / "docs" / "findings.md"
    ).read_text(encoding="utf-8")
