"""A parcel of a rebuild, laid by one worker: each file under another name, flushed, then renamed.

So a task that is run again, or twice at once, does no harm: each attempt writes a file of its own, and the last one to
be renamed holds the same bytes as the first.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.queue_files import UNIT_BYTES
from storeio.kernels.place import KEY
from storeio.output.staging import created, explained, write_all
from storeio.rebuild.derive import Keys
from storeio.rebuild.index import IndexFile, Shape
from storeio.rebuild.layout import Bridge, FileSizes, Write, bridged, laid
from storeio.rebuild.parcels import R_COUNT, R_EXT, R_POSITION, R_QUEUE, R_SPILL, KeyRange, Parcel
from storeio.rebuild.placement import Placed
from storeio.rebuild.queues import OldUnits
from storeio.rebuild.shares import OutFile
from storeio.rebuild.spill import WRITING, require_shared
from storeio.rebuild.stretches import QueueKey, Stretch, sizes_of
from storeio.remote.writing import upload
from storeio.scan import read_range

KEYS_AT_ONCE: Final = 1 << 16  # that are read
APART_BYTES: Final = 64 << 10  # between two stretches that are read at once
MOST_BYTES: Final = 8 << 20  # that are read at once, but for one stretch

Numbers = npt.NDArray[np.int64]
Piece = Write | Bridge | Keys


@dataclass(slots=True)
class FileLaid:
    """A file that was written.

    ``kept`` are units of gaps that are the store's own, by queue; ``failed`` what could not be read of them.
    """

    written_bytes: int = 0
    kept: dict[QueueKey, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a store's files go, and what is the same for all of them.

    ``place`` is as ``Staging.shared`` tells it, ``old`` reads units of the store, ``shape`` is that of index files.
    """

    place: Path | str
    sizes: FileSizes
    shape: Shape
    old: OldUnits


def lay_parcel(parcel: Parcel, target: Target) -> Iterator[tuple[OutFile, FileLaid]]:
    """Yield each file of a parcel when it is written and has its name; all of the parcel's units are held meanwhile.

    Raises:
        WriteError: A file could not be written.
        UnreadableError: What was spilled, or a server's own units, could not be read.
    """
    of_queues = pieces_of_queues(parcel, target)
    for file in parcel.files:
        of_file: Iterable[Piece] = of_queues.pop(file.path, ())
        if file.index is not None:
            of_file = _keys_of(parcel.keys.get(file.path, ()), parcel.spills, target.place)
        yield file, lay_in(file, of_file, target)


def pieces_of_queues(parcel: Parcel, target: Target) -> dict[str, list[Write | Bridge]]:
    """Return what stands in each file of a queue, by path."""
    found: dict[str, list[Write | Bridge]] = {file.path: [] for file in parcel.files if file.queue is not None}
    for stretch, before, ext_before, placed in _stretches(parcel, target):
        for piece in laid(stretch, before, ext_before, placed, target.sizes):
            if piece.path in found:
                # A copy, so that no more is held than stands in the files.
                found[piece.path].append(piece if isinstance(piece, Bridge) else piece._replace(data=bytes(piece.data)))
    return found


def _stretches(parcel: Parcel, target: Target) -> Iterator[tuple[Stretch, int, int, Placed]]:
    """Yield the stretches of a parcel with what comes before each in its queue, and where the queue's units stand."""
    rows = parcel.rows[np.lexsort((parcel.rows[:, R_POSITION], parcel.rows[:, R_SPILL]))]
    unit_bytes = np.array([UNIT_BYTES[key[0]] for key, _ in parcel.queues], np.int64)
    units, heads = sizes_of(rows[:, R_COUNT], unit_bytes[rows[:, R_QUEUE]], rows[:, R_EXT])
    stops = rows[:, R_POSITION] + units + heads
    for first, last in _together(rows[:, R_SPILL], rows[:, R_POSITION], stops):
        start = int(rows[first, R_POSITION])
        path = parcel.spills[int(rows[first, R_SPILL])]
        data = read_range(str(target.place), path, start, int(stops[last - 1])).data
        mine = zip(rows[first:last].tolist(), units[first:last].tolist(), stops[first:last].tolist(), strict=True)
        for (queue, count, before, ext_before, ext, _, position), size, stop in mine:
            key, placed = parcel.queues[queue]
            at, end = position - start, position - start + size
            yield Stretch(key, count, 0, data[at:end], None, data[end : stop - start], ext), before, ext_before, placed


