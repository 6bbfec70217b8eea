"""CRC-32 of message bodies: which engine runs, and how compiled code calls it.

A kernel passes ``ADDRESS`` and ``KIND`` to ``body_crc`` as arguments. They must stay arguments: the address differs in
every process, and a kernel that read it from a global would keep an old one in its cached machine code.

An engine is taken only after it agreed with ``crcmod`` about the polynomial, called as the kernels call it.
Source: ``org.apache.rocketmq.common.UtilAll.crc32`` of RocketMQ 5, whose ``CRC32`` is that of gzip.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import os
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from crcmod.predefined import mkCrcFun
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from storeio.clmul import LEAST_BYTES, address_of, available, crc_at, worthwhile
from storeio.compiled import compiled, config
from storeio.errors import UsageError

Bytes = npt.NDArray[np.uint8]  # shape (n,)

ISAL, ZLIB, TABLES, CLMUL = 0, 1, 2, 3  # calling conventions, values of engine_kind
PIECE_BYTES = 1 << 30  # zlib takes the length as unsigned int
POLYNOMIAL = 0xEDB88320  # 0x104C11DB7 without its highest bit, lowest bit first
LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)  # zlib's uLong


def slicing_tables() -> npt.NDArray[np.uint32]:
    """Tables, shape (16, 256): row k is the CRC of one byte that k zero bytes follow."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = (crc >> np.uint32(1)) ^ (crc & np.uint32(1)) * np.uint32(POLYNOMIAL)
    rows = [crc]
    for _ in range(15):
        rows.append((rows[-1] >> np.uint32(8)) ^ crc[rows[-1] & np.uint32(0xFF)])
    return np.stack(rows)


SLICES = slicing_tables()


def foreign_call(crc_bits: int, length_bits: int) -> Any:
    """Intrinsic that calls ``crc(crc, bytes, length)`` of C at an address known only when it runs."""

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def call(typing: Any, address: Any, crc: Any, data: Any, start: Any, length: Any) -> Any:
        signature = types.uint32(types.int64, types.uint32, data, types.int64, types.int64)
        crc_type, length_type = ir.IntType(crc_bits), ir.IntType(length_bits)

        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            address, crc, data, start, length = args
            pointer = builder.gep(context.make_array(sig.args[2])(context, builder, data).data, [start])
            if crc_bits > 32:
                crc = builder.zext(crc, crc_type)
            if length_bits < 64:
                length = builder.trunc(length, length_type)
            function = ir.FunctionType(crc_type, [crc_type, pointer.type, length_type])
            result = builder.call(builder.inttoptr(address, function.as_pointer()), [crc, pointer, length])
            return builder.trunc(result, ir.IntType(32)) if crc_bits > 32 else result

        return signature, emit

    return call


call_isal = foreign_call(32, 64)  # uint32_t crc32_gzip_refl(uint32_t, const unsigned char *, uint64_t)
call_zlib = foreign_call(LONG_BITS, 32)  # uLong crc32(uLong, const Bytef *, uInt)


