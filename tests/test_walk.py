"""The compiled walk equals the slow, obvious decoder on sound, odd and damaged logs."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import slow
from damage import add_to_field, append, damaged_segments, logs, set_field, zero
from hypothesis import given, settings
from storebuilder import StoreBuilder, forged
from walks import QUIET, Reader, row_of, rows_of, walk_whole

import storeio.walk
import storeio.window
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.kernels.longcrc import ENOUGH_BYTES
from storeio.walk import Walked, walk_split


def spans_of(walked: Walked) -> list[slow.Span]:
    """Return the spans as tuples."""
    return [tuple(column) for column in walked.spans.T.tolist()]


def assert_agrees(base: int, data: bytes) -> slow.SlowWalk:
    """Compare both walks over a segment; return the slow one."""
    oracle = slow.SlowWalk(data, base)
    walked = walk_whole(base, data)
    assert spans_of(walked) == oracle.spans
    assert rows_of(walked) == [row_of(head) for head in oracle.records]
    assert (walked.end.position, walked.end.mode) == (oracle.position, oracle.mode)
    assert_same_in_pieces(base, data, walked)
    assert [(0, 0), *[span[:2] for span in oracle.spans], (len(data), 0)][-2][1] == len(data)
    return oracle


def assert_same_in_pieces(base: int, data: bytes, whole: Walked) -> None:
    """Compare the walk with one through a window that slides over the segment, records cut by its ends."""
    for piece in (100, 700):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storeio.window, "LOOK_AHEAD_BYTES", 1)
            read = Reader(np.frombuffer(data, np.uint8))
            walked = walk_split(read, whole.split, piece_bytes=piece)
        assert spans_of(walked) == spans_of(whole)
        assert rows_of(walked) == rows_of(whole)
        assert (walked.end, walked.asked) == (whole.end, whole.asked)
        for position, size in walked.records[[w.R_POSITION, w.R_SIZE]].T.tolist():
            assert walked.field(position, size) == data[position : position + size]


def small_tables(columns: tuple[int, int, int, int], slots: int) -> storeio.walk._Tables:
    """Return tables with room for so many records, keys, spans and queues, full of nonsense."""
    rows = (w.RECORD_ROWS, 3, 4, 6)
    records, keys, spans, queues = (np.full(shape, -7, np.int64) for shape in zip(rows, columns, strict=True))
    names = np.full(w.NAMES_FROM + columns[3], 7, np.uint8)
    return storeio.walk._Tables(records, keys, spans, queues, names, np.zeros(slots, np.int64))


@settings(QUIET, max_examples=60)
@given(logs())
def test_sound_logs(builder: StoreBuilder) -> None:
    rows = 0
    for base, data in builder.segment_files():
        oracle = assert_agrees(base, data)
        rows += len(oracle.records)
        assert {kind for _, _, kind, _ in oracle.spans} <= {w.RECORD, w.BLANK, w.ZERO, w.TORN}
    # Only what Java cannot parse is no record: INNER_NUM=x.
    assert rows <= builder.messages


def test_damaged_segments() -> None:
    """The random damages reach every class and reason, else this would prove less than it seems to."""
    seen: set[tuple[int, int]] = set()

    @settings(QUIET, max_examples=400)
    @given(damaged_segments())
    def compare(segment: tuple[int, bytes]) -> None:
        seen.update((kind, why) for _, _, kind, why in assert_agrees(*segment).spans)

    compare()
    assert {kind for kind, _ in seen} == {w.RECORD, w.BLANK, w.ZERO, w.STALE, w.TORN, w.GARBAGE}
    reasons = {h.WHY_MAGIC, h.WHY_SIZE, h.WHY_BODY_LENGTH, h.WHY_TOPIC_LENGTH, h.WHY_FORMULA, h.WHY_BODY_CRC}
    reasons |= {w.WHY_BLANK_SIZE, w.WHY_BLANK_DIRTY, w.WHY_MISPLACED, w.WHY_OLDER, w.WHY_SEARCHED}
    assert reasons <= {why for _, why in seen}


@settings(QUIET, max_examples=60)
@given(damaged_segments(segment_bytes=2048, most_damages=2))
def test_tables_that_are_full_at_every_row(segment: tuple[int, bytes]) -> None:
    """Room for one row at first, so that every table is full at every size and the walk comes again."""
    base, data = segment

    def tiny(count: int) -> storeio.walk._Tables:
        return small_tables((1, 1, 1, 1), 4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storeio.walk._Tables, "for_bytes", staticmethod(tiny))
        assert_agrees(base, data)


def three_records(properties: bytes = b"", fields: dict[str, int] | None = None) -> bytes:
    """Return a segment of three small records, the middle one with fields set as damage would."""
    builder = StoreBuilder(segment_bytes=1024)
    placed = [builder.message("T", 0, b"body", properties=text) for text in (b"", properties, b"")]
    data = bytearray(builder.segment_files()[0][1])
    for name, value in (fields or {}).items():
        set_field(data, placed[1].physical_offset, name, value)
    return bytes(data)


@pytest.mark.parametrize("value", [-(2**62), -(2**62) + 1, -(2**63), 2**62, 2**63 - 1, -1, 0])
@pytest.mark.parametrize("name", ["queue_offset", "store_timestamp", "born_timestamp", "physical_offset", "prepared"])
def test_no_number_in_a_field_is_special(name: str, value: int) -> None:
    """A broker accepts any of them: all three are records."""
    assert len(assert_agrees(0, three_records(fields={name: value})).records) == 3


@pytest.mark.parametrize(("flag", "odd"), [(0x400, True), (0x500, True), (0x401, False), (0x300, False), (0x800, True)])
def test_flags_that_no_broker_sets(flag: int, odd: bool) -> None:
    """No version has a compression type from 4 on; one that has says that it has compressed."""
    marks = [head.marks for head in assert_agrees(0, three_records(fields={"sys_flag": flag})).records]
    assert [bool(mark & w.MARK_SYS_FLAG) for mark in marks] == [False, odd, False]
    assert bool(log.unset_flags(flag)) == odd


@pytest.mark.parametrize(("flag", "unnumbered"), [(0, False), (4, True), (8, False), (0xC, True)])
@pytest.mark.parametrize("number", [0, 1, 2**40])
def test_prepared_and_rolled_back_records_have_no_number(flag: int, unnumbered: bool, number: int) -> None:
    data = three_records(fields={"sys_flag": flag, "queue_offset": number})
    marks = [head.marks for head in assert_agrees(0, data).records]
    odd = unnumbered and number != 0
    assert [bool(mark & w.MARK_SYS_FLAG) for mark in marks] == [False, odd, False]
    assert log.fits_number(flag, number) == (not odd)


@pytest.mark.parametrize("store_ms", [-(2**62), -(2**63), 0])
def test_odd_store_time_before_damage(store_ms: int) -> None:
    """A store time is remembered as it is: what resumes behind damage is compared with it."""
    builder = StoreBuilder(segment_bytes=2048)
    first = builder.message("T", 0, b"a" * 50, born_ms=1)
    hole = builder.message("T", 0, b"b" * 50)
    builder.message("T", 0, b"c" * 50, store_ms=-(2**62) - 9, born_ms=1)
    data = bytearray(builder.segment_files()[0][1])
    set_field(data, first.physical_offset, "store_timestamp", store_ms)
    zero(data, hole.physical_offset, hole.physical_offset + 100)
    oracle = assert_agrees(0, bytes(data))
    assert (w.STALE in [kind for _, _, kind, _ in oracle.spans]) == (store_ms > -(2**62) - 9)


@pytest.mark.parametrize("count", ["1", "32767", "32768", "-32768", "-32769", "70000", "0001", "x", "+2", ""])
@pytest.mark.parametrize("base", ["7", "900000000000000001", "9223372036854775807", "9223372036854775808", "0" * 50])
def test_inner_batch_numbers_are_a_short_and_a_long(count: str, base: str) -> None:
    text = f"INNER_NUM\x01{count}\x02INNER_BASE\x01{base}\x02"
    oracle = assert_agrees(0, three_records(text.encode()))
    accepted = not count or (count.lstrip("+-").isdigit() and -32768 <= int(count) <= 32767 and int(base) < 2**63)
    assert len(oracle.records) == (3 if accepted else 2)


@pytest.mark.parametrize("level", ["1", "18", "19", "2147483647", "2147483648", "-1", "0", "x", "0" * 45 + "3"])
def test_delay_levels(level: str) -> None:
    builder = StoreBuilder(segment_bytes=1024)
    builder.message("SCHEDULE_TOPIC_XXXX", 0, b"b", tags="TagA", properties={"DELAY": level})
    builder.message("T", 0, b"b", tags="TagA", properties={"DELAY": level})
    oracle = assert_agrees(0, builder.segment_files()[0][1])
    assert oracle.records[-1].tags_code == 2598919


def test_schedule_vector() -> None:
    builder = StoreBuilder(segment_bytes=1024)
    builder.message("T", 0, b"b", delay=3, store_ms=1700000000123)
    assert walk_whole(0, builder.segment_files()[0][1]).records[w.R_TAGS_CODE].tolist() == [1700000010123]


def test_a_full_span_table_changes_nothing() -> None:
    """The walk comes again where a stale record behind a gap found no room."""
    builder = StoreBuilder(segment_bytes=8192)
    builder.message("T", 0, b"a" * 50)
    for _ in range(12):
        builder.raw(forged(12345, body=b"from elsewhere"))
        builder.raw(forged(builder.end)[:-9])
    data = builder.segment_files()[0][1]
    oracle = slow.SlowWalk(data)
    assert sum(kind == w.STALE for _, _, kind, _ in oracle.spans) > 3
    for room in range(1, len(oracle.spans) + 1):

        def tables(count: int, room: int = room) -> storeio.walk._Tables:
            return small_tables((64, 64, room, 64), 256)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storeio.walk._Tables, "for_bytes", staticmethod(tables))
            assert spans_of(walk_whole(0, data)) == oracle.spans


@pytest.mark.parametrize("size", [*range(130), 255, 256, 257])
def test_short_segments_of_anything(size: int) -> None:
    """A segment may be cut anywhere, and hold a record's head without its end."""
    builder = StoreBuilder(segment_bytes=4096)
    append(builder, "v6", 60, 1)
    data = builder.segment_files()[0][1]
    for segment in (bytes(size), data[:size], data[:8] * (size // 8), b"\xda" * size, log.encode_blank(size)[:size]):
        if segment:
            assert_agrees(0, segment)


def test_a_wrong_length_reads_nothing_outside() -> None:
    """Every length that a record can claim, at the segment's very end."""
    builder = StoreBuilder(segment_bytes=1024)
    while builder.left > 400:
        builder.message("T", 0, b"x" * 20)
    last = builder.message("T", 0, b"y" * 200)
    sound = builder.segment_files()[0][1]
    for name in ("size", "body_length"):
        for difference in [*range(-250, 200, 3), 2**30, -(2**30), 2**31 - 600, -(2**31) + 600]:
            data = bytearray(sound)
            add_to_field(data, last.physical_offset, name, difference)
            assert_agrees(0, bytes(data))


def test_property_crc_is_checked() -> None:
    builder = StoreBuilder(segment_bytes=4096, property_crc=True)
    first = builder.message("T", 0, b"body", tags="TagA", properties={"a": "b"})
    builder.message("T", 0, b"body")
    data = bytearray(builder.segment_files()[0][1])
    assert [head.marks for head in assert_agrees(0, bytes(data)).records] == [w.MARK_HAS_PROPERTY_CRC] * 2
    set_field(data, first.physical_offset, "flag", 5)  # nothing else guards it
    marks = [head.marks for head in assert_agrees(0, bytes(data)).records]
    assert marks == [w.MARK_HAS_PROPERTY_CRC | w.MARK_PROPERTY_CRC, w.MARK_HAS_PROPERTY_CRC]


@pytest.mark.parametrize("junk", [0, 40])
@pytest.mark.parametrize("kept", [0, 1, 60])
def test_a_copy_that_is_cut_off_hides_no_record(junk: int, kept: int) -> None:
    """What a copied range ends with reaches over the true record behind it: no CRC covers its properties."""
    elsewhere = StoreBuilder(segment_bytes=4096)
    elsewhere.message("T", 0, b"in front")
    copied = elsewhere.message("T", 0, b"body", properties=b"name\x01" + b"x" * 400 + b"\x02")
    raw = elsewhere.segment_files()[0][1][copied.physical_offset : elsewhere.end]
    builder = StoreBuilder(segment_bytes=4096)
    builder.message("T", 0, b"of another size")
    builder.raw(b"." * junk + raw[: len(raw) - 406 + kept])
    hidden = [builder.message("T", 0, b"true").physical_offset for _ in range(3)]
    oracle = assert_agrees(0, builder.segment_files()[0][1])
    assert [head.position for head in oracle.records[1:]] == hidden
    assert w.STALE not in [kind for _, _, kind, _ in oracle.spans]


@pytest.mark.parametrize("shift", [0, 1])
def test_a_length_that_leads_to_the_free_tail_hides_no_record(shift: int) -> None:
    """Behind the log's last record zeros lie wherever a damaged length leads."""
    builder = StoreBuilder(segment_bytes=8192)
    first = builder.message("T", 0, b"first", properties=b"a\x01b\x02")
    hidden = [builder.message("T", 0, b"true").physical_offset for _ in range(3)]
    data = bytearray(builder.segment_files()[0][1])
    stop = hidden[0]
    data[stop - 6 : stop - 4] = struct.pack(">h", 4000)
    data[first.physical_offset + 3] ^= 1
    data = data[:stop] + bytes(shift) + data[stop : len(data) - shift]
    oracle = assert_agrees(0, bytes(data))
    kind = w.STALE if shift else w.RECORD
    assert (hidden[0] + shift, builder.end + shift, kind) in [span[:3] for span in oracle.spans]


@pytest.mark.parametrize("more", [0, 1])
def test_bytes_that_are_no_head_hide_no_record(more: int) -> None:
    """A number where a size would stand leads to a start: without a magic code that proves nothing against a record."""
    builder = StoreBuilder(segment_bytes=4096)
    builder.message("T", 0, b"in front")
    at = builder.raw(b"." * 20)
    hidden = [builder.message("T", 0, b"true" * 20).physical_offset for _ in range(3)]
    data = bytearray(builder.segment_files()[0][1])
    data[at : at + 4] = struct.pack(">i", hidden[1 + more] - at)
    oracle = assert_agrees(0, bytes(data))
    assert [head.position for head in oracle.records[1:]] == hidden


def test_heads_that_all_claim_the_same_bytes() -> None:
    """Their bodies are many times the segment, and each is judged as if it were alone."""
    step, count, body_at = 192, 1000, log.MIN_RECORD_BYTES - 3
    builder = StoreBuilder(segment_bytes=1 << 19)
    builder.message("T", 0, b"in front")
    first = builder.end
    end = first + step * count
    data = bytearray(builder.segment_files()[0][1])
    data[first:end] = np.random.default_rng(5).integers(0, 256, end - first, dtype=np.uint8).tobytes()
    data[end : end + 40] = b"\x01T\0\0" + b"." * 36  # the claims end in front of no start
    heads = range(first, end - step, step)
    for at in heads:
        data[at : at + body_at] = forged(at, topic="", body=b"", store_ms=2**41)[:body_at]
        struct.pack_into(">i", data, at, end + 4 - at)
        struct.pack_into(">i", data, at + body_at - 4, end - at - body_at)
    right = heads[700]
    struct.pack_into(">i", data, right + log.BODY_CRC_AT, log.body_crc(bytes(data[right + body_at : end])))
    claimed = sum(end - at - body_at for at in heads)
    assert claimed > 2 * (2 * len(data) + ENOUGH_BYTES)
    oracle = assert_agrees(0, bytes(data))
    assert [head.position for head in oracle.records] == [0, right]
