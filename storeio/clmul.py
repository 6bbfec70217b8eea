"""CRC-32 by carry-less multiplication of 32 bytes at once, inlined into compiled kernels.

For CPUs that have the instruction for two lanes (VPCLMULQDQ) but not the wider vectors for which the
libraries have code: there it is twice as fast as they are. A message is a polynomial over GF(2) whose
first bit is the highest coefficient, and bytes hold their lowest bit first. A block that lies ``n`` bits
before another one is worth it times x**n, and that is two multiplications by constants: *folding*.

Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel, 2009; the
constants are computed here from the polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as utilities
from numba.core.registry import cpu_target

from storeio.compiled import compiled, config

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic
cgutils: Any = utilities  # because numba has no types

POLYNOMIAL: Final = 0x104C11DB7  # x**32 and below, highest bit first
NEEDED: Final = ("pclmul", "avx2", "vpclmulqdq")
WIDER: Final = ("avx512f", "vpclmulqdq")  # libraries have faster code for these
LEAST_BYTES: Final = 16  # of a message, and of readable bytes before it
STRIDE: Final = 128  # bytes of one round: four vectors of two lanes

INT8, INT32, INT64, INT128 = (ir.IntType(bits) for bits in (8, 32, 64, 128))
LANE, PAIR = ir.VectorType(INT64, 2), ir.VectorType(INT64, 4)


def remainder(power: int) -> int:
    """Return x**power modulo the polynomial."""
    value = 1
    for _ in range(power):
        value <<= 1
        value ^= POLYNOMIAL if value >> 32 else 0
    return value


def quotient(power: int) -> int:
    """Return x**power divided by the polynomial, without the rest."""
    left, found = 1 << power, 0
    for shift in range(power - 32, -1, -1):
        if left >> (shift + 32) & 1:
            left ^= POLYNOMIAL << shift
            found |= 1 << shift
    return found


def reflected(value: int, bits: int) -> int:
    """Return the lowest bits in the opposite order."""
    return int(f"{value:0{bits}b}"[::-1], 2)


def factor(power: int) -> int:
    """Return x**power as a factor for reflected numbers, whose product comes out one bit too low."""
    return reflected(remainder(power), 32) << 1


def folding(bits: int) -> tuple[int, int]:
    """Return the factors that move 16 bytes ahead by ``bits``: of the first 8 bytes and of the others."""
    return factor(bits + 32), factor(bits - 32)


def target_features() -> frozenset[str]:
    """Return what compiled code may use of the CPU, in LLVM's names, each with a sign before it."""
    return frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))


def available() -> bool:
    """Tell whether compiled code may use the instructions."""
    features = target_features()
    return not config.DISABLE_JIT and all(f"+{name}" in features for name in NEEDED)


def worthwhile() -> bool:
    """Tell whether this is the fastest way on this CPU, as far as known."""
    features = target_features()
    return available() and not all(f"+{name}" in features for name in WIDER)


