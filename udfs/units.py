"""Stretches of queue and index files -> Arrow batches of the units that are written in them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storeio.format import batchqueue, consumequeue, index
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, INDEX, StoreFile
from storeio.report.rows import valid_text
from storeio.scan import Bytes, read_range
from udfs.arrow import Column, arrow, batch_of, constant, merged
from udfs.conditions import Condition, Span, span

Maker = Callable[[], Column]
Conditions = tuple[Condition, ...]

BATCH_ROWS: Final = 65536
MERGED_ROWS: Final = 8192
LEAST_WEIGHT: Final = 64 << 10  # bytes that could be read while a file is opened
MOST_QUEUE_ID: Final = 2**31 - 1
_NAMED: Final = {"path": pa.string(), "topic": pa.string(), "queue_id": pa.int32()}
UNIT_BYTES: Final = {
    CONSUMEQUEUE: consumequeue.UNIT_BYTES,
    BATCHQUEUE: batchqueue.UNIT_BYTES,
    INDEX: index.UNIT_BYTES,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole units of one file; ``start`` and ``stop`` are byte positions, ``head`` bytes lie before unit 0."""

    file: StoreFile
    start: int
    stop: int
    head: int = 0


def wanted_files(files: Sequence[StoreFile], conditions: Conditions) -> list[StoreFile]:
    """Return the files whose units may meet the conditions, as far as their paths tell."""
    columns = {name: pa.array([_named(file)[name] for file in files], kind) for name, kind in _NAMED.items()}
    wanted = pa.array(np.ones(len(files), np.bool_))
    for condition in conditions:
        if condition.columns <= columns.keys():
            wanted = pc.and_kleene(wanted, condition.holds(columns.__getitem__))
    return [file for file, is_wanted in zip(files, wanted.to_pylist(), strict=True) if is_wanted]