@compiled("uint32(readonly(uint8[::1]), int64, int64)")
def table_crc(data: Bytes, start: int, stop: int) -> int:
    """CRC-32 of ``data[start:stop]`` by table look-ups, 16 bytes at a time; 0 where the bounds lie outside."""
    if start < 0 or stop > data.size:
        return 0  # also tells the compiler that no index is negative: half as fast again
    crc = np.uint32(0xFFFFFFFF)
    i = start
    while i <= stop - 16:
        crc = (
            SLICES[15, data[i] ^ (crc & np.uint32(0xFF))]
            ^ SLICES[14, data[i + 1] ^ ((crc >> np.uint32(8)) & np.uint32(0xFF))]
            ^ SLICES[13, data[i + 2] ^ ((crc >> np.uint32(16)) & np.uint32(0xFF))]
            ^ SLICES[12, data[i + 3] ^ (crc >> np.uint32(24))]
            ^ SLICES[11, data[i + 4]]
            ^ SLICES[10, data[i + 5]]
            ^ SLICES[9, data[i + 6]]
            ^ SLICES[8, data[i + 7]]
            ^ SLICES[7, data[i + 8]]
            ^ SLICES[6, data[i + 9]]
            ^ SLICES[5, data[i + 10]]
            ^ SLICES[4, data[i + 11]]
            ^ SLICES[3, data[i + 12]]
            ^ SLICES[2, data[i + 13]]
            ^ SLICES[1, data[i + 14]]
            ^ SLICES[0, data[i + 15]]
        )
        i += 16
    while i < stop:
        crc = SLICES[0, (crc ^ data[i]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        i += 1
    return crc ^ np.uint32(0xFFFFFFFF)  # type: ignore[return-value, no-any-return, unused-ignore]


if config.DISABLE_JIT:  # intrinsics exist in compiled code only

    def body_crc(engine_address: int, engine_kind: int, data: Bytes, start: int, stop: int) -> int:
        """CRC-32 of ``data[start:stop]`` by zlib or by tables; 0 where the bounds lie outside."""
        if start < 0 or stop < start or stop > data.size:
            return 0
        return table_crc(data, start, stop) if engine_kind == TABLES else zlib.crc32(data[start:stop].data)

else:
    # Inlined, since a call that hands over an array takes 6 ns: a third of the CRC of 100 bytes.
    @compiled("uint32(int64, int64, readonly(uint8[::1]), int64, int64)", forceinline=True)
    def body_crc(engine_address: int, engine_kind: int, data: Bytes, start: int, stop: int) -> int:
        """CRC-32 of ``data[start:stop]`` by the engine at that address; 0 where the bounds lie outside."""
        if start < 0 or stop < start or stop > data.size:
            return 0
        if engine_kind == CLMUL and start >= LEAST_BYTES and stop - start >= LEAST_BYTES:
            return crc_at(address_of(data, start), stop - start)
        if engine_kind == TABLES or engine_address == 0:
            return table_crc(data, start, stop)
        if engine_kind == ISAL:
            return call_isal(engine_address, np.uint32(0), data, start, stop - start)  # type: ignore[no-any-return, unused-ignore]
        crc = np.uint32(0)
        while start < stop:
            length = min(stop - start, PIECE_BYTES)
            crc = call_zlib(engine_address, crc, data, start, length)
            start += length
        return crc  # type: ignore[return-value, no-any-return, unused-ignore]


def isal_address() -> int:
    """Address of ISA-L's CRC-32 in the extension module that carries it; ImportError or OSError if it is not there."""
    from isal import isal_zlib  # an optional dependency

    return symbol_address(isal_zlib.__file__, "crc32_gzip_refl")


def zlib_address() -> int:
    """Address of zlib's CRC-32, of the interpreter's zlib where it tells; OSError if there is none."""
    for library in (getattr(zlib, "__file__", ""), "libz.so.1"):  # an interpreter with zlib built in has no __file__
        with contextlib.suppress(OSError):
            return symbol_address(library, "crc32")
    return symbol_address(ctypes.util.find_library("z") or "libz", "crc32")  # starts other programs: last


def symbol_address(library: str | None, name: str) -> int:
    """Address of a C function, without a library of one that this process has; OSError if either is not there."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
    except AttributeError as error:
        raise OSError(str(error)) from error


def agrees(address: int, kind: int) -> bool:
    """Tell whether an engine computes the CRC-32 that the polynomial defines, called as the kernels call it."""
    define: Callable[[bytes], int] = mkCrcFun("crc-32")
    data = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)
    data[1000:1500] = 0
    data[1500:2000] = 0xFF
    # Lengths around the block sizes of tables and vector code, from aligned and unaligned starts.
    places = [(start, start + length) for start in (0, 1, 977, 1493) for length in (0, 1, 7, 16, 31, 64, 129, 300)]
    places += [(0, 5000), (3, 4099), (17, 4990)]
    return all(
        int(body_crc(address, kind, data, start, stop)) == define(data[start:stop].tobytes()) for start, stop in places
    )


def no_address() -> int:
    """Address of our own vector code, which has none; OSError if this CPU cannot run it."""
    if not available():
        raise OSError("the CPU lacks VPCLMULQDQ, or code is not compiled for it")
    return 0


ENGINES: dict[str, tuple[int, Callable[[], int]]] = {
    "clmul": (CLMUL, no_address),
    "isal": (ISAL, isal_address),
    "zlib": (ZLIB, zlib_address),
    "tables": (TABLES, lambda: 0),
}  # name, calling convention, what finds the address


def fastest_first() -> list[str]:
    """Names of the engines; a library with code for wider vectors than ours goes before ours."""
    vectors = ["clmul", "isal"] if worthwhile() else ["isal", "clmul"]
    return [*vectors, "zlib", "tables"]


def choose_engine(forced: str) -> tuple[str, int, int]:
    """Name, kind and address of the first engine that works, or of the one that is forced.

    Raises:
        UsageError: The forced name is no engine, or that one is not there or computes something else.
        RuntimeError: None works.
    """
    if forced and forced not in ENGINES:
        raise UsageError(f"STOREIO_CRC_ENGINE={forced}: no such engine, take one of {', '.join(ENGINES)}")
    reasons = []
    for name in [forced] if forced else fastest_first():
        kind, find = ENGINES[name]
        try:
            address = uncompiled_address(name) if config.DISABLE_JIT else find()
        except (ImportError, OSError) as error:
            reasons.append(f"{name} is not there: {error}")
            continue
        if agrees(address, kind):
            return name, kind, address
        reasons.append(f"{name} disagrees with the definition of CRC-32")
    if forced:
        raise UsageError(f"STOREIO_CRC_ENGINE={forced}: {'; '.join(reasons)}")
    raise RuntimeError(f"no CRC engine: {'; '.join(reasons)}")


def uncompiled_address(name: str) -> int:
    """Address that stands for Python's own zlib and for the tables; OSError for an engine that needs compiled code."""
    if name in ("clmul", "isal"):
        raise OSError("NUMBA_DISABLE_JIT is set and only compiled code can call it")
    return 0


ENGINE, KIND, ADDRESS = choose_engine(os.environ.get("STOREIO_CRC_ENGINE", ""))


def crc32(data: bytes | bytearray | memoryview) -> int:
    """CRC-32 of some bytes, all 32 bits of it."""
    view = np.frombuffer(memoryview(data).cast("B"), dtype=np.uint8)
    return int(body_crc(ADDRESS, KIND, view, 0, view.size))
