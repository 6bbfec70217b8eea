"""Decoders, encoders and text functions: against the test vectors of real brokers, Java's rules and each other."""

from __future__ import annotations

import struct

import golden_data as golden
import implied
import numpy as np
import numpy.typing as npt
import pytest
import slow
import storebuilder
from hypothesis import given
from hypothesis import strategies as st
from walks import QUIET, walk_whole

from storeio import paths
from storeio.errors import LayoutError
from storeio.format import batchqueue, checkpoint, commitlog, consumequeue, index, properties, queueext
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.kernels import text

HASHES = [
    ("TagA", 2598919, 2598919, 2598919),
    ("TagB", 2598920, 2598920, 2598920),
    ("a", 97, 97, 97),
    ("*", 42, 42, 42),
    ("", 0, 0, 0),
    ("标签", 857175, 857175, 857175),
    ("😀", 1772899, 1772899, 1772899),
    ("polygenelubricants", -2147483648, 0, 0),
    ("TopicTest#KEY_1", 173554031, 173554031, 3554031),
    ("T#7F000001", -1972587265, 1972587265, 2587265),
    ("T#k1", 2539445, 2539445, 2539445),
    ("T#k2", 2539446, 2539446, 2539446),
    ("T#T#TagA", -490158619, 490158619, 158619),
]
# Malformed UTF-8 and the string that Java makes of it; R is U+FFFD.
MALFORMED = [
    ("ed a0 80", "R"),
    ("ed a0", "R"),
    ("ed a0 41", "RA"),
    ("ed a0 bd ed b8 80", "RR"),
    ("e6 a0", "R"),
    ("f0 9f 98", "R"),
    ("c0 80", "RR"),
    ("e0 80 af", "RRR"),
    ("f0 80 80 80", "RRRR"),
    ("f4 90 80 80", "RRRR"),
    ("f8 88 80 80 80", "RRRRR"),
    ("e6 ed a0 80 41", "RRA"),
    ("f0 9f ed a0", "RR"),
    ("ed 9f bf ee 80 80", "\ud7ff\ue000"),
]
PAIRS = [
    ("a·01·b", {"a": "b"}),
    ("a·01·b·01·c·02", {"a": "b\x01c"}),
    ("a·01", {}),
    ("a·01·b·02·a·01·c", {"a": "c"}),
    ("01·b·02", {}),
    ("TAGS·01·01·02", {"TAGS": "\x01"}),
    ("ab·02·c·01·d", {"c": "d"}),
    ("TAGS·01·02·KEYS·01·02", {}),
    ("abc·02·d·01·e", {"d": "e"}),
    ("02·02·a·01·b", {"a": "b"}),
]
RECORD = bytes.fromhex(
    "00000087daa320a73610a686000000030000000000000000000000070000000000000400000000"
    "000000018bcfe568007f0000010000c3500000018bcfe5687bc0a8010200002a9f000000000000"
    "0000000000000000000568656c6c6f0154002654414753015461674102554e49515f4b45590137"
    "46303030303031024b455953016b31206b32"
)
RECORD_V6 = bytes.fromhex(
    "00000079daa320a73610a686000000010000000000000000000001020000000000010000000000"
    "100000018bcfe5680020010db800000000000000000000000100002a9f0000018bcfe5687bc0a8"
    "010200002a9f0000000000000000000000000000000568656c6c6f0154000c5441475301e6a087"
    "e7adbe02"
)
TEXTS = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([bytes((b,)) for b in b"\xed\xa0\xbf\x80\xe0\x9f\xf0\x90\xf4\x8f\xc2A\xe6\xef\xf8"])).map(
        b"".join
    ),
    st.text(max_size=20).map(lambda s: s.encode("utf-8", errors="surrogatepass")),
)


def as_bytes(raw: bytes) -> npt.NDArray[np.uint8]:
    """Return bytes as the kernels take them, with others around so that a wrong bound shows."""
    return np.frombuffer(b"\xa0\x80" + raw + b"\x80\xbf1", np.uint8)


def kernel_hash(raw: bytes) -> int:
    """Return the compiled Java hash of UTF-8 bytes."""
    return int(text.as_int32(text.java_hash(as_bytes(raw), 2, 2 + len(raw), 0)))


def properties_text(shown: str) -> bytes:
    """Return a properties string written with dots around 01 and 02."""
    return b"".join(bytes.fromhex(part) if part in ("01", "02") else part.encode() for part in shown.split("·"))


