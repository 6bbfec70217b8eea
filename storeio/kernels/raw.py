"""Compiled loads that are a few instructions: big-endian numbers, and 32 or 64 bytes at once.

Indexing byte by byte costs a test for a negative index each, which also keeps the compiler from
joining bytes. Nothing here tests anything: the caller knows that the bytes are there. With
NUMBA_BOUNDSCHECK or NUMBA_DISABLE_JIT all of it is plain indexing, so that tests see every read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import extending, types

from storeio.compiled import compiled, config

Bytes = npt.NDArray[np.uint8]
intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic

LANES: Final = 32  # bytes of a block
WIDE: Final = 64  # bytes of a wide block, as many as a mask has bits
PLAIN: Final = bool(config.DISABLE_JIT or config.BOUNDSCHECK or not np.little_endian)
# 31**k modulo 2**32 for k up to LANES, signed, so that 32 bits times one of them fits 63.
POWERS = np.array([(pow(31, k, 2**32) + 2**31) % 2**32 - 2**31 for k in range(LANES + 1)], dtype=np.int64)

BYTE, BIT, INT32, INT64 = (ir.IntType(bits) for bits in (8, 1, 32, 64))
BLOCK, WIDE_BLOCK = ir.VectorType(BYTE, LANES), ir.VectorType(BYTE, WIDE)


def load(context: Any, builder: Any, sig: Any, data: Any, i: Any, kind: Any) -> Any:
    """Emit the load of a number or block from byte ``i`` of an array."""
    pointer = builder.gep(context.make_array(sig.args[0])(context, builder, data).data, [i])
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)


def splat(builder: Any, number: Any, kind: Any) -> Any:
    """Emit a vector whose lanes all are ``number``."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(INT32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(INT32, LANES), None))


def mask(builder: Any, lanes: Any) -> Any:
    """Emit the number whose bit ``k`` is lane ``k``."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), INT64)


def join_lanes(builder: Any, lanes: Any, bits: int, factor: int) -> Any:
    """Emit half as many lanes of twice the bits: each first one times ``factor`` plus each second one."""
    kind = ir.VectorType(ir.IntType(2 * bits), LANES * 4 // bits)
    both = builder.bitcast(lanes, kind)
    count = kind.count
    first = builder.and_(both, ir.Constant(kind, [2**bits - 1] * count))
    second = builder.lshr(both, ir.Constant(kind, [bits] * count))
    return builder.add(builder.mul(first, ir.Constant(kind, [factor] * count)), second)


@intrinsic
def load_int32(typing: Any, data: Any, i: Any) -> Any:
    """Signed big-endian 32-bit number at ``i``."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.sext(builder.bswap(load(context, builder, sig, args[0], args[1], INT32)), INT64)

    return types.int64(data, types.int64), emit


@intrinsic
def load_int64(typing: Any, data: Any, i: Any) -> Any:
    """Signed big-endian 64-bit number at ``i``."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bswap(load(context, builder, sig, args[0], args[1], INT64))

    return types.int64(data, types.int64), emit


@intrinsic
def compare_equal(typing: Any, data: Any, i: Any, byte: Any) -> Any:
    """Which of the block's bytes are ``byte``."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = load(context, builder, sig, args[0], args[1], BLOCK)
        return mask(builder, builder.icmp_unsigned("==", block, splat(builder, builder.trunc(args[2], BYTE), BLOCK)))

    return types.int64(data, types.int64, types.int64), emit


@intrinsic
def compare_unusual(typing: Any, data: Any, i: Any) -> Any:
    """Which of the wide block's bytes are below 32 as signed numbers: control characters and not ASCII."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = load(context, builder, sig, args[0], args[1], WIDE_BLOCK)
        return builder.bitcast(builder.icmp_signed("<", block, ir.Constant(WIDE_BLOCK, [32] * WIDE)), INT64)

    return types.int64(data, types.int64), emit


@intrinsic
def compare_separators(typing: Any, data: Any, i: Any) -> Any:
    """Which of the wide block's bytes are 1 or 2."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = load(context, builder, sig, args[0], args[1], WIDE_BLOCK)
        less = builder.sub(block, ir.Constant(WIDE_BLOCK, [1] * WIDE))
        return builder.bitcast(builder.icmp_unsigned("<", less, ir.Constant(WIDE_BLOCK, [2] * WIDE)), INT64)

    return types.int64(data, types.int64), emit


