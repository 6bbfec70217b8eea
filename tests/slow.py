"""A slow, obvious decoder of one segment: the oracle of the compiled walk.

It shares the names of marks, classes and reasons with ``storeio.kernels``, but no code: one byte string, one
position, plain integers. The rules, in words:

*Accepted record.* What a broker's recovery accepts: magic V1 or V2; TOTALSIZE at least 91 and inside the segment;
body, topic and properties inside the segment; TOTALSIZE equal to the sum of the parts (negative body and properties
lengths count as 0); a body longer than nothing has the stored CRC; numbers in DELAY (schedule topic only) and in
INNER_NUM with INNER_BASE are numbers to Java. The physical offset is not looked at. The first of these that fails
is the reason.

*Chain.* A record must start at the position. Accepted and in place: a record. Accepted with another physical offset:
a record if a start follows it (see below), else stale; also stale if it is the last one, in front of zeros or of the
blank record, and off by whole segments, or at its place in a segment whose name is a multiple of the file's size.
Anything else is bad.

*Bad.* TOTALSIZE and the sum of the parts are two witnesses of where it ends. One that leads to a start is believed,
a head or the true blank more than zeros, TOTALSIZE first: the bytes up to there are torn and the chain goes on. Zeros
are believed only where there is a magic code, or both witnesses say the same; one alone not if something that search
would find lies in front of them. Without a magic code one alone is not believed if an accepted record in place begins
before that end.
Without a witness, or if its first 8 bytes are zero, the walk searches, from the next byte on.

*Start.* A head with the physical offset of its place, a blank with the size of the rest, or 48 zero bytes (fewer at
the segment's end). Never in the last 8 bytes.

*Search.* The next position where an accepted record starts or a blank with the size of the rest; the bytes between
are a gap. An accepted record in place *resumes*; one of another place is stale and the search goes on behind it.

*Cut.* An accepted record of another place is none if an accepted record in place begins between the end of
its body and its own end: then the walk searches from its first byte on, and it is no start.

*Resumed.* As the chain, but an accepted record in place whose store time is below that of both of the last two
records before is stale (it lies behind a cut); resumed lasts until a record is taken.

*Blank magic.* The rest of the segment is blank if it is zero behind the 8 bytes. Else, with the wrong size it is bad:
search. With the right size it is still blank, unless the first thing that search would find behind it is a record
not older than the last two, or nothing lies in front of it: then search.

*Gap.* Cut into zero and other bytes by blocks that end at multiples of 64.
"""

from __future__ import annotations

import functools
import struct
import zlib
from dataclasses import dataclass, field
from typing import Final

from storeio.kernels import head as h
from storeio.kernels import tables as w

V1, V2, BLANK = bytes.fromhex("daa320a7"), bytes.fromhex("daa320ab"), bytes.fromhex("cbd43194")
LEVELS_S = (0, 1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
Span = tuple[int, int, int, int]  # start, stop, class, why


@dataclass
class Head:
    """What can be read at a position; ``formula`` is None where the parts lead out of the segment."""

    position: int
    why: int = h.OK
    size: int = 0
    magic: bytes = bytes(4)
    formula: int | None = None
    body_crc: int = 0
    queue_id: int = 0
    queue_offset: int = 0
    physical: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_port: int = 0
    store_ms: int = 0
    store_port: int = 0
    born_host: bytes = b""
    flag: int = 0
    store_host: bytes = b""
    reconsume: int = 0
    prepared: int = 0
    body_length: int = 0
    topic: bytes = b""
    properties_at: int = 0
    properties_length: int = 0
    pairs: dict[str, str] = field(default_factory=dict)
    odd: bool = False
    raw: bytes = b""
    tags_code: int = 0
    batch_base: int = 0
    batch_size: int = 1
    marks: int = 0
    keys: list[tuple[int, str]] = field(default_factory=list)  # key hash, which property


# ---- Java

TEXTS: Final = 1 << 16  # whose results are kept: tests decode the same few stores over and over


@functools.lru_cache(TEXTS)
def java_text(raw: bytes) -> str:
    """Return ``new String(raw, UTF_8)``."""
    text = ""
    i = 0
    while i < len(raw):
        for n in (1, 2, 3, 4):
            try:
                text += raw[i : i + n].decode()
                break
            except UnicodeDecodeError:
                continue
        else:
            text += "\ufffd"
            n = _malformed(raw[i : i + 3])
        i += n
    return text


def _malformed(raw: bytes) -> int:
    """Return how many bytes at the start of ``raw`` Java replaces by one U+FFFD."""
    if raw[0] == 0xED and len(raw) > 1 and 0xA0 <= raw[1] <= 0xBF:
        return 3 if len(raw) > 2 and 0x80 <= raw[2] <= 0xBF else 2
    for n in (3, 2):
        for missing in (b"\x80", b"\x80\x80"):
            try:
                if len(raw) >= n and len((raw[:n] + missing).decode()) == 1:
                    return n
            except UnicodeDecodeError:
                continue
    return 1


def java_hash(text: str) -> int:
    """Return ``text.hashCode()``."""
    value = 0
    for char in text:
        code = ord(char)
        units = (code,) if code < 0x10000 else (0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF))
        for unit in units:
            value = (31 * value + unit) % 2**32
    return value - 2**32 if value >= 2**31 else value


