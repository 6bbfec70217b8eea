"""Structured arrays -> Arrow record batches, native byte order.

The only place where numbers as stored on disk become this machine's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column = Any  # npt.NDArray[Any] or pa.Array, which has no types


def native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the numbers in this machine's byte order; the same array where they are already."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def to_batch(array: npt.NDArray[np.void]) -> pa.RecordBatch:
    """Return a structured array as a batch: same names, same order, native numbers."""
    return batch_of(columns_of(array))


def columns_of(array: npt.NDArray[np.void]) -> dict[str, Column]:
    """Return the fields of a structured array by name."""
    return {name: array[name] for name in array.dtype.names or ()}


def batch_of(columns: dict[str, Column]) -> pa.RecordBatch:
    """Return named columns, all of one length, as a batch."""
    arrays = [c if isinstance(c, pa.Array) else pa.array(native(c)) for c in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def constant(value: str | int | None, count: int, kind: pa.DataType) -> pa.Array:
    """Return a column that says the same in every row."""
    return pa.repeat(pa.scalar(value, type=kind), count)