class Emitter:
    """Emits vector code; every method returns the value that its instructions compute."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        # The message's first four bytes are inverted. From byte r on, these are the masks of a first
        # block that has only its last r bytes.
        self.kept = self.table("kept", [0] * 16 + [255] * 32)
        self.start = self.table("start", [0] * 16 + [255] * 4 + [0] * 28)

    def table(self, name: str, content: list[int]) -> Any:
        """Return the address of constant bytes."""
        kind = ir.ArrayType(INT8, len(content))
        data = cgutils.global_constant(self.builder, f"clmul.{name}", ir.Constant(kind, content))
        return self.builder.ptrtoint(data, INT64)

    def load(self, kind: Any, address: Any, offset: Any = 0) -> Any:
        """A vector from an address, aligned or not."""
        if not isinstance(offset, int) or offset:
            address = self.builder.add(address, INT64(offset) if isinstance(offset, int) else offset)
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=1)

    def multiply(self, value: Any, factors: tuple[int, int], halves: int) -> Any:
        """The product of one half of each lane: 0x00 of the low ones, 0x11 of the high ones."""
        name = "llvm.x86.pclmulqdq" + (".256" if value.type.count == 4 else "")
        kind = ir.FunctionType(value.type, [value.type, value.type, INT8])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        constant = ir.Constant(value.type, [*factors] * (value.type.count // 2))
        return self.builder.call(function, [value, constant, ir.Constant(INT8, halves)])

    def fold(self, value: Any, bits: int, onto: Any) -> Any:
        """A vector moved ahead by so many bits and added to the one that stands there."""
        low, high = (self.multiply(value, folding(bits), halves) for halves in (0x00, 0x11))
        return self.builder.xor(self.builder.xor(low, high), onto)

    def lane(self, pair: Any, number: int) -> Any:
        """One of the two lanes."""
        places = ir.Constant(ir.VectorType(INT32, 2), [2 * number, 2 * number + 1])
        return self.builder.shuffle_vector(pair, pair, places)

    def widen(self, lane: Any) -> Any:
        """A pair whose first lane is given and whose second is zero."""
        places = ir.Constant(ir.VectorType(INT32, 4), [0, 1, 2, 3])
        return self.builder.shuffle_vector(lane, ir.Constant(LANE, None), places)

    def shifted(self, lane: Any, bits: int) -> Any:
        """A lane moved towards its lowest bit."""
        moved = self.builder.lshr(self.builder.bitcast(lane, INT128), INT128(bits))
        return self.builder.bitcast(moved, LANE)

    def first(self, address: Any, rest: Any) -> Any:
        """The message's first ``rest`` bytes as the last ones of a lane, and zeros before them."""
        block = self.load(LANE, self.builder.sub(self.builder.add(address, rest), INT64(16)))
        return self.builder.xor(
            self.builder.and_(block, self.load(LANE, self.kept, rest)), self.load(LANE, self.start, rest)
        )

    def crc(self, lane: Any) -> Any:
        """The CRC, still inverted, of a message of one lane."""
        low_half = ir.Constant(LANE, [2**32 - 1, 0])
        rest = self.builder.xor(self.shifted(lane, 64), self.multiply(lane, (factor(96), 0), 0x00))
        low = self.builder.and_(rest, low_half)
        rest = self.builder.xor(self.shifted(rest, 32), self.multiply(low, (factor(64), 0), 0x00))
        whole = self.multiply(self.builder.and_(rest, low_half), (reflected(quotient(64), 33), 0), 0x00)
        back = self.multiply(self.builder.and_(whole, low_half), (reflected(POLYNOMIAL, 33), 0), 0x00)
        both = self.builder.extract_element(self.builder.xor(rest, back), INT32(0))
        return self.builder.trunc(self.builder.lshr(both, INT64(32)), INT32)


def emit_rounds(emit: Emitter, before: Any, start: Any, address: Any, left: Any) -> tuple[Any, Any, Any]:
    """Emit the loop over rounds; return the lane, address and bytes that are left after them.

    ``before`` is the lane before the first round, ``start`` what the first lane of the round is masked with.
    """
    builder = emit.builder
    pairs = [emit.load(PAIR, address, 32 * i) for i in range(4)]
    pairs[0] = builder.xor(pairs[0], emit.widen(emit.fold(before, 128, start)))
    address, left = builder.add(address, INT64(STRIDE)), builder.sub(left, INT64(STRIDE))
    entry, loop, done = builder.block, builder.append_basic_block("round"), builder.append_basic_block("rounds.done")
    builder.cbranch(builder.icmp_unsigned(">=", left, INT64(STRIDE)), loop, done)
    inside: list[Any] = []
    outside: list[Any] = []
    for block, found in ((loop, inside), (done, outside)):
        builder.position_at_end(block)
        found += [builder.phi(kind) for kind in (PAIR, PAIR, PAIR, PAIR, INT64, INT64)]
    builder.position_at_end(loop)
    *old, old_address, old_left = inside
    new = [emit.fold(pair, 8 * STRIDE, emit.load(PAIR, old_address, 32 * i)) for i, pair in enumerate(old)]
    new += [builder.add(old_address, INT64(STRIDE)), builder.sub(old_left, INT64(STRIDE))]
    builder.cbranch(builder.icmp_unsigned(">=", new[-1], INT64(STRIDE)), loop, done)
    for phis, sources in ((inside, (entry, loop)), (outside, (entry, loop))):
        for phi, first, next_one in zip(phis, [*pairs, address, left], new, strict=True):
            phi.add_incoming(first, sources[0])
            phi.add_incoming(next_one, sources[1])
    builder.position_at_end(done)
    a, b, c, d, address, left = outside
    last = emit.fold(emit.fold(a, 512, c), 256, emit.fold(b, 512, d))
    return emit.fold(emit.lane(last, 0), 128, emit.lane(last, 1)), address, left