@functools.lru_cache(TEXTS)
def key_hash(text: str) -> int:
    """Return the index's hash of ``topic#key``."""
    return abs(java_hash(text)) % 2**31


def java_number(text: str, bits: int) -> int | None:
    """Return what Java parses as a number of that many bits, None where it throws."""
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if not digits or any(c not in "0123456789" for c in digits):
        return None
    value = 0
    for c in digits:
        value = value * 10 + int(c)
    value = -value if text.startswith("-") else value
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def java_pairs(text: str) -> tuple[dict[str, str], bool]:
    """Return name -> value of a properties string, and whether a piece of it is no pair."""
    pieces = text.split("\x02")
    if not pieces[-1]:
        pieces.pop()  # nothing stands behind the last separator
    pairs = {}
    odd = False
    for piece in pieces:
        name, _, value = piece.partition("\x01")
        if name and value:
            pairs[name] = value
        else:
            odd = True
    return pairs, odd


def java_split(text: str, separator: str) -> list[str]:
    """Return ``text.split(separator)``: empty parts at the end are dropped, unless there is no separator."""
    parts = text.split(separator)
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        parts.pop()
    return parts


# ---- One record


def read(data: bytes, base: int, position: int, delays_ms: list[int]) -> Head:
    """Return the head at ``position`` with ``why`` saying whether brokers accept it."""
    head = Head(position)
    left = len(data) - position
    if left < 91:
        head.why = h.WHY_SHORT
        return head
    head.size, head.magic, head.body_crc, head.queue_id, head.flag = struct.unpack_from(">i4siii", data, position)
    head.queue_offset, head.physical, head.sys_flag, head.born_ms = struct.unpack_from(">qqiq", data, position + 20)
    born, store = (20 if head.sys_flag & bit else 8 for bit in (0x10, 0x20))
    if left < 48 + born + 8 + store + 16:
        head.why = h.WHY_SHORT
        return head
    at = position + 48 + born
    head.born_host = data[at - born : at]
    (head.born_port,) = struct.unpack_from(">i", data, at - 4)
    (head.store_ms,) = struct.unpack_from(">q", data, at)
    at += 8 + store
    head.store_host = data[at - store : at]
    (head.store_port,) = struct.unpack_from(">i", data, at - 4)
    head.reconsume, head.prepared, head.body_length = struct.unpack_from(">iqi", data, at)
    parts = _read_parts(data, head, at + 16)
    if head.magic not in (V1, V2):
        head.why = h.WHY_MAGIC
    elif head.size < 91 or head.size > left:
        head.why = h.WHY_SIZE
    elif parts != h.OK:
        head.why = parts
    elif head.formula != head.size:
        head.why = h.WHY_FORMULA
    else:
        head.raw = data[position : position + head.size]
        body = data[at + 16 : at + 16 + max(head.body_length, 0)]
        if body and zlib.crc32(body) & 0x7FFFFFFF != head.body_crc:
            head.why = h.WHY_BODY_CRC
        elif not _derive(head, data, delays_ms):
            head.why = h.WHY_PROPERTY
        else:
            head.marks = _marks(head, base)
    return head