@intrinsic
def count_ones(typing: Any, value: Any) -> Any:
    """One bits."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), emit


@intrinsic
def count_zeros(typing: Any, value: Any) -> Any:
    """Zero bits below the lowest one bit."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(BIT, 0))

    return types.int64(types.int64), emit


@intrinsic
def hash_block(typing: Any, data: Any, i: Any, skipped: Any) -> Any:
    """31-polynomial of the block without its first ``skipped`` bytes; bit 32 where one of them is not ASCII."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data, i, skipped = args
        lanes = ir.Constant(BLOCK, list(range(LANES)))
        kept = builder.icmp_unsigned(">=", lanes, splat(builder, builder.trunc(skipped, BYTE), BLOCK))
        zeros = ir.Constant(BLOCK, None)
        block = builder.select(kept, load(context, builder, sig, data, i, BLOCK), zeros)
        pairs = join_lanes(builder, block, 8, 31)
        fours = join_lanes(builder, pairs, 16, 31**2)
        powers = ir.Constant(fours.type, [pow(31, LANES - 4 - k, 2**32) for k in range(0, LANES, 4)])
        kind = ir.FunctionType(INT32, [fours.type])
        add = builder.module.declare_intrinsic(f"llvm.vector.reduce.add.v{LANES // 4}i32", fnty=kind)
        total = builder.zext(builder.call(add, [builder.mul(fours, powers)]), INT64)
        high = builder.icmp_unsigned("!=", mask(builder, builder.icmp_signed("<", block, zeros)), ir.Constant(INT64, 0))
        return builder.or_(total, builder.shl(builder.zext(high, INT64), ir.Constant(INT64, 32)))

    return types.int64(data, types.int64, types.int64), emit


if PLAIN:

    @compiled("int64(readonly(uint8[::1]), int64)")
    def int32_at(data: Bytes, i: int) -> int:
        """Return the signed big-endian 32-bit number at ``i``; the caller knows that it fits."""
        value = np.int64(data[i]) << 24 | np.int64(data[i + 1]) << 16
        value |= np.int64(data[i + 2]) << 8 | np.int64(data[i + 3])
        return (value ^ 0x80000000) - 0x80000000

    @compiled("int64(readonly(uint8[::1]), int64)")
    def int64_at(data: Bytes, i: int) -> int:
        """Return the signed big-endian 64-bit number at ``i``; the caller knows that it fits."""
        low = np.int64(int32_at(data, i + 4)) & np.int64(0xFFFFFFFF)
        return np.int64(int32_at(data, i)) << 32 | low

    @compiled("int64(readonly(uint8[::1]), int64, int64)")
    def equal_mask(data: Bytes, i: int, byte: int) -> int:
        """Return bit ``k`` set where byte ``i + k`` is ``byte``, for a whole block."""
        bits = np.int64(0)
        for k in range(LANES):
            bits |= np.int64(data[i + k] == byte) << np.int64(k)
        return bits

    @compiled("int64(readonly(uint8[::1]), int64, int64)")
    def unusual_mask(data: Bytes, i: int, count: int) -> int:
        """Return bit ``k`` set where byte ``i + k`` is below 32 or not ASCII, for ``count`` bytes of a wide block."""
        bits = np.int64(0)
        for k in range(min(count, WIDE)):
            bits |= np.int64(data[i + k] < 32 or data[i + k] > 127) << np.int64(k)
        return bits

    @compiled("int64(readonly(uint8[::1]), int64, int64)")
    def separator_mask(data: Bytes, i: int, count: int) -> int:
        """Return bit ``k`` set where byte ``i + k`` is 1 or 2, for ``count`` bytes of a wide block."""
        bits = np.int64(0)
        for k in range(min(count, WIDE)):
            bits |= np.int64(data[i + k] == 1 or data[i + k] == 2) << np.int64(k)
        return bits

    @compiled("int64(int64)")
    def trailing_zeros(value: int) -> int:
        """Return the number of the lowest bit that is set, 64 where none is."""
        count = np.int64(0)
        while count < 64 and not (value >> count) & 1:
            count += 1
        return count

    @compiled("int64(int64)")
    def ones(value: int) -> int:
        """Return how many bits are set."""
        count = np.int64(0)
        for k in range(64):
            count += (value >> np.int64(k)) & 1
        return count

    @compiled("int64(int64)")
    def without_lowest(value: int) -> int:
        """Return a number without its lowest bit that is set."""
        place = trailing_zeros(value)
        return value ^ (np.int64(1) << place) if place < 64 else value

    @compiled("int64(readonly(uint8[::1]), int64, int64)")
    def tail_hash(data: Bytes, stop: int, count: int) -> int:
        """Return the 31-polynomial of the last ``count`` bytes before ``stop``; bit 32 where one is not ASCII.

        At most a block of them, and ``stop`` is at least a block.
        """
        value = np.int64(0)
        high = np.int64(data[stop - LANES]) >> 8  # the compiled one reads from there on
        for i in range(stop - count, stop):
            value = (value * 31 + np.int64(data[i])) & 0xFFFFFFFF
            high |= np.int64(data[i]) >> 7
        return high << 32 | value

else:

    @compiled("int64(readonly(uint8[::1]), int64)", forceinline=True)
    def int32_at(data: Bytes, i: int) -> int:
        """Return the signed big-endian 32-bit number at ``i``; the caller knows that it fits."""
        return load_int32(data, i)

    @compiled("int64(readonly(uint8[::1]), int64)", forceinline=True)
    def int64_at(data: Bytes, i: int) -> int:
        """Return the signed big-endian 64-bit number at ``i``; the caller knows that it fits."""
        return load_int64(data, i)

    @compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
    def equal_mask(data: Bytes, i: int, byte: int) -> int:
        """Return bit ``k`` set where byte ``i + k`` is ``byte``, for a whole block."""
        return compare_equal(data, i, byte)

    @compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
    def unusual_mask(data: Bytes, i: int, count: int) -> int:
        """Return bit ``k`` set where byte ``i + k`` is below 32 or not ASCII, for ``count`` bytes of a wide block."""
        bits = compare_unusual(data, i)
        return bits if count >= WIDE else bits & ((np.int64(1) << count) - 1)

    @compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
    def separator_mask(data: Bytes, i: int, count: int) -> int:
        """Return bit ``k`` set where byte ``i + k`` is 1 or 2, for ``count`` bytes of a wide block."""
        bits = compare_separators(data, i)
        return bits if count >= WIDE else bits & ((np.int64(1) << count) - 1)

    @compiled("int64(int64)", forceinline=True)
    def trailing_zeros(value: int) -> int:
        """Return the number of the lowest bit that is set, 64 where none is."""
        return count_zeros(value)

    @compiled("int64(int64)", forceinline=True)
    def ones(value: int) -> int:
        """Return how many bits are set."""
        return count_ones(value)

    @compiled("int64(int64)", forceinline=True)
    def without_lowest(value: int) -> int:
        """Return a number without its lowest bit that is set."""
        return value & (value - 1)

    @compiled("int64(readonly(uint8[::1]), int64, int64)", forceinline=True)
    def tail_hash(data: Bytes, stop: int, count: int) -> int:
        """Return the 31-polynomial of the last ``count`` bytes before ``stop``; bit 32 where one is not ASCII.

        At most a block of them, and ``stop`` is at least a block.
        """
        return hash_block(data, stop - LANES, LANES - count)