@pytest.mark.parametrize(("string", "java", "key", "slot"), HASHES)
def test_java_hash_vectors(string: str, java: int, key: int, slot: int) -> None:
    assert properties.java_hash(string) == slow.java_hash(string) == kernel_hash(string.encode()) == java
    assert properties.key_hash(string) == slow.key_hash(string) == text.absolute_hash(java) == key
    assert key % index.DEFAULT_SLOTS == slot


@pytest.mark.parametrize(("raw", "shown"), MALFORMED)
def test_malformed_utf8_vectors(raw: str, shown: str) -> None:
    data, string = bytes.fromhex(raw), shown.replace("R", "\ufffd")
    assert properties.java_decode(data) == string
    assert slow.java_text(data) == string
    assert kernel_hash(data) == slow.java_hash(string)


def test_hash_of_malformed_vectors() -> None:
    assert kernel_hash(bytes.fromhex("eda080")) == 65533
    assert kernel_hash(bytes.fromhex("eda0bdedb880")) == 2097056


@QUIET
@given(TEXTS)
def test_texts(raw: bytes) -> None:
    string = slow.java_text(raw)
    assert properties.java_decode(raw) == string
    assert properties.java_hash(string) == slow.java_hash(string) == kernel_hash(raw)


@QUIET
@given(TEXTS)
def test_decode_char_is_one_character_at_a_time(raw: bytes) -> None:
    data, i, string = as_bytes(raw), 2, ""
    while i < 2 + len(raw):
        code, width = text.decode_char(data, i, 2 + len(raw))
        assert 1 <= width <= 2 + len(raw) - i
        string += chr(code)
        i += width
    assert string == slow.java_text(raw)


NUMBERS = [
    "0", "-0", "+7", "007", "-", "+", "", "+-1", " 1", "1 ", "1x", "2147483647", "2147483648", "-2147483648",
    "-2147483649", "99999999999999999999999999", "32767", "32768", "-32768", "-32769", "900000000000000001",
    "-4611686018427387904", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "0000000000000000000000000000000000000000000000000000005",
]  # fmt: skip


def kernel_numbers(string: str) -> list[int | None]:
    """Return an INNER_NUM and an INNER_BASE as the walk parses them; None where the record is none."""
    found: list[int | None] = []
    for text_of, row in ((f"INNER_NUM\x01{string}\x02INNER_BASE\x010", w.R_BATCH_SIZE),
                         (f"INNER_NUM\x010\x02INNER_BASE\x01{string}", w.R_BATCH_BASE)):  # fmt: skip
        builder = storebuilder.StoreBuilder(segment_bytes=1024)
        builder.message("T", 0, properties=text_of.encode())
        walked = walk_whole(0, builder.segment_files()[0][1])
        found.append(int(walked.records[row, 0]) if walked.count else None)
    return found


@pytest.mark.parametrize("string", NUMBERS)
def test_numbers(string: str) -> None:
    assert properties.java_int(string) == slow.java_number(string, 32)
    assert properties.java_long(string) == slow.java_number(string, 64)
    if string:  # an empty value is no property
        assert kernel_numbers(string) == [slow.java_number(string, 16), slow.java_number(string, 64)]


def test_numbers_of_any_length() -> None:
    """A properties string may hold 32 KiB of digits."""
    assert properties.java_int("1" * 30_000) is None
    assert properties.java_long("0" * 30_000 + "12") == 12
    assert properties.java_long("1" * 30_000) is None


def test_digits_outside_ascii_are_digits_to_java() -> None:
    assert properties.java_int("-٣") == -3
    assert properties.java_int("𝟙") is None  # two UTF-16 units, neither of them a digit


@given(st.binary(max_size=12))
@QUIET
def test_fixed_numbers(raw: bytes) -> None:
    raw = raw.ljust(12, b"\xff")
    data = np.frombuffer(raw, np.uint8)
    assert int(text.int32_at(data, 3)) == struct.unpack_from(">i", raw, 3)[0]
    assert int(text.int64_at(data, 3)) == struct.unpack_from(">q", raw, 3)[0]


@pytest.mark.parametrize(("shown", "pairs"), PAIRS)
def test_properties_vectors(shown: str, pairs: dict[str, str]) -> None:
    raw = properties_text(shown)
    assert properties.parse(raw) == slow.java_pairs(slow.java_text(raw))[0] == pairs
    assert kernel_pairs(raw) == {name: value for name, value in pairs.items() if name in KNOWN}


KNOWN = ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "INNER_NUM", "INNER_BASE", "INNER_MULTI_DISPATCH",
         "INNER_MULTI_QUEUE_OFFSET", "__CRC32#"]  # fmt: skip


