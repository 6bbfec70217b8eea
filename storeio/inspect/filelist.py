"""The files of a store, each with what it holds in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from storeio.errors import UnreadableError
from storeio.format import checkpoint, queueext
from storeio.inspect.indexunits import header_of
from storeio.inspect.logwalk import single
from storeio.inspect.queueunits import CHUNK_UNITS, STATES, states_of, unit_dtype
from storeio.inspect.reader import Reader
from storeio.inspect.views import PRE_BLANK, FileView
from storeio.kernels import tables as w
from storeio.paths import ABORT, BATCHQUEUE, CHECKPOINT, COMMITLOG, CONSUMEQUEUE, INDEX, LOCK, QUEUE_EXT, StoreFile
from storeio.safe import printable, time_text

Details = dict[str, int | str | None]
SHORT_TEXT_BYTES: Final = 40


def files(reader: Reader) -> Iterator[FileView]:
    """Yield every file of the store by path; a directory only where nothing is below it."""
    parents = {file.path.rpartition("/")[0] for file in reader.listing.files}
    for file in reader.listing.files:
        if not (file.is_dir and file.path in parents):
            yield _view(reader, file)


def _view(reader: Reader, file: StoreFile) -> FileView:
    describe = _DESCRIBE.get(file.kind)
    if file.is_dir:
        unlisted = file.path in dict(reader.listing.unreadable)
        summary, details = "cannot be read" if unlisted else "empty directory", Details()
    elif describe is None or (file.base_offset is None and file.kind not in (CHECKPOINT, ABORT, LOCK)):
        summary, details = "", Details()
    else:
        try:
            summary, details = describe(reader, file)
        except UnreadableError as error:
            reader.failed(error)
            summary, details = "cannot be read", Details()
    return FileView(file.path, file.kind, file.size, file.base_offset, file.topic, file.queue_id, summary, details)


def _segment(reader: Reader, file: StoreFile) -> tuple[str, Details]:
    """Return the store time of a segment's first record."""
    found = single(reader, file, 0)
    if found is None:
        return "does not begin with an intact record", {}
    time_ms = int(found.walked.records[w.R_STORE_MS, 0])
    return f"first record stored {time_text(time_ms)}", {"first_store_timestamp_ms": time_ms}


def _queue(reader: Reader, file: StoreFile) -> tuple[str, Details]:
    """Return how many units of a queue file are used, and their queue offsets."""
    size = unit_dtype(file.kind).itemsize
    total = file.size // size
    used = _used_units(reader, file, total)
    blank = _leading(reader, file, used, PRE_BLANK)
    details: Details = {"units": total, "used": used, "pre_blank": blank}
    text = f"{used} of {total} units used"
    if blank:
        text += f", the first {blank} pre-blank"
    if file.kind == CONSUMEQUEUE and used > blank:
        base = (file.base_offset or 0) // size
        details |= {"first_queue_offset": base + blank, "last_queue_offset": base + used - 1}
    elif file.kind == BATCHQUEUE and used:
        first, last = (_unit(reader, file, n) for n in (0, used - 1))
        batch = max(int(last["batch_size"]), 1)
        details["first_queue_offset"] = int(first["base_queue_offset"])
        details["last_queue_offset"] = int(last["base_queue_offset"]) + batch - 1
    if "first_queue_offset" in details:
        text += f", queue offsets {details['first_queue_offset']} to {details['last_queue_offset']}"
    if ragged := file.size % size:
        text += f", {ragged} bytes too many"
    return text, details


def _unit(reader: Reader, file: StoreFile, number: int) -> np.void:
    size = unit_dtype(file.kind).itemsize
    raw = reader.read(file.path, number * size, (number + 1) * size)
    unit: np.void = np.frombuffer(raw.data, dtype=unit_dtype(file.kind))[0]
    return unit


def _used_units(reader: Reader, file: StoreFile, total: int) -> int:
    """Return the number of the last unit that is not zero, plus one; looked for from the end, holes passed over."""
    size = unit_dtype(file.kind).itemsize
    for low, high in reversed([*reader.data_stretches(file)]):
        for stop in range(min(-(-high // size), total), low // size, -CHUNK_UNITS):
            start = max(stop - CHUNK_UNITS, low // size)
            nonzero = np.flatnonzero(reader.read(file.path, start * size, stop * size))
            if len(nonzero):
                return start + int(nonzero[-1]) // size + 1
    return 0


def _leading(reader: Reader, file: StoreFile, total: int, state: str) -> int:
    """Return how many units at the file's start are in a state."""
    size = unit_dtype(file.kind).itemsize
    for start in range(0, total, CHUNK_UNITS):
        stop = min(start + CHUNK_UNITS, total)
        units = np.frombuffer(reader.read(file.path, start * size, stop * size).data, dtype=unit_dtype(file.kind))
        other = np.flatnonzero(states_of(file.kind, units) != STATES.index(state))
        if len(other):
            return start + int(other[0])
    return total


def _ext(reader: Reader, file: StoreFile) -> tuple[str, Details]:
    """Return how many units an ext file holds; they are hopped over, for nothing else tells where they end."""
    read = reader.kept(file)  # of a sparse file as much as is hopped over, not all that it claims
    at = units = 0
    while at <= file.size - queueext.HEAD_BYTES:
        size = int.from_bytes(read(at, at + 2).tobytes(), "big", signed=True)
        if size < queueext.HEAD_BYTES or size > file.size - at:
            break
        at += size
        units += 1
    return f"{units} units in {at} bytes", {"units": units, "used_bytes": at}


def _index(reader: Reader, file: StoreFile) -> tuple[str, Details]:
    """Return the header of an index file."""
    header = header_of(reader, file)
    if header is None:
        return "too short for an index header", {}
    details: Details = {name: int(header[name]) for name in header.dtype.names or ()}
    begin, end = (time_text(int(header[f"{side}_timestamp_ms"])) for side in ("begin", "end"))
    offsets = f"physical offsets {header['begin_physical_offset']} to {header['end_physical_offset']}"
    entries = max(int(header["unit_count"]) - 1, 0)
    return f"{entries} entries, {header['slots_used']} slots used, {offsets}, {begin} to {end}", details


def _checkpoint(reader: Reader, file: StoreFile) -> tuple[str, Details]:
    """Return the checkpoint's fields, times as such."""
    if file.size < checkpoint.CHECKPOINT_BYTES:
        return f"{file.size} bytes are less than a checkpoint", {}
    fields = checkpoint.decode(reader.read(file.path, 0, checkpoint.CHECKPOINT_BYTES).data)
    details: Details = {name: int(fields[name]) for name in fields.dtype.names or ()}
    texts = []
    for name, value in details.items():
        time = f" ({time_text(int(value or 0))})" if name.endswith("_ms") and value else ""
        texts.append(f"{name} {value}{time}")
    return ", ".join(texts), details


def _text(reader: Reader, file: StoreFile) -> tuple[str, Details]:
    """Return the first bytes of a small text file."""
    raw = reader.read(file.path, 0, min(file.size, SHORT_TEXT_BYTES)).tobytes()
    text = printable(raw.decode("utf-8", errors="backslashreplace"))
    return (f"says {text}" if text else "empty"), {"text": text}


_DESCRIBE: Final[dict[str, Callable[[Reader, StoreFile], tuple[str, Details]]]] = {
    COMMITLOG: _segment,
    CONSUMEQUEUE: _queue,
    BATCHQUEUE: _queue,
    QUEUE_EXT: _ext,
    INDEX: _index,
    CHECKPOINT: _checkpoint,
    ABORT: _text,
    LOCK: _text,
}
