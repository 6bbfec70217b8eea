"""The listing of a store: what makes a broker refuse to start before it reads a byte.

Source: ``MappedFileQueue.doLoad``, ``ConsumeQueueStore.loadConsumeQueues``, ``IndexService.load``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from storeio.findings import Finding
from storeio.paths import (
    ABORT,
    ABORT_COPY,
    BATCHQUEUE,
    CHECKPOINT,
    COMMITLOG,
    COMPACTED,
    CONFIG,
    CONSUMEQUEUE,
    INDEX,
    LOCK,
    MAX_LONG,
    QUEUE_DATABASES,
    QUEUE_EXT,
    QUEUE_KINDS,
    TOPIC_DATABASES,
    StoreFile,
    file_name,
    has_usual_name,
    parse_number,
)

_LENGTH_CODES: Final = {
    COMMITLOG: "LOG_LENGTH",
    CONSUMEQUEUE: "CQ_LENGTH",
    BATCHQUEUE: "BCQ_LENGTH",
    QUEUE_EXT: "EXT_LENGTH",
}
_MUST_BE_FILES: Final = {
    CHECKPOINT: "brokers refuse to start: it is to be a file",
    LOCK: "brokers die at start: it is to be a file",
    **dict.fromkeys((ABORT, ABORT_COPY), "5.x brokers die or hang at start: it is to be a file"),
}
QUEUE_DEPTH: Final = 3  # directories above a queue's file
_KEEP_NOTHING: Final = "brokers start, and can keep nothing there"
_MUST_BE_DIRECTORIES: Final = {
    **dict.fromkeys((COMMITLOG, INDEX, *QUEUE_KINDS), _KEEP_NOTHING),
    CONFIG: "5.x brokers refuse to start, others keep no tables",
}
ROCKSDB_QUEUES: Final = "RocksDB queues"
_DATABASES: Final = {
    path.rpartition("/")[0]: text
    for text, paths in ((ROCKSDB_QUEUES, QUEUE_DATABASES), ("topics and offsets in RocksDB", TOPIC_DATABASES))
    for path in paths
}
# Locks and logs are left out: other programs have files of these names.
_OF_DATABASES: Final = re.compile(r"(CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|\d+\.sst)")


def check_layout(entries: Sequence[StoreFile], lengths: dict[str, int]) -> list[Finding]:
    """Return findings of names, strays and lengths.

    Args:
        entries: Everything below the root.
        lengths: The length that each file of a kind must have, bytes.
    """
    findings = [
        Finding("UNSUPPORTED_LAYOUT", entry.path, 0, entry.size, detail=foreign)
        for entry, foreign in foreign_layouts(entries)
    ]
    for entry in entries:
        if entry.is_dir and entry.path in _MUST_BE_FILES:
            findings.append(Finding("STRAY_DIRECTORY", entry.path, detail=_MUST_BE_FILES[entry.path]))
        elif entry.special and entry.path in _MUST_BE_FILES:
            findings.append(_stray(entry, f"{entry.special}: {_MUST_BE_FILES[entry.path]}"))
        elif not entry.is_dir and entry.path in _MUST_BE_DIRECTORIES:
            findings.append(_stray(entry, f"a file where a directory belongs: {_MUST_BE_DIRECTORIES[entry.path]}"))
        if entry.path == ABORT:
            findings.append(Finding("ABORT_PRESENT", entry.path, 0, entry.size, detail="an abort file is there"))
        elif entry.kind == COMMITLOG or entry.kind in QUEUE_KINDS:
            findings += _in_data_directory(entry, lengths[entry.kind])
        elif entry.kind == INDEX:
            findings += _in_index(entry)
    return findings


def is_offset(entry: StoreFile, length: int) -> bool:
    """Tell whether a file's name says where it begins, and a file of this length ends where offsets still go."""
    return entry.base_offset is not None and 0 <= entry.base_offset <= MAX_LONG - max(length, entry.size)


