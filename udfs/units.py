"""Stretches of queue and index files -> Arrow batches of the units that are written in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storeio.format import batchqueue, consumequeue, index
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, INDEX, StoreFile
from storeio.report.rows import valid_text
from storeio.scan import Bytes, read_range
from udfs.arrow import Column, batch_of, columns_of, constant

BATCH_ROWS: Final = 65536
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


def pieces_of(file: StoreFile, piece_bytes: int, *, slots: int = 0) -> Iterator[Piece]:
    """Yield the pieces of a file in order; bytes behind the last whole unit belong to none.

    Args:
        file: Of a kind in ``UNIT_BYTES``.
        piece_bytes: At most so long, but never less than a unit.
        slots: Hash slots of an index file.
    """
    unit = UNIT_BYTES[file.kind]
    head = index.units_start(slots) if file.kind == INDEX else 0
    step = max(piece_bytes // unit, 1) * unit
    end = file.size - (file.size - head) % unit
    for start in range(head, end, step):
        yield Piece(file, start, min(start + step, end), head)


def unit_batches(root: str, piece: Piece, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the written units of a piece with these columns, in order of place."""
    data = read_range(root, piece.file.path, piece.start, piece.stop)
    step = BATCH_ROWS * UNIT_BYTES[piece.file.kind]
    for start in range(0, len(data), step):
        part = data[start : start + step]
        columns = _COLUMNS[piece.file.kind](root, piece, part, piece.start + start)
        yield batch_of({name: columns[name] for name in names})


def _place(file: StoreFile, positions: npt.NDArray[np.int64]) -> dict[str, Column]:
    """Return the columns that the file's path gives."""
    count = len(positions)
    return {
        "path": constant(valid_text(file.path), count, pa.string()),
        "topic": constant(valid_text(file.topic or ""), count, pa.string()),
        "queue_id": constant(file.queue_id, count, pa.int32()),
        "position": positions,
    }


def _queue_columns(root: str, piece: Piece, data: Bytes, start: int) -> dict[str, Column]:
    units = consumequeue.decode(data.data)
    kept = np.flatnonzero(~consumequeue.is_zero(units))
    positions = start + kept * consumequeue.UNIT_BYTES
    return {
        **_place(piece.file, positions),
        "queue_offset": ((piece.file.base_offset or 0) + positions) // consumequeue.UNIT_BYTES,
        **columns_of(units[kept]),
        "pre_blank": consumequeue.is_pre_blank(units[kept]),
    }


def _batch_queue_columns(root: str, piece: Piece, data: Bytes, start: int) -> dict[str, Column]:
    units = batchqueue.decode(data.data)
    kept = np.flatnonzero(~batchqueue.is_zero(units))
    return {**_place(piece.file, start + kept * batchqueue.UNIT_BYTES), **columns_of(units[kept])}


def _index_columns(root: str, piece: Piece, data: Bytes, start: int) -> dict[str, Column]:
    """Return the units that the header counts, and others that are not zero; unit 0 is never used."""
    header = index.decode_header(read_range(root, piece.file.path, 0, index.HEADER_BYTES).data)
    units = index.decode_units(data.data)
    numbers = (start - piece.head) // index.UNIT_BYTES + np.arange(len(units))
    written = data.reshape(-1, index.UNIT_BYTES).any(axis=1) | (numbers < int(header["unit_count"]))
    kept = np.flatnonzero(written & (numbers > 0))
    seconds = units["seconds"][kept].astype(np.int64)
    return {
        "path": constant(valid_text(piece.file.path), len(kept), pa.string()),
        "position": start + kept * index.UNIT_BYTES,
        "number": numbers[kept].astype(np.int32),
        **columns_of(units[kept]),
        "store_timestamp_ms": int(header["begin_timestamp_ms"]) + seconds * 1000,
    }


_COLUMNS: Final[dict[str, Callable[[str, Piece, Bytes, int], dict[str, Column]]]] = {
    CONSUMEQUEUE: _queue_columns,
    BATCHQUEUE: _batch_queue_columns,
    INDEX: _index_columns,
}