def _together(spills: Numbers, starts: Numbers, stops: Numbers) -> Iterator[tuple[int, int]]:
    """Yield the first row and the one behind the last of those that are read at once; they are in order."""
    first = 0
    begins, ends, of_file = starts.tolist(), stops.tolist(), spills.tolist()
    for row in range(1, len(begins)):
        is_near = of_file[row] == of_file[first] and begins[row] - ends[row - 1] <= APART_BYTES
        if not is_near or ends[row] - begins[first] > MOST_BYTES:
            yield first, row
            first = row
    if begins:
        yield first, len(begins)


def _keys_of(ranges: Iterable[KeyRange], spills: Sequence[str], place: Path | str) -> Iterator[Keys]:
    """Yield the keys of a file of the index in log order; who enters them makes units of them in place."""
    for spill, position, count in ranges:
        for at in range(0, count, KEYS_AT_ONCE):
            start, stop = (position + n * KEY.itemsize for n in (at, min(at + KEYS_AT_ONCE, count)))
            yield Keys(read_range(str(place), spills[spill], start, stop).copy())


def lay_in(file: OutFile, pieces: Iterable[Piece], target: Target) -> FileLaid:
    """Write a file of an output that is a directory or, by way of a directory of this machine, a URI; as ``lay``."""
    if isinstance(target.place, Path):
        return lay(file, pieces, target.place, target)
    with explained(file.path), tempfile.TemporaryDirectory(prefix="storeio-") as scratch:
        made = Path(scratch)
        (made / WRITING).mkdir()
        (made / file.path).parent.mkdir(parents=True, exist_ok=True)
        result = lay(file, pieces, made, target)
        upload(target.place, file.path, made / file.path)
        return result


def lay(file: OutFile, pieces: Iterable[Piece], partial: Path, target: Target) -> FileLaid:
    """Write a file below a directory in the making, and give it its name; the directories are there already.

    Args:
        file: What it is.
        pieces: All that it holds; an index file's in order of its keys.
        partial: The directory, on a local disk or one that is shared.
        target: What is the same for all files.

    Raises:
        WriteError: It could not be written.
    """
    require_shared(partial)
    result = FileLaid()
    temporary = partial / WRITING / secrets.token_hex(8)
    try:
        with explained(file.path):
            handle = created(temporary, file.size)
            try:
                _fill(handle, file, pieces, target, result)
                os.fsync(handle)
            finally:
                os.close(handle)
            temporary.rename(partial / file.path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return result


def _fill(handle: int, file: OutFile, pieces: Iterable[Piece], target: Target, result: FileLaid) -> None:
    index = IndexFile(target.shape, file.index.before) if file.index is not None else None
    own_units = cache(target.old)
    for piece in pieces:
        if isinstance(piece, Write):
            result.written_bytes += write_all(handle, piece.position, bytes(piece.data) * piece.times)
        elif isinstance(piece, Bridge):
            units, kept = bridged(piece, own_units(piece.key))
            result.written_bytes += write_all(handle, piece.position, units)
            result.kept[piece.key] = result.kept.get(piece.key, 0) + kept
        elif index is not None:
            _, position, data = index.add(piece, 0)
            result.written_bytes += write_all(handle, position, data.data)
    if index is not None:
        result.written_bytes += write_all(handle, 0, index.head().data)