def pieces_of(
    file: StoreFile,
    piece_bytes: int,
    stretches: Iterable[tuple[int, int]],
    *,
    slots: int = 0,
    conditions: Conditions = (),
) -> Iterator[Piece]:
    """Yield the pieces of a file in order; bytes behind the last whole unit belong to none.

    Args:
        file: Of a kind in ``UNIT_BYTES``.
        piece_bytes: So long, rounded up to whole units.
        stretches: Byte positions that may be other than zero, in order.
        slots: Hash slots of an index file.
        conditions: Of the units wanted; units whose places rule them out are in no piece.
    """
    unit = UNIT_BYTES[file.kind]
    head = index.units_start(slots) if file.kind == INDEX else 0
    step = -(-piece_bytes // unit) * unit
    low, high = _places(file, head, conditions)
    first = -(-(_within(low, head, file.size) - head) // unit)
    units = min((file.size - head) // unit, (_within(high, head - 1, file.size) - head) // unit + 1)
    for start_byte, stop_byte in stretches:
        first = max(first, (start_byte - head) // unit)
        end = min(units, -(-(stop_byte - head) // unit))
        for start in range(head + first * unit, head + end * unit, step):
            yield Piece(file, start, min(start + step, head + end * unit), head)
        first = max(first, end)


def weight_of(piece: Piece) -> int:
    """Return what a piece costs, as bytes read."""
    return max(piece.stop - piece.start, LEAST_WEIGHT)


def _places(file: StoreFile, head: int, conditions: Conditions) -> Span:
    """Return bounds of the byte positions of wanted units, as far as these columns follow from them."""
    low, high = span(conditions, "position")
    if file.kind == CONSUMEQUEUE:
        unit = consumequeue.UNIT_BYTES  # a damaged name may begin within one
        first, last = (n * unit - (file.base_offset or 0) for n in span(conditions, "queue_offset"))
        low, high = max(low, first - unit), min(high, last + unit)
    if file.kind == INDEX:
        first, last = (head + n * index.UNIT_BYTES for n in span(conditions, "number"))
        low, high = max(low, first), min(high, last)
    return low, high


def _within(place: float, low: int, high: int) -> int:
    return int(max(low, min(place, high)))


def unit_batches(
    root: str, pieces: Iterable[Piece], names: Sequence[str], conditions: Conditions = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the written units of some pieces that meet the conditions, with these columns, in order of place."""
    return merged((batch for piece in pieces for batch in _batches_of(root, piece, names, conditions)), MERGED_ROWS)


def _batches_of(root: str, piece: Piece, names: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
    step = BATCH_ROWS * UNIT_BYTES[piece.file.kind]
    needed = {name for condition in conditions for name in condition.columns}.union(names)
    for start in range(piece.start, piece.stop, step):
        data = read_range(root, piece.file.path, start, min(start + step, piece.stop))
        count, makers = _COLUMNS[piece.file.kind](root, piece, data, start)
        if not count:
            continue
        columns = {name: arrow(makers[name]()) for name in needed}
        wanted = pa.array(np.ones(count, np.bool_))
        for condition in conditions:
            wanted = pc.and_kleene(wanted, condition.holds(columns.__getitem__))
        batch = batch_of({name: columns[name] for name in names}).filter(wanted)
        if len(batch):
            yield batch


def _named(file: StoreFile) -> dict[str, str | int | None]:
    """Return the columns that the file's path gives, each the same in all rows."""
    number = file.queue_id
    fits = number is not None and -MOST_QUEUE_ID - 1 <= number <= MOST_QUEUE_ID
    return {
        "path": valid_text(file.path),
        "topic": valid_text(file.topic or ""),
        "queue_id": number if fits else None,
    }


def _columns(file: StoreFile, positions: npt.NDArray[np.int64], units: npt.NDArray[np.void]) -> dict[str, Maker]:
    """Return the makers of the columns that every kind of file has."""
    named = {
        name: functools.partial(constant, value, len(positions), _NAMED[name]) for name, value in _named(file).items()
    }
    stored = {name: functools.partial(units.__getitem__, name) for name in units.dtype.names or ()}
    return {**named, "position": lambda: positions, **stored}


def _queue_columns(root: str, piece: Piece, data: Bytes, start: int) -> tuple[int, dict[str, Maker]]:
    units = consumequeue.decode(data.data)
    kept = np.flatnonzero(~consumequeue.is_zero(units))
    positions = start + kept * consumequeue.UNIT_BYTES
    first = (piece.file.base_offset or 0) // consumequeue.UNIT_BYTES  # a name may be too high to count bytes from
    return len(kept), {
        **_columns(piece.file, positions, units[kept]),
        "queue_offset": lambda: first + positions // consumequeue.UNIT_BYTES,
        "pre_blank": lambda: consumequeue.is_pre_blank(units[kept]),
    }


def _batch_queue_columns(root: str, piece: Piece, data: Bytes, start: int) -> tuple[int, dict[str, Maker]]:
    units = batchqueue.decode(data.data)
    kept = np.flatnonzero(~batchqueue.is_zero(units))
    return len(kept), _columns(piece.file, start + kept * batchqueue.UNIT_BYTES, units[kept])


def _index_columns(root: str, piece: Piece, data: Bytes, start: int) -> tuple[int, dict[str, Maker]]:
    """Return the units that the header counts, and others that are not zero; unit 0 is never used."""
    header = index.decode_header(read_range(root, piece.file.path, 0, index.HEADER_BYTES).data)
    units = index.decode_units(data.data)
    numbers = (start - piece.head) // index.UNIT_BYTES + np.arange(len(units))
    written = data.reshape(-1, index.UNIT_BYTES).any(axis=1) | (numbers < int(header["unit_count"]))
    kept = np.flatnonzero(written & (numbers > 0))
    seconds = units["seconds"][kept].astype(np.int64)
    return len(kept), {
        **_columns(piece.file, start + kept * index.UNIT_BYTES, units[kept]),
        "number": lambda: numbers[kept].astype(np.int32),
        "store_timestamp_ms": lambda: int(header["begin_timestamp_ms"]) + seconds * 1000,
    }


# Of each kind of file, how many units are shown of some bytes, and how their columns are made.
_COLUMNS: Final[dict[str, Callable[[str, Piece, Bytes, int], tuple[int, dict[str, Maker]]]]] = {
    CONSUMEQUEUE: _queue_columns,
    BATCHQUEUE: _batch_queue_columns,
    INDEX: _index_columns,
}
