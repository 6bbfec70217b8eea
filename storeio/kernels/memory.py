"""Compiled hints about memory: what will be needed soon, and lines that go past the CPU's caches.

Nothing here tests anything: the caller knows that what is written to is there. With NUMBA_BOUNDSCHECK or
NUMBA_DISABLE_JIT all of it is plain indexing, so that tests see every write.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from storeio.compiled import compiled
from storeio.kernels.raw import BYTE, INT32, INT64, PLAIN, intrinsic

Bytes = npt.NDArray[np.uint8]
Small = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]  # shape (n,)
Table = npt.NDArray[np.int64]  # shape (rows, columns)

LINE: Final = 8  # numbers of 64 bits that are written to memory together


def fetch_for(write: bool) -> Any:
    """Intrinsic that has the cache line of an array's element brought in, for writing or for reading.

    What lies in a read-only mapping must be asked for reading: asked for writing it comes no sooner than unasked.
    """

    @intrinsic
    def fetch(typing: Any, numbers: Any, i: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pointer = builder.gep(context.make_array(sig.args[0])(context, builder, args[0]).data, [args[1]])
            pointer = builder.bitcast(pointer, BYTE.as_pointer())
            kind = ir.FunctionType(ir.VoidType(), [pointer.type, INT32, INT32, INT32])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
            builder.call(prefetch, [pointer, *(ir.Constant(INT32, n) for n in (int(write), 3, 1))])  # keep it, data
            return context.get_dummy_value()

        return types.void(numbers, types.int64), emit

    return fetch


@intrinsic
def store_line(typing: Any, table: Any, at: Any, numbers: Any, i: Any) -> Any:
    """Write a line of numbers from element ``i`` on to the element ``at`` of a table, past the caches."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        table, at, numbers, i = args
        kind = ir.VectorType(INT64, LINE)
        source = builder.gep(context.make_array(sig.args[2])(context, builder, numbers).data, [i])
        target = builder.gep(context.make_array(sig.args[0])(context, builder, table).data, [at])
        line = builder.load(builder.bitcast(source, kind.as_pointer()), align=8)
        stored = builder.store(line, builder.bitcast(target, kind.as_pointer()), align=8 * LINE)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(INT32, 1)]))
        return context.get_dummy_value()

    return types.void(table, types.int64, numbers, types.int64), emit


@intrinsic
def wait_for_stores(typing: Any) -> Any:
    """Have all that was written seen by others before what is written from here on."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit


fetch_to_write = fetch_for(write=True)
fetch_to_read = fetch_for(write=False)

if PLAIN:

    @compiled("void(int32[::1], int64)")
    def fetch_ahead(numbers: Small, i: int) -> None:
        """Have element ``i`` brought into the cache for writing; here only tell whether it is one."""
        numbers[i] = numbers[i]

    @compiled("void(int64[:, ::1], int64, int64[::1], int64)")
    def put_line(table: Table, at: int, numbers: Numbers, i: int) -> None:
        """Write a line of numbers from ``i`` on to a table, row behind row from its element ``at`` on."""
        for k in range(LINE):
            table[at // table.shape[1], at % table.shape[1] + k] = numbers[i + k]

    @compiled("void()")
    def all_put() -> None:
        """Have others see the lines that were written; here they do."""

    @compiled("void(readonly(uint8[::1]), int64)")
    def fetch_bytes(data: Bytes, i: int) -> None:
        """Have the bytes around ``i`` brought into the cache for reading; here do nothing."""

else:

    @compiled("void(int32[::1], int64)", forceinline=True)
    def fetch_ahead(numbers: Small, i: int) -> None:
        """Have element ``i`` brought into the cache for writing; nothing happens where there is none."""
        fetch_to_write(numbers, i)

    @compiled("void(int64[:, ::1], int64, int64[::1], int64)", forceinline=True)
    def put_line(table: Table, at: int, numbers: Numbers, i: int) -> None:
        """Write a line of numbers from ``i`` on past the caches to a table's element ``at``, where a line begins."""
        store_line(table, at, numbers, i)

    @compiled("void()")
    def all_put() -> None:
        """Have others see the lines that were written, before anything that is written from here on."""
        wait_for_stores()

    @compiled("void(readonly(uint8[::1]), int64)", forceinline=True)
    def fetch_bytes(data: Bytes, i: int) -> None:
        """Have the bytes around ``i`` brought into the cache for reading; nothing happens where there are none."""
        fetch_to_read(data, i)