def kernel_pairs(raw: bytes) -> dict[str, str]:
    """Return what the compiled search for known properties finds."""
    places = np.full(t.PLACES, -1, np.int64)
    data = as_bytes(raw)
    t.find_properties(data, 2, 2 + len(raw), places)
    return {
        name: slow.java_text(data[places[2 * n] : places[2 * n + 1]].tobytes())
        for n, name in enumerate(KNOWN)
        if places[2 * n + 1]
    }


@QUIET
@given(
    st.lists(st.sampled_from([b"\x01", b"\x02", b"x", b"\xed\xa0", *(name.encode() for name in KNOWN)])).map(b"".join)
)
def test_properties_text(raw: bytes) -> None:
    pairs, odd = slow.java_pairs(slow.java_text(raw))
    assert properties.parse(raw) == pairs
    assert kernel_pairs(raw) == {name: value for name, value in pairs.items() if name in KNOWN}
    places = np.zeros(t.PLACES, np.int64)
    t.find_properties(as_bytes(raw), 2, 2 + len(raw), places)
    assert bool(places[2 * t.ODD + 1]) == odd


PIECES = [b"\x01", b"\x02", b"\x01v\x02", b" ", b"\x1f", b"\xc3\xa4", *(f"{name}\x01v\x02".encode() for name in KNOWN),
          b"WAIT\x01true\x02", *(b"x" * n + b"\x01" + b"y" * (67 - n) + b"\x02" for n in range(1, 67))]  # fmt: skip


@QUIET
@given(st.lists(st.sampled_from(PIECES), max_size=80).map(b"".join), st.integers(0, 70))
def test_properties_by_blocks_and_byte_by_byte(raw: bytes, behind: int) -> None:
    """Blocks that end anywhere in them, more separators than there is room for, and a window that ends soon behind."""
    data = np.frombuffer(b"\x02\x01" + raw + (b"\x01\x02x" * 24)[:behind], np.uint8)
    by_blocks, by_bytes = np.full(t.PLACES, -1, np.int64), np.full(t.PLACES, -1, np.int64)
    t.find_properties(data, 2, 2 + len(raw), by_blocks)
    t.find_any(data, 2, 2 + len(raw), by_bytes)
    assert by_blocks[: t.SEPARATORS].tolist() == by_bytes[: t.SEPARATORS].tolist()
    assert bool(by_bytes[t.UNUSUAL]) == any((byte < 32 and byte not in (1, 2)) or byte > 127 for byte in raw)


@pytest.mark.parametrize("pairs", [1, 2, 32, 33, 64, 65, 200])
def test_usual_properties_are_found_by_blocks(pairs: int) -> None:
    """So that the test above compares two ways; more separators than there is room for are left to the other."""
    raw = b"".join(b"%d\x01v\x02" % n for n in range(pairs - 1)) + b"TAGS\x01tag"
    data = np.frombuffer(b"\x02\x01" + raw + b"\x02" * t.WIDE, np.uint8)
    places = np.full(t.PLACES, -1, np.int64)
    found = t.find_usual(data, 2, 2 + len(raw), places)
    assert found == (pairs < 64)
    if found:
        assert data[places[2 * t.TAGS] : places[2 * t.TAGS + 1]].tobytes() == b"tag"


@pytest.mark.parametrize("string", ["", " ", "a", "a b", " a  b ", "  ", "a ", ",", "a,,"])
def test_java_split(string: str) -> None:
    for separator in (" ", ","):
        assert properties.java_split(string, separator) == slow.java_split(string, separator)


def test_record_vector() -> None:
    record = commitlog.decode_record(RECORD)
    assert (record.size, record.queue_id, record.queue_offset, record.physical_offset) == (135, 3, 7, 1024)
    assert (record.born_timestamp_ms, str(record.born_host)) == (1700000000000, "127.0.0.1:50000")
    assert (record.store_timestamp_ms, str(record.store_host)) == (1700000000123, "192.168.1.2:10911")
    assert (record.body, record.topic, record.body_crc) == (b"hello", b"T", commitlog.body_crc(b"hello"))
    assert properties.parse(record.properties) == {"TAGS": "TagA", "UNIQ_KEY": "7F000001", "KEYS": "k1 k2"}
    assert commitlog.encode_record(record) == RECORD


def test_record_vector_with_ipv6_host() -> None:
    record = commitlog.decode_record(RECORD_V6)
    assert (record.size, record.queue_offset, record.physical_offset) == (121, 258, 65536)
    assert str(record.born_host) == "[2001:db8::1]:10911"
    assert properties.java_hash(properties.parse(record.properties)["TAGS"]) == 857175
    assert commitlog.encode_record(record) == RECORD_V6