def foreign_layouts(entries: Iterable[StoreFile]) -> list[tuple[StoreFile, str]]:
    """Return what shows layouts whose bytes storeio does not read: an entry for each, and what it shows."""
    found: dict[str, tuple[StoreFile, str]] = {}
    for entry in entries:
        place, _, name = entry.path.rpartition("/")
        if entry.is_dir:
            if entry.path.startswith("dledger-") and not place:
                found[entry.path] = entry, "a DLedger log"
            elif entry.path == COMPACTED:
                found[entry.path] = entry, "compacted topics"
        elif place in _DATABASES and _OF_DATABASES.fullmatch(name):
            text = _DATABASES[place]
            if name == "CURRENT":
                found[place] = entry, text
            else:
                found.setdefault(place, (entry, f"{text}, without a file CURRENT: brokers refuse to start on it"))
    return list(found.values())


def queues_elsewhere(entries: Sequence[StoreFile], *, in_database: bool) -> bool:
    """Tell whether queues are in a database, and none in files.

    Args:
        entries: Everything below the root.
        in_database: Whether the broker's settings say so; else its files do.
    """
    for entry in entries:
        if entry.kind in (CONSUMEQUEUE, BATCHQUEUE) and entry.base_offset is not None and not entry.is_dir:
            return False
    return in_database or any(text.startswith(ROCKSDB_QUEUES) for _, text in foreign_layouts(entries))


def _in_data_directory(entry: StoreFile, length: int) -> list[Finding]:
    depth = entry.path.count("/")
    leaf = depth == (1 if entry.kind == COMMITLOG else QUEUE_DEPTH)
    if not leaf:
        return _beside_queues(entry, depth)
    if entry.kind != COMMITLOG and entry.queue_id is None:
        return _passed_over(entry)  # the loader skips directories whose name is no queue id
    if entry.is_dir:
        return [Finding("STRAY_DIRECTORY", entry.path, topic=entry.topic, queue_id=entry.queue_id)]
    if not is_offset(entry, length):
        return [_stray(entry, "its name is no offset")]
    findings = []
    if (entry.base_offset or 0) % length:
        detail = f"{entry.base_offset} is no multiple of {length}"
        findings.append(_finding("MISALIGNED_NAME", entry, 0, entry.size, detail))
    elif entry.base_offset is not None and not has_usual_name(entry.path, entry.base_offset):
        detail = f"brokers write {file_name(entry.base_offset)}, and sort files by their names"
        findings.append(_finding("MISALIGNED_NAME", entry, 0, entry.size, detail))
    if entry.size != length:
        start, stop = sorted((entry.size, length))
        detail = f"{entry.size} bytes, expected {length}"
        findings.append(_finding(_LENGTH_CODES[entry.kind], entry, start, stop - start, detail))
    return findings


def _beside_queues(entry: StoreFile, depth: int) -> list[Finding]:
    """Return findings for entries above or below the places where files belong."""
    if entry.kind == COMMITLOG:
        return []  # inside a stray directory, which is a finding of its own
    if depth == 2 and not entry.is_dir and parse_number(entry.path.rsplit("/", 1)[-1]) is not None:
        return [_stray(entry, "a file where a queue's directory belongs")]
    return _passed_over(entry) if depth < QUEUE_DEPTH else []  # deeper is inside a stray directory, too


def _passed_over(entry: StoreFile) -> list[Finding]:
    """Return that a file lies where brokers look for directories, and do nothing with others."""
    return [] if entry.is_dir else [Finding("STRAY_PASSED_OVER", entry.path, 0, entry.size)]


def _in_index(entry: StoreFile) -> list[Finding]:
    depth = entry.path.count("/")
    if depth != 1:
        return []
    if entry.is_dir:
        return [Finding("STRAY_DIRECTORY", entry.path, detail="5.x brokers refuse to start with a numeric name")]
    if entry.special and entry.base_offset is not None:
        return [_stray(entry, f"{entry.special}: 5.x brokers refuse to start with a numeric name")]
    return [] if entry.base_offset is not None else [_stray(entry, "its name is no time")]


def _stray(entry: StoreFile, detail: str) -> Finding:
    return _finding("STRAY_FILE", entry, 0, entry.size, detail)


def _finding(code: str, entry: StoreFile, position: int, length: int, detail: str) -> Finding:
    return Finding(code, entry.path, position, length, entry.topic, entry.queue_id, detail=detail)