def _read_parts(data: bytes, head: Head, body_at: int) -> int:
    """Read the lengths behind the head; return OK or which of them leads out of the segment."""
    at = body_at + max(head.body_length, 0)
    form = ">h" if head.magic == V2 else ">b"
    if at + struct.calcsize(form) > len(data):
        return h.WHY_BODY_LENGTH
    (length,) = struct.unpack_from(form, data, at)
    at += struct.calcsize(form)
    if length < 0 or at + length + 2 > len(data):
        return h.WHY_TOPIC_LENGTH
    head.topic = data[at : at + length]
    at += length
    (head.properties_length,) = struct.unpack_from(">h", data, at)
    head.properties_at = at + 2
    end = at + 2 + max(head.properties_length, 0)
    if end > len(data):
        return h.WHY_PROPERTIES_LENGTH
    head.formula = end - head.position
    return h.OK


def _derive(head: Head, data: bytes, delays_ms: list[int]) -> bool:
    """Fill in what dispatch derives; False where Java throws on the way."""
    raw = data[head.properties_at : head.properties_at + max(head.properties_length, 0)]
    head.pairs, head.odd = java_pairs(java_text(raw))
    pairs = head.pairs
    head.tags_code = java_hash(pairs.get("TAGS", ""))
    if head.topic == b"SCHEDULE_TOPIC_XXXX" and "DELAY" in pairs:
        level = java_number(pairs["DELAY"], 32)
        if level is None:
            return False
        level = min(level, len(delays_ms) - 1)
        if level > 0:
            head.tags_code = (head.store_ms + delays_ms[level] + 2**63) % 2**64 - 2**63
    head.batch_base = head.queue_offset
    if "INNER_NUM" in pairs and "INNER_BASE" in pairs:
        base, count = java_number(pairs["INNER_BASE"], 64), java_number(pairs["INNER_NUM"], 16)
        if base is None or count is None:
            return False
        head.batch_base, head.batch_size = base, count
    if head.sys_flag & 0xC != 0xC:
        topic = java_text(head.topic)
        if "UNIQ_KEY" in pairs:
            head.keys.append((key_hash(f"{topic}#{pairs['UNIQ_KEY']}"), "UNIQ_KEY"))
        for key in pairs.get("KEYS", "").split(" "):
            if key:
                head.keys.append((key_hash(f"{topic}#{key}"), "KEYS"))
        if "TAGS" in pairs:
            head.keys.append((key_hash(f"{topic}#T#{pairs['TAGS']}"), "TAGS"))
    return True


def _marks(head: Head, base: int) -> int:
    """Return what is odd about an accepted record, and what it is."""
    ports = (head.born_port, head.store_port)
    waited_ms = head.store_ms - head.born_ms
    wrong_times = head.born_ms <= 0 or abs(waited_ms) > 10 * 366 * 86_400_000
    tail = head.raw[-20:] if head.properties_length >= 20 else b""
    has_crc = tail.startswith(b"__CRC32#\x01") and tail.endswith(b"\x02")
    stored = 0
    for c in reversed(tail[9:19]):
        stored = stored * 10 + c - 48
    right_crc = zlib.crc32(head.raw[:-20]) & 0x7FFFFFFF == stored % 2**32
    pairs = head.pairs
    is_batch = "INNER_NUM" in pairs and "INNER_BASE" in pairs
    said = {
        w.MARK_PHYSICAL: head.physical != base + head.position,
        w.MARK_QUEUE_ID: head.queue_id < 0,
        w.MARK_QUEUE_OFFSET: head.queue_offset < 0,
        # No compression is 4; a batch has its flag and both its properties, or none of them.
        w.MARK_SYS_FLAG: bool((head.sys_flag % 2**32) >> 11)
        or head.sys_flag & 0x401 == 0x400
        or bool(head.sys_flag & 0x80) != is_batch
        or head.sys_flag & 0xC0 == 0x40
        or bool(head.sys_flag & 4 and head.queue_offset),
        w.MARK_HOST: any(not 0 <= port <= 65535 for port in ports),
        w.MARK_LENGTH: head.body_length < 0 or head.properties_length < 0,
        w.MARK_CRC_OF_NOTHING: head.body_length <= 0 and head.body_crc != 0,
        w.MARK_RECONSUME: head.reconsume < 0,
        w.MARK_MANY_RETRIES: head.reconsume > 64,
        w.MARK_PREPARED: head.prepared < 0 or (head.prepared > 0 and head.prepared >= base + head.position),
        w.MARK_TIME: head.store_ms <= 0,
        w.MARK_BORN: head.store_ms > 0 and wrong_times,
        w.MARK_BORN_APART: head.store_ms > 0 and not wrong_times and not -5000 <= waited_ms <= 3 * 86_400_000,
        w.MARK_TEXT: _is_bad_text(head.raw[head.properties_at - head.position :]),
        w.MARK_PROPERTY_CRC: has_crc and not right_crc,
        w.MARK_ODD_PROPERTY: head.odd,
        w.MARK_HAS_PROPERTY_CRC: has_crc,
        w.MARK_MULTI: "INNER_MULTI_DISPATCH" in pairs and "INNER_MULTI_QUEUE_OFFSET" in pairs,
        w.MARK_INNER_BATCH: is_batch,
        w.MARK_INNER_BASE: is_batch and head.queue_offset != head.batch_base,
        w.MARK_INNER_NUM: is_batch and not head.sys_flag & 1 and _inner_messages(head) not in (None, head.batch_size),
        w.MARK_LEVEL: head.topic == b"SCHEDULE_TOPIC_XXXX"
        and ("REAL_TOPIC" in pairs if "DELAY" not in pairs else java_number(pairs["DELAY"], 32) != head.queue_id + 1),
        w.MARK_SCHEDULED: head.topic == b"SCHEDULE_TOPIC_XXXX" and "DELAY" in pairs,
    }
    return sum(mark for mark, is_so in said.items() if is_so)