@pytest.mark.parametrize("raw", [RECORD, RECORD_V6])
def test_a_cut_record_names_the_field(raw: bytes) -> None:
    for length in range(len(raw)):
        with pytest.raises(ValueError, match=r"bytes|does not fit"):
            commitlog.decode_record(raw[:length])


def test_derived_vectors_of_the_record() -> None:
    """The slow derivation gives the bytes that brokers left for the record of the vector."""
    head = slow.read(bytes(1024) + RECORD + bytes(100), 0, 1024, [0])
    settings = implied.Settings(index_slots=4, index_units=5, units_per_file=10, ext=True)
    derived = implied.derive([head], settings)
    assert head.why == 0
    unit = derived.files["consumequeue/T/3/" + "0" * 20][140:160]
    assert unit.hex() == "0000000000000400000000878000000000000000"
    ext = derived.files["consumequeue_ext/T/3/" + "0" * 20]
    assert ext[:20].hex() == "0014000000000027a8070000018bcfe5687b0000"
    plain = implied.derive([head], implied.Settings(units_per_file=10))
    assert plain.files["consumequeue/T/3/" + "0" * 20][140:160].hex() == "000000000000040000000087000000000027a807"
    assert derived.index[0].hex() == (
        "0000018bcfe5687b0000018bcfe5687b000000000000040000000000000004000000000200000004"
        "00000000000000020000000300000000"
        "0000000000000000000000000000000000000000"
        "75934b0100000000000004000000000000000000"
        "0026bfb500000000000004000000000000000001"
        "0026bfb600000000000004000000000000000000"
        "0000000000000000000000000000000000000000"
    )


def test_units_of_the_vectors() -> None:
    unit = consumequeue.decode(bytes.fromhex("000000000000040000000087000000000027a807"))[0]
    assert unit.tolist() == (1024, 135, 2598919)
    blank = consumequeue.decode(bytes.fromhex("00000000000000007fffffff0000000000000000") + bytes(20))
    assert consumequeue.is_pre_blank(blank).tolist() == [True, False]
    assert consumequeue.is_written(blank).tolist() == [True, False]
    assert consumequeue.is_zero(blank).tolist() == [False, True]
    batch = bytes.fromhex(
        "000000000000040000000087000000000027a8070000018bcfe5687b00000000000000070001ffffffff00000000"
    )
    assert batchqueue.decode(batch)[0].tolist() == (1024, 135, 2598919, 1700000000123, 7, 1, -1, 0)
    assert batchqueue.is_zero(batchqueue.decode(bytes(46) + batch)).tolist() == [True, False]
    assert batchqueue.is_written(batchqueue.decode(bytes(46) + batch)).tolist() == [False, True]
    assert not len(batchqueue.is_zero(batchqueue.decode(b"")))
    head = queueext.decode_head(bytes.fromhex("0014000000000027a8070000018bcfe5687b0000"))[0]
    assert head.tolist() == (20, 2598919, 1700000000123, 0)
    addresses = np.array([-(2**63), -(2**63) + 20, -(2**31) - 1, -(2**31)], np.int64)
    assert queueext.is_address(addresses).tolist() == [True, True, True, False]
    assert queueext.position_of(addresses)[:2].tolist() == [0, 20]
    assert commitlog.encode_blank(100).hex() == "00000064cbd43194"


QUEUE_UNITS = st.tuples(
    st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
)


@QUIET
@given(st.lists(QUEUE_UNITS, max_size=8), st.integers(0, 2**40), st.integers(0, 2**62))
def test_consume_queue_predicates(listed: list[tuple[int, int, int]], start: int, stop: int) -> None:
    listed = [*listed, (0, 2**31 - 1, 0), (0, 0, 0), (start, max(min(stop - start, 2**31 - 1), -(2**31)), 5)]
    raw = b"".join(struct.pack(">qiq", *unit) for unit in listed)
    units = consumequeue.decode(raw)
    assert units.tolist() == listed
    columns = [np.array([unit[k] for unit in listed], np.int64) for k in range(3)]
    assert consumequeue.encode(*columns).tobytes() == raw
    written = [offset >= 0 and size > 0 for offset, size, _ in listed]
    filler = [unit == (0, 2**31 - 1, 0) for unit in listed]
    inside = [
        is_written and not is_filler and offset >= start and offset + size <= stop
        for (offset, size, _), is_written, is_filler in zip(listed, written, filler, strict=True)
    ]
    assert consumequeue.is_written(units).tolist() == written
    assert consumequeue.is_pre_blank(units).tolist() == filler
    assert consumequeue.is_zero(units).tolist() == [unit == (0, 0, 0) for unit in listed]
    assert consumequeue.is_inside(units, start=start, stop=stop).tolist() == inside


