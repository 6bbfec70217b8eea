"""Named, deterministic ways to break a store's bytes, and the random logs and damages of the property tests."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from implied import COMMIT, PREPARED, ROLLBACK
from storebuilder import LOCAL_V6, StoreBuilder, forged

from storeio.format import commitlog as log

# Where the fields of a record with IPv4 hosts lie, and their struct codes.
FIELDS: Final = {
    "size": (0, ">i"),
    "magic": (4, ">i"),
    "body_crc": (8, ">i"),
    "queue_id": (12, ">i"),
    "flag": (16, ">i"),
    "queue_offset": (20, ">q"),
    "physical_offset": (28, ">q"),
    "sys_flag": (36, ">i"),
    "born_timestamp": (40, ">q"),
    "born_port": (52, ">i"),
    "store_timestamp": (56, ">q"),
    "store_port": (68, ">i"),
    "reconsume": (72, ">i"),
    "prepared": (76, ">q"),
    "body_length": (84, ">i"),
}


def set_field(data: bytearray, record_at: int, field: str, value: int) -> None:
    """Give a field of the record at ``record_at`` another value; everything else stays."""
    offset, form = FIELDS[field]
    struct.pack_into(form, data, record_at + offset, value)


def add_to_field(data: bytearray, record_at: int, field: str, difference: int) -> None:
    """Add to a field of the record at ``record_at``."""
    offset, form = FIELDS[field]
    set_field(data, record_at, field, struct.unpack_from(form, data, record_at + offset)[0] + difference)


def flip_bit(data: bytearray, position: int, bit: int = 0) -> None:
    """Flip one bit."""
    data[position] ^= 1 << bit


def zero(data: bytearray, start: int, stop: int) -> None:
    """Zero a range."""
    data[start:stop] = bytes(len(data[start:stop]))


def overwrite(data: bytearray, position: int, piece: bytes) -> None:
    """Write a piece over what is there, cut off at the end of the file."""
    piece = piece[: max(len(data) - position, 0)]
    data[position : position + len(piece)] = piece


def swap(data: bytearray, first: int, second: int, length: int) -> None:
    """Exchange two pieces of one length; they do not overlap and lie inside."""
    data[first : first + length], data[second : second + length] = (
        data[second : second + length],
        data[first : first + length],
    )


# ---- Random logs

Draw = Callable[[st.SearchStrategy[Any]], Any]
MESSAGES: Final = (
    "plain", "empty", "tagged", "keyed", "odd", "malformed", "v6", "long", "delayed", "prepared", "commit", "rollback",
    "batch", "inner", "compressed", "light", "crc", "forged", "forged_newer", "forged_blank", "large",
)  # fmt: skip
TAGS: Final = ("TagA", "标签", "😀 x", "polygenelubricants", "\u20ac")
ODD_PROPERTIES: Final = (
    b"a\x01b", b"ab\x02c\x01d", b"\x02\x02TAGS\x01b", b"\x01TAGS\x01t\x02", b"TAGS\x01\x01\x02", b"KEYS\x01 a  b \x02",
    b"KEYS\x01k\x01l\x02KEYS\x01m", b"DELAY\x01x\x02TAGS\x01t", b"INNER_NUM\x012\x02INNER_BASE\x01-5\x02",
    b"INNER_NUM\x01+3\x02INNER_BASE\x01007\x02", b"INNER_NUM\x01x\x02INNER_BASE\x011\x02", b"TAGS\x01", b"\x02", b"",
)  # fmt: skip
MALFORMED: Final = (
    b"TAGS\x01\xed\xa0\x80\x02", b"KEYS\x01a\xed\xa0 \xf0\x9f\x98\x02", b"TAGS\x01\xc0\x80\xe0\x80\xaf\x02",
    b"UNIQ_KEY\x01\xf4\x90\x80\x80\xed\xa0\xbd\xed\xb8\x80\x02TAGS\x01\xe6\xa0",
)  # fmt: skip


def _forge(builder: StoreBuilder, body_bytes: int, lead: int, what: str) -> bytes:
    """Return a body that holds an intact record of its own place, or a blank record with the right size."""
    builder.make_room(91 + len("T") + body_bytes)
    at = builder.end + 88 + lead
    if what == "forged_blank":
        rest = builder.settings.segment_bytes - (at - builder.base) % builder.settings.segment_bytes
        inside = log.encode_blank(rest)
    else:
        inside = forged(at, store_ms=builder.now_ms + 1 if what == "forged_newer" else 1_600_000_000_000)
    return (b"." * lead + inside).ljust(body_bytes, b"-")


def append(builder: StoreBuilder, what: str, size: int, number: int) -> None:
    """Append one message of a kind; ``size`` and ``number`` shape it."""
    body = bytes((number * 7 + k * k) % 256 for k in range(size))
    topic = f"T{number % 3}"
    match what:
        case "empty":
            builder.message(topic, tags="TagA")
        case "tagged":
            builder.message(topic, 1, body, tags=TAGS[number % len(TAGS)])
        case "keyed":
            builder.message("主题", 0, body, keys="k1 k2  k1", unique_key=f"7F{number:06X}")
        case "odd":
            builder.message(topic, 0, body, properties=ODD_PROPERTIES[number % len(ODD_PROPERTIES)])
        case "malformed":
            builder.message(topic, 0, body, properties=MALFORMED[number % len(MALFORMED)])
        case "v6":
            builder.message(topic, 2, body, born_host=LOCAL_V6)
            builder.message(topic, 2, body, store_host=LOCAL_V6, tags="TagB")
        case "long":
            builder.message("t" * (128 + number % 9), 0, body)
        case "delayed":
            builder.message(topic, 0, body, delay=1 + number % 18, tags="TagA")
        case "prepared" | "commit" | "rollback":
            kind = {"prepared": PREPARED, "commit": COMMIT, "rollback": ROLLBACK}[what]
            builder.message(topic, 0, body, transaction=kind, keys="tx")
        case "batch":
            builder.batch(topic, 3, [body[: size // 3]] * 3, tags="TagC")
        case "inner":
            builder.message("batched", 0, body, inner=1 + number % 5)
        case "compressed":
            builder.message(topic, 0, body, compressed=True)
        case "light":
            builder.message(topic, 0, body, lmq=("%LMQ%a", "%LMQ%b"))
        case "crc":
            builder.message(topic, 0, body, properties=b"a\x01b\x02__CRC32#\x01" + f"{number:010d}".encode() + b"\x02")
        case "forged" | "forged_newer" | "forged_blank":
            body = _forge(builder, 160 + size, number % 40, what)
            builder.message("T", 0, body)
        case "large":
            builder.message(topic, 0, body * 4)
        case _:
            builder.message(topic, 0, body)


@st.composite
def logs(draw: Draw, *, segment_bytes: int = 4096, most: int = 14) -> StoreBuilder:
    """Return a small random log of one or a few segments, not always starting at 0."""
    builder = StoreBuilder(
        base=segment_bytes * draw(st.sampled_from([0, 3])),
        segment_bytes=segment_bytes,
        property_crc=draw(st.booleans()),
        trailing_separator=draw(st.booleans()),
    )
    messages = st.tuples(st.sampled_from(MESSAGES), st.sampled_from([0, 9, 60, 200, 350]), st.integers(0, 50))
    for what, size, number in draw(st.lists(messages, min_size=1, max_size=most)):
        append(builder, what, size, number)
    return builder


# ---- Random damage of one segment

SPECIAL: Final = (0, -1, 1, 90, 91, 92, 2**31 - 1, -(2**31), 2**29 + 1)
STEPS: Final = (-(2**16), -4096, -64, -1, 1, 64, 4096)
DAMAGES: Final = (
    "flip", "field", "step", "zero", "noise", "copy", "foreign", "swap", "cut", "insert", "head_zero", "magic",
    "blank_here", "older",
)  # fmt: skip


@st.composite
def damaged_segments(draw: Draw, *, segment_bytes: int = 4096, most_damages: int = 4) -> tuple[int, bytes]:
    """Return base offset and bytes of one segment of a random log, damaged up to a few times."""
    builder = draw(logs(segment_bytes=segment_bytes))
    segments = builder.segment_files()
    chosen = draw(st.integers(0, len(segments) - 1))
    base, original = segments[chosen]
    data = bytearray(original)
    starts = [head.position for head in builder.records() if original[head.position :].startswith(head.raw)]
    for _ in range(draw(st.integers(0, most_damages))):
        _damage(draw, data, starts or [0], base, segments)
        if len(data) < 200:
            break
    return base, bytes(data)


def _damage(draw: Draw, data: bytearray, starts: list[int], base: int, segments: list[tuple[int, bytes]]) -> None:
    at = min(draw(st.sampled_from(starts)), len(data) - 100)
    anywhere = draw(st.one_of(st.just(at), st.integers(0, len(data) - 100)))
    length = draw(st.sampled_from([1, 4, 8, 63, 64, 65, 130, 500, 2000]))
    match draw(st.sampled_from(DAMAGES)):
        case "flip":
            flip_bit(data, at + draw(st.integers(0, 99)), draw(st.integers(0, 7)))
        case "field":
            set_field(data, at, draw(st.sampled_from(sorted(FIELDS))), draw(st.sampled_from(SPECIAL)))
        case "step":
            field = draw(st.sampled_from(["size", "physical_offset", "store_timestamp", "body_length", "queue_offset"]))
            offset, form = FIELDS[field]
            value = struct.unpack_from(form, data, at + offset)[0] + draw(st.sampled_from(STEPS))
            bits = 8 * struct.calcsize(form)
            set_field(data, at, field, (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))
        case "zero":
            zero(data, anywhere, anywhere + length)
        case "noise":
            overwrite(data, anywhere, draw(st.binary(min_size=1, max_size=120)))
        case "copy":
            overwrite(data, anywhere, bytes(data[at : at + length]))
        case "foreign":
            piece = draw(st.sampled_from(segments))[1]
            overwrite(data, at, piece[at : at + 4 * length])
        case "swap":
            other = min(draw(st.sampled_from(starts)), len(data) - 100)
            first, second = sorted((at, other))
            count = min(length, second - first, len(data) - second)
            swap(data, first, second, count)
        case "cut":
            del data[anywhere + 100 :]
        case "insert":
            size = len(data)
            data[anywhere:anywhere] = bytes(length % 97)
            del data[size:]
        case "head_zero":
            zero(data, at, at + draw(st.sampled_from([4, 8, 48, 91])))
        case "magic":
            struct.pack_into(">i", data, at + 4, draw(st.sampled_from([log.MAGIC_V1, log.MAGIC_V2, log.MAGIC_BLANK])))
        case "blank_here":
            size = len(data) - at - draw(st.sampled_from([0, 0, 8, -8]))
            overwrite(data, at, log.encode_blank(size))
            if draw(st.booleans()):
                zero(data, at + 8, len(data))
        case "older":
            _older_tail(draw, data, at, base, len(data))


def _older_tail(draw: Draw, data: bytearray, at: int, base: int, size: int) -> None:
    """Overwrite the tail by that of an older log of the same place, as a reused file shows it."""
    if size < 1000:
        return
    older = StoreBuilder(base=base, segment_bytes=size, start_ms=draw(st.sampled_from([1_690_000_000_000, 10**12])))
    older.message("old", 0, bytes(60), tags="TagA")
    while older.end < base + at and len(older.segments) == 1:
        older.message("old", 0, bytes(60), tags="TagA")
    start = older.end - base if draw(st.booleans()) else at
    while len(older.segments) == 1:
        older.message("old", 1, b"x" * draw(st.sampled_from([10, 200])))
    overwrite(data, start, bytes(older.segments[0][start:]))


def mutate(rng: random.Random, root: Path, files: list[Path]) -> None:
    """Change one file in one random way."""
    path = root / rng.choice(files)
    if not path.exists():
        return
    size = path.stat().st_size
    kind = rng.choices(
        ("flip", "byte", "number", "zero", "noise", "copy", "cut", "grow", "delete", "swap"),
        (8, 8, 6, 4, 4, 3, 0.3, 0.3, 0.3, 0.3),
    )[0]
    at = rng.randrange(max(size, 1))
    length = min(rng.choice((1, 8, 100, 4096)), max(size - at, 0))
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(max(length, 8))
        file.seek(at)
        if kind == "flip" and old:
            file.write(bytes([old[0] ^ 1 << rng.randrange(8)]))
        elif kind == "byte" and size:
            file.write(rng.randbytes(1))
        elif kind == "number" and size - at >= 4:
            file.write(rng.choice((0, 1, -1, 2**31 - 1, -(2**31))).to_bytes(4, "big", signed=True))
        elif kind == "zero":
            file.write(bytes(length))
        elif kind == "noise":
            file.write(rng.randbytes(length))
        elif kind == "copy" and size:
            file.write(old[:length])
            source = rng.randrange(size)
            file.seek(source)
            piece = file.read(length)
            file.seek(at)
            file.write(piece[: max(size - at, 0)])
        elif kind == "cut":
            file.truncate(at)
        elif kind == "grow":
            file.truncate(size + rng.choice((1, 20, 4096)))
    if kind == "delete":
        path.unlink()
    elif kind == "swap":
        other = root / rng.choice(files)
        if other.exists() and other != path:
            spare = path.with_name("spare")
            path.rename(spare)
            other.rename(path)
            spare.rename(other)
