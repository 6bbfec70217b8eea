"""Structured arrays -> Arrow record batches, native byte order.

The only place where numbers as stored on disk become this machine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy.typing as npt
import pyarrow as pa

Column = Any  # npt.NDArray[Any] or pa.Array, which has no types


def native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the numbers in this machine's byte order; the same array where they are already."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def batch_of(columns: dict[str, Column]) -> pa.RecordBatch:
    """Return named columns, all of one length, as a batch."""
    return pa.RecordBatch.from_arrays([arrow(c) for c in columns.values()], names=list(columns))


def arrow(column: Column) -> pa.Array:
    """Return a column as an Arrow array."""
    return column if isinstance(column, pa.Array) else pa.array(native(column))


def constant(value: str | int | None, count: int, kind: pa.DataType) -> pa.Array:
    """Return a column that says the same in every row."""
    return pa.repeat(pa.scalar(value, type=kind), count)


def merged(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of at least so many, the last aside: each costs the JVM what many rows do."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count >= rows:
            yield _one(waiting)
            waiting, count = [], 0
    if count:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
