"""Bytes of a store file with their meaning: which field each belongs to, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from storeio.errors import UsageError
from storeio.format import checkpoint, queueext
from storeio.format import commitlog as log
from storeio.format import index as index_format
from storeio.inspect import logwalk
from storeio.inspect.hexvalues import value_text
from storeio.inspect.indexunits import slots_of
from storeio.inspect.layout import parts_of
from storeio.inspect.queueunits import STATES, states_of, unit_dtype
from storeio.inspect.reader import Reader
from storeio.inspect.recordviews import WHY
from storeio.kernels import tables as w
from storeio.paths import BATCHQUEUE, CHECKPOINT, COMMITLOG, CONSUMEQUEUE, INDEX, QUEUE_EXT, StoreFile
from storeio.safe import path_text

DUMP_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class HexField:
    """A field: ``raw`` are its first bytes, ``length`` all it takes. The name is empty for a plain dump."""

    position: int
    length: int
    name: str
    value: str
    raw: bytes

    def as_json(self) -> dict[str, Any]:
        """Return the fields of one JSON line."""
        shown = {"position": self.position, "length": self.length, "name": self.name, "value": self.value}
        return {**shown, "hex": self.raw.hex()}


@dataclass(frozen=True, slots=True)
class HexView:
    """The annotated bytes around a position of a file."""

    path: str
    position: int
    title: str
    fields: tuple[HexField, ...]


def hex_view(reader: Reader, position: int, path: str | None = None, most: int = DUMP_BYTES) -> HexView:
    """Return the record, unit or field that holds a position; of long values and plain dumps ``most`` bytes.

    Without a path the position is a physical offset.

    Raises:
        UsageError: No such file in the store, or no such position in it.
        UnreadableError: The file cannot be read.
    """
    file = _file_at(reader, position) if path is None else reader.listing.get(path.rstrip("/"))
    if file is None or file.is_dir:
        what = f"physical offset {position}" if path is None else f"file {path_text(path)}"
        raise UsageError(f"the store has no {what}")
    at = position - (file.base_offset or 0) if path is None else position
    if not 0 <= at < file.size:
        raise UsageError(f"{path_text(file.path)} has {file.size} bytes, none at {at}")
    title, fields = _describe(reader, file, at, most)
    return HexView(file.path, at, title, tuple(fields))


def _file_at(reader: Reader, physical_offset: int) -> StoreFile | None:
    held = reader.holding(physical_offset)
    return held[0] if held else None


def _describe(reader: Reader, file: StoreFile, at: int, most: int) -> tuple[str, list[HexField]]:
    """Return a title and the fields for the kind of file."""
    if file.kind == COMMITLOG and file.base_offset is not None:
        return _log_fields(reader, file, at, most)
    if file.kind in (CONSUMEQUEUE, BATCHQUEUE) and file.base_offset is not None:
        return _unit_fields(reader, file, at, most)
    if file.kind == QUEUE_EXT and file.base_offset is not None:
        return _ext_fields(reader, file, at, most)
    if file.kind == INDEX:
        return _index_fields(reader, file, at, most)
    if file.kind == CHECKPOINT and at < checkpoint.CHECKPOINT_BYTES <= file.size:
        return "checkpoint", _typed(reader, file, 0, checkpoint.CHECKPOINT)
    return "bytes", _plain(reader, file, at, file.size, most)


def _plain(reader: Reader, file: StoreFile, start: int, stop: int, most: int) -> list[HexField]:
    """Return a stretch without known fields."""
    raw = reader.read(file.path, start, min(stop, start + most)).tobytes()
    return [HexField(start, stop - start, "", "", raw)]


def _typed(reader: Reader, file: StoreFile, start: int, dtype: np.dtype[np.void]) -> list[HexField]:
    """Return the fields of a fixed layout that begins at ``start``."""
    raw = reader.read(file.path, start, start + dtype.itemsize).tobytes()
    values = np.frombuffer(raw, dtype=dtype)[0]
    fields = []
    for name, (kind, at, *_) in (dtype.fields or {}).items():
        value = value_text(name, int(values[name]))
        fields.append(HexField(start + at, kind.itemsize, name, value, raw[at : at + kind.itemsize]))
    return fields


def _log_fields(reader: Reader, file: StoreFile, at: int, most: int) -> tuple[str, list[HexField]]:
    """Return the record that holds the position, else the stretch that does."""
    base = file.base_offset or 0
    for stretch in logwalk.walk_near(reader, file, at):
        if stretch.walked.end.position <= at:
            continue
        table = logwalk.entries(stretch, damaged=True, stale=True)
        hit = np.flatnonzero((table[logwalk.E_START] <= at) & (at < table[logwalk.E_STOP]))
        if len(hit):
            start, stop, kind, k = table[:, hit[0]].tolist()
            why = WHY[int(stretch.walked.spans[w.SPAN_WHY, k])] if kind != logwalk.ROW else ""
            what = ("record", f"damaged record ({why})", f"stale record ({why})")[kind]
            title = f"{what} at physical offset {base + start}, {stop - start} bytes"
            return title, _record_fields(reader, file, start, stop, most)
        spans = stretch.walked.spans
        for start, stop, kind, _ in spans.T.tolist():
            if start <= at < stop:
                return _stretch_fields(reader, file, (start, stop, kind), at, most)
    return "bytes", _plain(reader, file, at, file.size, most)


def _stretch_fields(
    reader: Reader, file: StoreFile, span: tuple[int, int, int], at: int, most: int
) -> tuple[str, list[HexField]]:
    """Return a blank record's head, or the bytes of what is no record, from the position on."""
    start, stop, kind = span
    base = file.base_offset or 0
    if kind == w.BLANK and stop - start >= log.BLANK_HEAD_BYTES:
        head = [("size", log.SIZE_AT), ("magic", log.MAGIC_AT)]
        fields = []
        for name, place in head:
            raw = reader.read(file.path, start + place, start + place + 4).tobytes()
            value = value_text(name, int.from_bytes(raw, "big", signed=True))
            fields.append(HexField(start + place, 4, name, value, raw))
        if stop - start > log.BLANK_HEAD_BYTES:
            fields += _plain(reader, file, start + log.BLANK_HEAD_BYTES, stop, most)
        return f"blank record at physical offset {base + start}, {stop - start} bytes", fields
    names = {w.ZERO: "zero bytes", w.GARBAGE: "bytes that are no record"}
    title = f"{names.get(kind, 'bytes')} from physical offset {base + start} to {base + stop}"
    return title, _plain(reader, file, at, stop, most)


