"""Names inside a store directory: which file is what, and where it begins. No IO.

Source: ``StorePathConfigHelper``, ``UtilAll.offset2FileName`` and ``MappedFileQueue`` of RocketMQ.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

COMMITLOG: Final = "commitlog"
CONSUMEQUEUE: Final = "consumequeue"
BATCHQUEUE: Final = "batchconsumequeue"
QUEUE_EXT: Final = "consumequeue_ext"
INDEX: Final = "index"
CHECKPOINT: Final = "checkpoint"
LOCK: Final = "lock"
ABORT: Final = "abort"
ABORT_COPY: Final = f"{ABORT}.bak"  # what abort held; brokers of 5.x write both
CONFIG: Final = "config"
OTHER: Final = "other"

PIPE: Final = "a pipe"  # what is neither a file nor a directory
SOCKET: Final = "a socket"
DEVICE: Final = "a device"

KINDS: Final = (
    COMMITLOG,
    CONSUMEQUEUE,
    BATCHQUEUE,
    QUEUE_EXT,
    INDEX,
    CHECKPOINT,
    LOCK,
    ABORT,
    CONFIG,
    OTHER,
)
# The file by which a RocksDB database shows; from topics on it has what else is in tables of ``config``.
QUEUE_DATABASES: Final = (f"{CONSUMEQUEUE}/CURRENT", f"{CONSUMEQUEUE}_rocksdb/CURRENT")
TOPIC_DATABASES: Final = (f"{CONFIG}/topics/CURRENT", f"{CONFIG}/rdb/CURRENT", f"{CONFIG}/metadata/CURRENT")
COMPACTED: Final = "compaction/compactionLog"  # is made for the first message of a topic that is compacted
# A segment of the log that enableDLegerCommitLog makes, below the store root or below the directory of that log.
_DLEDGER_SEGMENT: Final = re.compile(r"(?:dledger-[^/]+/)?data/(\d{20})")
QUEUE_KINDS: Final = (CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT)
OF_A_STORE: Final = frozenset((COMMITLOG, INDEX, CHECKPOINT, ABORT, *QUEUE_KINDS))
"""Names at the top of a store, of which each has one at least."""
NAME_DIGITS: Final = 20
LONG_BITS: Final = 63  # beside the sign
MAX_LONG: Final = 2**LONG_BITS - 1
MOST_FILE_BYTES: Final = 2**31 - 1  # a broker maps a file as a whole, which Java can do up to here
MOST_DIGITS: Final = 19  # of a number of 64 bits, behind leading zeros
# Spec 3.5: what TopicValidator accepts, plus what brokers themselves store ($ since 5.5.0, + since 5.x).
LEGAL_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_$+-]{1,255}")


@dataclass(frozen=True, slots=True)
class StoreFile:
    """One entry of a store directory.

    ``base_offset`` is the number in the name (bytes, of the log or of the queue), None where the
    name is not a number. ``topic`` and ``queue_id`` are set below the queue directories. ``special`` says what it is
    if it is neither a file nor a directory.
    """

    path: str
    kind: str
    size: int
    base_offset: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    is_dir: bool = False
    special: str = ""


def special_of(mode: int) -> str:
    """Return what an entry is that is neither a file nor a directory, by its mode; empty for these."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return PIPE if stat.S_ISFIFO(mode) else SOCKET if stat.S_ISSOCK(mode) else DEVICE


def file_name(base_offset: int) -> str:
    """Return the 20-digit name of the file that begins at ``base_offset`` bytes."""
    return f"{base_offset:0{NAME_DIGITS}d}"


def has_usual_name(path: str, base_offset: int) -> bool:
    """Tell whether a file that begins at an offset has the name that brokers give it."""
    return path.rpartition("/")[2] == file_name(base_offset)


def parse_number(text: str, bits: int = LONG_BITS) -> int | None:
    """Return the number that ``Long.parseLong`` reads, None where it would throw; so do others with fewer bits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Java looks at UTF-16 units: decimal digits of any script, but none above U+FFFF.
    if not digits.isdecimal() or not (digits.isascii() or max(digits) <= "\uffff"):
        return None
    digits = digits if digits.isascii() else "".join(str(int(digit)) for digit in digits)
    digits = digits.lstrip("0")
    if len(digits) > MOST_DIGITS:
        return None
    number = -int(digits or 0) if text[0] == "-" else int(digits or 0)
    return number if -(1 << bits) <= number < 1 << bits else None


def is_legal_topic(topic: str) -> bool:
    """Tell whether a topic read from damaged bytes may become part of a path."""
    return bool(LEGAL_TOPIC.fullmatch(topic))


def is_named(queues: Collection[tuple[str, int | None]] | None, topic: str, queue_id: int) -> bool:
    """Tell whether a queue is one of those that people named, by topic and queue id or topic alone; None is all."""
    return queues is None or (topic, None) in queues or (topic, queue_id) in queues


def queue_directory(kind: str, topic: str, queue_id: int) -> str:
    """Return the directory of a queue, relative to the store root."""
    return f"{kind}/{topic}/{queue_id}"


def describe(path: str, size: int, *, is_dir: bool = False) -> StoreFile:
    """Return what an entry is, told from its path relative to the store root alone."""
    parts = path.split("/")
    top = parts[0]
    if len(parts) == 1:
        kind = top if top in (CHECKPOINT, LOCK, ABORT) and not is_dir else OTHER
        return StoreFile(path, kind, size, is_dir=is_dir)
    if top in (COMMITLOG, INDEX):
        base = parse_number(parts[1]) if len(parts) == 2 else None
        return StoreFile(path, top, size, base, is_dir=is_dir)
    if top in QUEUE_KINDS:
        return _describe_queue_entry(path, parts, size, is_dir)
    return StoreFile(path, CONFIG if top == CONFIG else OTHER, size, is_dir=is_dir)


def end_in_dledger(files: Sequence[StoreFile]) -> str:
    """Return the last segment of a DLedger log if nothing in ``commitlog`` reaches it; else nothing.

    A broker that had a commitlog before begins its DLedger log at the end of that.
    """
    segments = [(int(found[1]), f.path) for f in files if (found := _DLEDGER_SEGMENT.fullmatch(f.path))]
    if not segments:
        return ""
    begin, path = max(segments)
    stops = (f.base_offset + f.size for f in files if f.kind == COMMITLOG and f.base_offset is not None)
    return path if begin >= max(stops, default=0) else ""


def _queue_id(name: str) -> int | None:
    """Return the id of a queue's directory, None for other names: of ``01`` brokers make a queue that lies in ``1``."""
    number = parse_number(name)
    return number if number is None or str(number) == name else None


def _describe_queue_entry(path: str, parts: list[str], size: int, is_dir: bool) -> StoreFile:
    """Return what lies below a queue directory; anything but topic/queue id/number keeps no base."""
    if len(parts) == 4 and (queue_id := _queue_id(parts[2])) is not None:
        return StoreFile(path, parts[0], size, parse_number(parts[3]), parts[1], queue_id, is_dir)
    topic = parts[1] if len(parts) > 1 else None
    queue_id = _queue_id(parts[2]) if len(parts) == 3 else None
    return StoreFile(path, parts[0], size, None, topic, queue_id, is_dir)