def test_ragged_bytes_are_refused() -> None:
    for decode in (consumequeue.decode, batchqueue.decode, index.decode_units, queueext.decode_head):
        with pytest.raises(LayoutError):
            decode(bytes(19))
    for decode_one in (index.decode_header, checkpoint.decode):
        with pytest.raises(LayoutError):
            decode_one(bytes(39))


def test_fixed_layouts() -> None:
    assert index.file_length(index.DEFAULT_SLOTS, index.DEFAULT_UNITS) == 420_000_040
    assert checkpoint.decode(struct.pack(">6q", *range(6)) + bytes(4048)).tolist() == tuple(range(6))
    header = index.decode_header(struct.pack(">4q2i", *range(6)))
    assert header.tolist() == tuple(range(6))
    assert index.decode_units(struct.pack(">iqii", 1, 2, 3, 4))[0].tolist() == (1, 2, 3, 4)
    assert index.units_start(4) == 56


@pytest.mark.parametrize(
    ("name", "number"),
    [("00000000000000001000", 1000), ("-1", -1), ("+5", 5), ("٣", 3), ("", None), ("-", None), ("1 ", None),
     ("0x1", None), ("1_0", None), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None)],
)  # fmt: skip
def test_names_as_java_parses_them(name: str, number: int | None) -> None:
    assert paths.parse_number(name) == number


def test_topics_that_may_become_paths() -> None:
    for topic in ("T", "%RETRY%g+t", "%LMQ%$a$b", "a|b", "_-9", "t" * 255):
        assert paths.is_legal_topic(topic)
    for topic in ("", ".", "..", "a/b", "a\n", "\n", "a b", "标", "a\0", "t" * 256, "a\\b"):
        assert not paths.is_legal_topic(topic)


def test_what_paths_say() -> None:
    queue = paths.describe("consumequeue/T/3/00000000000000001000", 1000)
    assert (queue.kind, queue.base_offset, queue.topic, queue.queue_id) == (paths.CONSUMEQUEUE, 1000, "T", 3)
    segment = paths.describe("commitlog/00000000000000032768", 32768)
    assert (segment.kind, segment.base_offset) == (paths.COMMITLOG, 32768)
    assert paths.describe("commitlog/.DS_Store", 1).base_offset is None
    assert paths.describe("consumequeue/T/x/0", 1).base_offset is None
    assert paths.describe("checkpoint", 4096).kind == paths.CHECKPOINT
    assert paths.describe("abort", 0, is_dir=True).kind == paths.OTHER


@pytest.mark.parametrize("name", golden.STORES)
def test_slow_derivation_equals_what_brokers_wrote(name: str) -> None:
    """The oracle of queue and index checks is right: every queue and index byte of every sound store."""
    root, options = golden.store(name), golden.options(name)
    settings = implied.Settings(
        segment_bytes=options["clFile"],
        units_per_file=options["cqEntries"],
        index_slots=options["indexSlots"],
        index_units=options["indexNum"],
        ext="cqExt" in options,
        ext_bytes=options.get("cqExtFile", 0),
        multi_dispatch="set.enableMultiDispatch" in options,
        batch_topics=frozenset(filter(None, options.get("bcqTopics", "").split(","))),
        tag_keys=name.endswith(("5.4.0", "5.5.1")),
    )
    segments = sorted((root / "commitlog").iterdir())
    records = [head for path in segments for head in slow.SlowWalk(path.read_bytes(), int(path.name)).records]
    # Only the last of the three brokers of "upgraded" indexed tags, and only it wrote property CRCs.
    last_broker = (lambda head: bool(head.marks & w.MARK_HAS_PROPERTY_CRC)) if name == "upgraded" else None
    derived = implied.derive(records, settings, tag_keys=last_broker)
    written = {
        str(path.relative_to(root)): path
        for kind in paths.QUEUE_KINDS
        for path in (root / kind).rglob("*")
        if path.is_file()
    }
    assert sorted(derived.files) == sorted(written)
    for path, content in derived.files.items():
        assert written[path].read_bytes() == content, path
    assert [path.read_bytes() for path in sorted((root / "index").iterdir())] == derived.index