def _record_fields(reader: Reader, file: StoreFile, start: int, stop: int, most: int) -> list[HexField]:
    """Return the fields of a record as far as they lead, then what is left of it."""
    raw = reader.read(file.path, start, stop).data
    parts, _ = parts_of(raw)
    fields = []
    end = 0
    for part in parts:
        shown = bytes(raw[part.at : part.at + min(part.length, most)])
        fields.append(HexField(start + part.at, part.length, part.name, value_text(part.name, part.value), shown))
        end = part.at + part.length
    if end < len(raw):
        fields.append(HexField(start + end, len(raw) - end, "", "", bytes(raw[end : end + most])))
    return fields


def _unit_fields(reader: Reader, file: StoreFile, at: int, most: int) -> tuple[str, list[HexField]]:
    """Return the queue unit that holds the position, or the ragged tail."""
    dtype = unit_dtype(file.kind)
    number = at // dtype.itemsize
    start = number * dtype.itemsize
    if start + dtype.itemsize > file.size:
        return "ragged tail, less than a unit", _plain(reader, file, start, file.size, most)
    raw = reader.read(file.path, start, start + dtype.itemsize)
    state = STATES[int(states_of(file.kind, np.frombuffer(raw.data, dtype=dtype))[0])]
    place = f", queue offset {(file.base_offset or 0) // 20 + number}" if file.kind == CONSUMEQUEUE else ""
    return f"unit {number} of the file{place}, {state}", _typed(reader, file, start, dtype)


def _ext_fields(reader: Reader, file: StoreFile, at: int, most: int) -> tuple[str, list[HexField]]:
    """Return the ext unit that holds the position: units are hopped over from the file's start."""
    sizes = reader.read(file.path, 0, at + 1).data
    start = 0
    while start <= at - 1:
        size = int.from_bytes(sizes[start : start + 2], "big", signed=True)
        if size <= 0 or start + size > at:
            break
        start += size
    size = int.from_bytes(reader.read(file.path, start, min(start + 2, file.size)).tobytes(), "big", signed=True)
    if size < queueext.HEAD_BYTES or start + size > file.size:
        what = "end mark" if size == queueext.END_MARK else "no unit"
        return f"{what} at {start}; bytes", _plain(reader, file, at, file.size, most)
    fields = _typed(reader, file, start, queueext.HEAD)
    if size > queueext.HEAD_BYTES:
        raw = reader.read(file.path, start + queueext.HEAD_BYTES, start + size).tobytes()
        fields.append(HexField(start + queueext.HEAD_BYTES, len(raw), "bitmap", raw.hex()[:40], raw[:most]))
    return f"ext unit at {start}, {size} bytes", fields


def _index_fields(reader: Reader, file: StoreFile, at: int, most: int) -> tuple[str, list[HexField]]:
    """Return the header, the hash slot or the index unit that holds the position."""
    if at < index_format.HEADER_BYTES <= file.size:
        return "index header", _typed(reader, file, 0, index_format.HEADER)
    slots = slots_of(reader, file)
    if slots is None or file.size < index_format.HEADER_BYTES:
        return "index file, number of hash slots unknown; bytes", _plain(reader, file, at, file.size, most)
    units = index_format.units_start(slots)
    if at < units:
        slot = (at - index_format.HEADER_BYTES) // index_format.SLOT_BYTES
        start = index_format.HEADER_BYTES + slot * index_format.SLOT_BYTES
        raw = reader.read(file.path, start, start + 4).tobytes()
        value = str(int.from_bytes(raw, "big", signed=True))
        return f"hash slot {slot} of {slots}", [HexField(start, 4, "newest_unit", value, raw)]
    number = (at - units) // index_format.UNIT_BYTES
    start = units + number * index_format.UNIT_BYTES
    if start + index_format.UNIT_BYTES > file.size:
        return "ragged tail, less than an index unit", _plain(reader, file, start, file.size, most)
    return f"index unit {number}", _typed(reader, file, start, index_format.UNIT)
