"""Entries of index files, all or those of some keys: by whole-array comparison of hashes, not along chains.

So a damaged chain hides nothing, and a cycle cannot hang it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import UnreadableError
from storeio.format import index as fmt
from storeio.format import properties as props
from storeio.inspect.lookup import record_at
from storeio.inspect.reader import Reader
from storeio.inspect.views import EntryView, RecordView
from storeio.paths import INDEX, StoreFile

Numbers = npt.NDArray[np.int64]

CHUNK_UNITS: Final = 1 << 16


def index_files(reader: Reader) -> list[StoreFile]:
    """Return the index files in the order of their names."""
    return reader.listing.of_kind(INDEX)


def header_of(reader: Reader, file: StoreFile) -> np.void | None:
    """Return the header of an index file, None for a file that is too short for one."""
    if file.size < fmt.HEADER_BYTES:
        return None
    return fmt.decode_header(reader.read(file.path, 0, fmt.HEADER_BYTES).data)


def slots_of(reader: Reader, file: StoreFile) -> int | None:
    """Return how many hash slots a file has: as set, as by default, else as its content tells; None if it does not.

    The length alone leaves many answers. The right one puts the last unit's number into the slot
    of its hash.
    """
    if reader.slots is not None:
        return reader.slots if fmt.units_start(reader.slots) <= file.size else None
    if file.size == fmt.file_length(fmt.DEFAULT_SLOTS, fmt.DEFAULT_UNITS):
        return fmt.DEFAULT_SLOTS
    header = header_of(reader, file)
    if header is None or int(header["unit_count"]) <= 1 or file.size % fmt.SLOT_BYTES:
        return None
    last = int(header["unit_count"]) - 1
    # A unit is five times as long as a slot, so every fifth number of slots fits the length.
    most = (file.size - fmt.HEADER_BYTES - (last + 1) * fmt.UNIT_BYTES) // fmt.SLOT_BYTES
    first = (file.size - fmt.HEADER_BYTES) // fmt.SLOT_BYTES % 5 or 5
    fits: list[int] = []
    for low, high in reader.data_stretches(file):
        # The slots with which the last unit, which is not zero, would touch what is no hole.
        origin = fmt.units_start(0) + last * fmt.UNIT_BYTES
        least = (low - fmt.UNIT_BYTES - origin) // fmt.SLOT_BYTES
        begin = first + max(least - first, 0) // 5 * 5
        stop = min((high - origin) // fmt.SLOT_BYTES, most) + 1
        fits += [n for start in range(begin, stop, 5 << 16) for n in _fitting(reader, file, header, start, stop - 1)]
    return fits[0] if len(set(fits)) == 1 else None


def _slots_of_others(reader: Reader, file: StoreFile) -> int | None:
    """Return the number of hash slots that all other index files of its length have; None if they do not agree."""
    others = (other for other in index_files(reader) if other.size == file.size and other.path != file.path)
    said = {slots_of(reader, other) for other in others} - {None}
    return said.pop() if len(said) == 1 else None


def _fitting(reader: Reader, file: StoreFile, header: np.void, first: int, most: int) -> list[int]:
    """Return the numbers of slots, of 65536 candidates, with which header, last unit and its slot agree."""
    last = int(header["unit_count"]) - 1
    count = min((most - first) // 5 + 1, 1 << 16)
    start = fmt.units_start(first) + last * fmt.UNIT_BYTES
    raw = reader.read(file.path, start, start + count * fmt.UNIT_BYTES)
    units = fmt.decode_units(raw.data)
    slots = first + 5 * np.arange(count)
    likely = (units["physical_offset"] == header["end_physical_offset"]) & (units["key_hash"] >= 0)
    likely &= raw.reshape(-1, fmt.UNIT_BYTES).any(axis=1)
    found = []
    for k in np.flatnonzero(likely).tolist():
        place = fmt.HEADER_BYTES + int(units["key_hash"][k]) % int(slots[k]) * fmt.SLOT_BYTES
        if int.from_bytes(reader.read(file.path, place, place + 4).tobytes(), "big") == last:
            found.append(int(slots[k]))
    return found


def entries_of(
    reader: Reader,
    *,
    hashes: Numbers | None = None,
    physical_offset: int | None = None,
    with_record: bool = True,
) -> Iterator[EntryView]:
    """Yield index entries in order of file and number, all or those with one of the hashes or that offset."""
    for file in index_files(reader):
        try:
            yield from _entries_of_file(reader, file, hashes, physical_offset, with_record)
        except UnreadableError as error:
            reader.failed(error)


def _entries_of_file(
    reader: Reader, file: StoreFile, hashes: Numbers | None, physical_offset: int | None, with_record: bool
) -> Iterator[EntryView]:
    header = header_of(reader, file)
    if header is None:
        reader.note(f"{file.path}: {file.size} bytes are less than an index header")
        return
    if int(header["unit_count"]) <= 1:
        return
    slots = slots_of(reader, file) or _slots_of_others(reader, file)
    if slots is None:
        text = f"{file.path}: the number of hash slots cannot be told; give it with --set maxHashSlotNum=N"
        reader.failed(UnreadableError(text))
        return
    start = fmt.units_start(slots)
    total = min(int(header["unit_count"]), (file.size - start) // fmt.UNIT_BYTES)
    for first in range(1, total, CHUNK_UNITS):
        stop = min(first + CHUNK_UNITS, total)
        raw = reader.read(file.path, start + first * fmt.UNIT_BYTES, start + stop * fmt.UNIT_BYTES)
        units = fmt.decode_units(raw.data)
        mask = np.ones(len(units), dtype=np.bool_)
        if hashes is not None:
            mask &= np.isin(units["key_hash"], hashes)
        if physical_offset is not None:
            mask &= units["physical_offset"] == physical_offset
        for k in np.flatnonzero(mask).tolist():
            yield _entry(reader, file, header, slots, first + k, units[k], with_record)


def _entry(
    reader: Reader, file: StoreFile, header: np.void, slots: int, number: int, unit: np.void, with_record: bool
) -> EntryView:
    key_hash, physical, seconds, previous = unit.tolist()
    record: RecordView | None = None
    why: str | None = None
    if with_record:
        record = record_at(reader, physical)
        if record is None:
            why = f"no intact record at physical offset {physical}"
        elif key_hash not in key_hashes(record):
            why = "none of the record's keys has this hash"
    return EntryView(
        path=file.path,
        number=number,
        position=fmt.units_start(slots) + number * fmt.UNIT_BYTES,
        key_hash=key_hash,
        slot=key_hash % slots,
        physical_offset=physical,
        seconds=seconds,
        store_timestamp_ms=int(header["begin_timestamp_ms"]) + seconds * 1000,
        previous=previous,
        record=record,
        why=why,
    )


def key_hashes(record: RecordView) -> set[int]:
    """Return the hashes that a record may have in an index, its tag's of brokers from 5.4.0 on included."""
    of_keys, of_tags = props.index_hashes(str(record.topic), record.properties or {})
    return of_keys | of_tags