def emit_crc(builder: Any, address: Any, length: Any) -> Any:
    """Emit the CRC of ``length`` bytes at an address, at least ``LEAST_BYTES``, with as many readable before it."""
    emit = Emitter(builder)
    rest = builder.and_(length, INT64(15))
    before = emit.first(address, rest)
    start = emit.load(LANE, emit.start, builder.add(rest, INT64(16)))
    at, left = builder.add(address, rest), builder.sub(length, rest)
    entry, long, lanes, done = builder.block, *(builder.append_basic_block(n) for n in ("long", "lanes", "lanes.done"))
    builder.cbranch(builder.icmp_unsigned(">=", left, INT64(STRIDE)), long, lanes)
    builder.position_at_end(long)
    after = emit_rounds(emit, before, start, at, left)
    long = builder.block
    builder.cbranch(builder.icmp_unsigned("==", after[2], INT64(0)), done, lanes)
    builder.position_at_end(lanes)
    lane, mask, where, more = (builder.phi(kind) for kind in (LANE, LANE, INT64, INT64))
    next_lane = emit.fold(lane, 128, builder.xor(mask, emit.load(LANE, where)))
    next_where, next_more = builder.add(where, INT64(16)), builder.sub(more, INT64(16))
    builder.cbranch(builder.icmp_unsigned("==", next_more, INT64(0)), done, lanes)
    zero = ir.Constant(LANE, None)
    for phi, values in (
        (lane, (before, after[0], next_lane)),
        (mask, (start, zero, zero)),
        (where, (at, after[1], next_where)),
        (more, (left, after[2], next_more)),
    ):
        for value, block in zip(values, (entry, long, lanes), strict=True):
            phi.add_incoming(value, block)
    builder.position_at_end(done)
    result = builder.phi(LANE)
    result.add_incoming(after[0], long)
    result.add_incoming(next_lane, lanes)
    return builder.xor(emit.crc(result), ir.Constant(INT32, 2**32 - 1))


@intrinsic
def multiply_crc(typing: Any, address: Any, length: Any) -> Any:
    """CRC-32 of ``length`` bytes at an address; both unsigned for the caller's own checks."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit_crc(builder, *args)

    return types.uint32(types.int64, types.int64), emit


@intrinsic
def address_of(typing: Any, data: Any, i: Any) -> Any:
    """Address of byte ``i`` of an array."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.gep(context.make_array(sig.args[0])(context, builder, args[0]).data, [args[1]])
        return builder.ptrtoint(pointer, INT64)

    return types.int64(data, types.int64), emit


if available():

    @compiled("uint32(int64, int64)")
    def crc_at(address: int, length: int) -> int:
        """CRC-32 of ``length`` bytes at an address; the caller has made sure of both and of ``LEAST_BYTES``."""
        return multiply_crc(address, length)  # type: ignore[no-any-return, unused-ignore]

else:

    @compiled("uint32(int64, int64)")
    def crc_at(address: int, length: int) -> int:
        """Never called: no engine is chosen that is not available."""
        return 0
