"""Compiled text: Java's string hash over UTF-8 bytes, Java's integers.

Source: ``java.lang.String.hashCode``, the JDK's UTF-8 decoder, ``Integer.parseInt``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels.raw import LANES, POWERS, tail_hash
from storeio.kernels.raw import int32_at as int32_at  # the others take numbers from here
from storeio.kernels.raw import int64_at as int64_at

Bytes = npt.NDArray[np.uint8]


@compiled("int64(int64, int64)")
def hash_step(value: int, unit: int) -> int:
    """Return the Java hash after one more UTF-16 unit, unsigned 32 bits."""
    return (value * 31 + unit) & 0xFFFFFFFF


@compiled("int64(int64)")
def as_int32(value: int) -> int:
    """Return the low 32 bits as a signed number."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@compiled("int64(int64)")
def absolute_hash(value: int) -> int:
    """Return the index's key hash of a Java hash: its absolute value, 0 for the smallest."""
    signed = as_int32(value)
    if signed == -0x80000000:
        return np.int64(0)
    return -signed if signed < 0 else signed


@compiled("UniTuple(int64, 2)(readonly(uint8[::1]), int64, int64)")
def decode_char(data: Bytes, i: int, stop: int) -> tuple[int, int]:
    """Return the code point at ``i`` and the bytes it takes; U+FFFD for what Java calls malformed."""
    b0 = np.int64(data[i])
    if b0 < 0x80:
        return b0, np.int64(1)
    if b0 < 0xC2 or b0 > 0xF4 or i + 1 >= stop:
        return np.int64(0xFFFD), np.int64(1)
    b1 = np.int64(data[i + 1])
    low = np.int64(0x80)
    high = np.int64(0xBF)
    if b0 == 0xE0:
        low = np.int64(0xA0)
    elif b0 == 0xF0:
        low = np.int64(0x90)
    elif b0 == 0xF4:
        high = np.int64(0x8F)
    if b1 < low or b1 > high:
        return np.int64(0xFFFD), np.int64(1)
    if b0 < 0xE0:
        return (b0 & 0x1F) << 6 | (b1 & 0x3F), np.int64(2)
    if i + 2 >= stop or data[i + 2] & 0xC0 != 0x80:
        return np.int64(0xFFFD), np.int64(2)
    code = (b0 & 0x0F) << 12 | (b1 & 0x3F) << 6 | (np.int64(data[i + 2]) & 0x3F)
    if b0 < 0xF0:
        # Java counts an encoded surrogate, two bytes or three, as one malformed sequence.
        return (np.int64(0xFFFD) if 0xD800 <= code < 0xE000 else code), np.int64(3)
    if i + 3 >= stop or data[i + 3] & 0xC0 != 0x80:
        return np.int64(0xFFFD), np.int64(3)
    return (code << 6 | (np.int64(data[i + 3]) & 0x3F)) & 0x1FFFFF, np.int64(4)


@compiled("int64(readonly(uint8[::1]), int64, int64, int64)")
def java_hash_of_any(data: Bytes, start: int, stop: int, seed: int) -> int:
    """Return what ``java_hash`` returns: by blocks while they are ASCII, then by characters."""
    value = seed & 0xFFFFFFFF
    i = start
    while i + LANES <= stop:
        block = tail_hash(data, i + LANES, LANES)
        if block >> 32:
            break
        value = (value * POWERS[LANES] + block) & 0xFFFFFFFF
        i += LANES
    while i < stop:
        code, width = decode_char(data, i, stop)
        i += width
        if code >= 0x10000:
            value = hash_step(value, 0xD800 + ((code - 0x10000) >> 10))
            code = 0xDC00 + (code & 0x3FF)
        value = hash_step(value, code)
    return value


@compiled("int64(readonly(uint8[::1]), int64, int64, int64)", forceinline=True)
def java_hash(data: Bytes, start: int, stop: int, seed: int) -> int:
    """Return the Java hash of UTF-8 bytes ``[start, stop)``, going on from ``seed``, unsigned 32 bits."""
    count = stop - start
    if 0 <= count <= LANES <= stop:
        tail = tail_hash(data, stop, count)
        if tail >> 32 == 0:
            return ((seed & 0xFFFFFFFF) * POWERS[count] + tail) & 0xFFFFFFFF
    return java_hash_of_any(data, start, stop, seed)


@compiled("UniTuple(int64, 2)(readonly(uint8[::1]), int64, int64, int64)")
def java_number(data: Bytes, start: int, stop: int, limit: int) -> tuple[int, int]:
    """Return the number that Java parses from ``[start, stop)`` and 1, or 0 and 0 where it throws.

    ``limit`` is the largest positive value, 2**31 - 1 for an int; ASCII digits only.
    """
    i = start
    bad = (np.int64(0), np.int64(0))
    negative = False
    if i < stop and (data[i] == 43 or data[i] == 45):
        negative = data[i] == 45
        i += 1
    if i >= stop:
        return bad
    lowest = -limit - (1 if negative else 0)
    value = np.int64(0)  # counted downwards, as Java does, because the smallest number has no counterpart
    while i < stop:
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9 or value < -(limit // 10) or value * 10 < lowest + digit:
            return bad
        value = value * 10 - digit
        i += 1
    return (value if negative else -value), np.int64(1)


@compiled("boolean(readonly(uint8[::1]), int64, int64)")
def is_bad_text(data: Bytes, start: int, stop: int) -> bool:
    """Tell whether ``[start, stop)`` holds malformed UTF-8 or control characters that no producer sends.

    The separators of properties, tab, line feed and carriage return are none of those.
    """
    i = start
    while i < stop:
        b = np.int64(data[i])
        if b < 0x20 and b != 1 and b != 2 and b != 9 and b != 10 and b != 13:
            return True
        if b < 0x80:
            i += 1
            continue
        code, width = decode_char(data, i, stop)
        true_replacement = width == 3 and b == 0xEF and data[i + 1] == 0xBF and data[i + 2] == 0xBD
        if code == 0xFFFD and not true_replacement:
            return True
        i += width
    return False