def _inner_messages(head: Head) -> int | None:
    """Return how many messages stand in a record's body, each behind its length; None for a body of something else."""
    left = head.raw[head.properties_at - 2 - len(head.topic) - (2 if head.magic == V2 else 1) - head.position :]
    body = head.raw[: len(head.raw) - len(left)][-head.body_length :] if head.body_length > 0 else b""
    count = 0
    while body:
        length = int.from_bytes(body[:4], "big", signed=True)
        if len(body) < 22 or not 22 <= length <= len(body):
            return None
        body, count = body[length:], count + 1
    return count or None


@functools.lru_cache(TEXTS)
def _is_bad_text(raw: bytes) -> bool:
    """Tell whether a properties string is no UTF-8 or holds control characters but 01, 02 and white space."""
    try:
        return any(ord(c) < 32 and c not in "\x01\x02\t\n\r" for c in raw.decode())
    except UnicodeDecodeError:
        return True


# ---- One segment


class SlowWalk:
    """The walk over one whole segment; ``records`` and ``spans`` are its result."""

    def __init__(self, data: bytes, base: int = 0, delays_ms: list[int] | None = None) -> None:
        self.data = data
        self.base = base
        self.delays_ms = [1000 * s for s in LEVELS_S] if delays_ms is None else delays_ms
        self.position = 0
        self.mode = w.CHAIN
        self.times: list[int] = []  # of the records taken
        self.records: list[Head] = []
        self.spans: list[Span] = []
        while self.position < len(data):
            before = self.position
            self._step()
            assert self.position > before or self.mode == w.RESUMED, "no way forward"

    def _step(self) -> None:
        if self.mode == w.SEARCH or len(self.data) - self.position < 8:
            self._search(w.WHY_SEARCHED)
        elif self.data[self.position + 4 : self.position + 8] == BLANK:
            self._blank()
        else:
            head = read(self.data, self.base, self.position, self.delays_ms)
            if head.why == h.OK:
                self._good(head)
            else:
                self._bad(head)

    def _good(self, head: Head) -> None:
        end = head.position + head.size
        if head.physical != self.base + head.position:
            if self._is_cut(head):
                self._search(w.WHY_SEARCHED)
                return
            follows = self._start(end)
            last = follows == 1 or (follows == 2 and self.data[end + 4 : end + 8] == BLANK)
            place = head.physical - head.position
            moved = 0 in (place % len(self.data), (place - self.base) % len(self.data))
            if not follows or (last and moved):
                self._add(head.position, end, w.STALE, w.WHY_MISPLACED)
                self.position = end
                return
        elif self.mode == w.RESUMED and self.times and head.store_ms < min(self.times[-2:]):
            self._add(head.position, end, w.STALE, w.WHY_OLDER)
            self.position = end
            return
        self._add(head.position, end, w.RECORD, h.OK)
        self.records.append(head)
        self.times.append(head.store_ms)
        self.position = end
        self.mode = w.CHAIN

    def _bad(self, head: Head) -> None:
        best = (0, 0)  # how sure, where
        named = head.magic in (V1, V2) or head.size == head.formula
        for size in (head.size, head.formula or 0):
            if 91 <= size <= min(len(self.data) - head.position, 2**29):
                sure = self._start(head.position + size)
                if sure > best[0] and (sure > 1 or named):
                    best = (sure, head.position + size)
        lies = not named and self._own(head.position + 1, best[1])
        if best[0] == 1 and head.size != head.formula:
            lies = self._find(head.position + 1)[0] < best[1]
        if best[0] == 0 or lies or (head.size == 0 and head.magic == bytes(4)):
            self._search(head.why)
            return
        self._add(head.position, best[1], w.TORN, head.why)
        self.position = best[1]

    def _start(self, position: int) -> int:
        """Return 2 for a head or the true blank, 1 for zeros, 0 for what is no start."""
        left = len(self.data) - position
        if left < 8:
            return 0
        begin = self.data[position : position + 48]
        (size,) = struct.unpack_from(">i", begin)
        if begin[4:8] == BLANK:
            return 2 if size == left else 0
        if not any(begin):
            return 1
        if begin[4:8] not in (V1, V2) or left < 91:
            return 0
        return 2 if struct.unpack_from(">q", begin, 28)[0] == self.base + position else 0

    def _find(self, position: int) -> tuple[int, Head | None]:
        """Return the next thing at or behind ``position``; a blank and the segment's end have no head."""
        size = len(self.data)
        while position + 8 <= size:
            magic = self.data[position + 4 : position + 8]
            if magic == BLANK and struct.unpack_from(">i", self.data, position)[0] == size - position:
                return position, None
            if magic in (V1, V2):
                head = read(self.data, self.base, position, self.delays_ms)
                if head.why == h.OK and (head.physical == self.base + position or not self._is_cut(head)):
                    return position, head
            position += 1
        return size, None

    def _own(self, start: int, stop: int) -> bool:
        """Tell whether an accepted record in place begins in ``[start, stop)``."""
        heads = (read(self.data, self.base, at, self.delays_ms) for at in range(start, stop))
        return any(head.why == h.OK and head.physical == self.base + head.position for head in heads)

    def _is_cut(self, head: Head) -> bool:
        """Tell whether an accepted record in place begins in what no CRC of this one covers."""
        behind = head.properties_at - 2 - len(head.topic) - (2 if head.magic == V2 else 1)
        return self._own(behind, head.position + head.size)

    def _search(self, why: int) -> None:
        found, head = self._find(self.position if why == w.WHY_SEARCHED else self.position + 1)
        self._gap(self.position, found, why)
        self.position = found
        self.mode = w.SEARCH if found == len(self.data) else w.RESUMED
        if head is not None and head.physical != self.base + found:
            self.position = found + head.size
            self._add(found, self.position, w.STALE, w.WHY_MISPLACED)
            self.mode = w.SEARCH

    def _blank(self) -> None:
        position, size = self.position, len(self.data)
        right = struct.unpack_from(">i", self.data, position)[0] == size - position
        why = h.OK if right else w.WHY_BLANK_SIZE
        if any(self.data[position + 8 :]):
            if not right:
                self._search(w.WHY_BLANK_SIZE)
                return
            found, head = self._find(position + 8)
            in_place = head is not None and head.physical == self.base + found
            newer = head is not None and bool(self.times) and head.store_ms >= min(self.times[-2:])
            if in_place and (newer or position == 0):
                self._search(w.WHY_BLANK_EARLY)
                return
            why = w.WHY_BLANK_DIRTY
        self._add(position, size, w.BLANK, why)
        self.position = size
        self.mode = w.CHAIN

    def _gap(self, start: int, stop: int, why: int) -> None:
        runs: list[tuple[int, int, int]] = []
        at = start
        while at < stop:
            end = min((at // 64 + 1) * 64, stop)
            kind = w.GARBAGE if any(self.data[at:end]) else w.ZERO
            if runs and runs[-1][2] == kind:
                runs[-1] = (runs[-1][0], end, kind)
            else:
                runs.append((at, end, kind))
            at = end
        for begin, end, kind in runs:
            self._add(begin, end, kind, why if begin == start else w.WHY_SEARCHED)

    def _add(self, start: int, stop: int, kind: int, why: int) -> None:
        """Append a span; records, stale bytes and searched gaps lengthen one of their class."""
        joins = kind in (w.RECORD, w.STALE) or (kind != w.TORN and why == w.WHY_SEARCHED)
        if self.spans and joins and self.spans[-1][1:3] == (start, kind):
            self.spans[-1] = (self.spans[-1][0], stop, kind, self.spans[-1][3])
        elif stop > start:
            self.spans.append((start, stop, kind, why))
