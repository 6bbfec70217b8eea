"""Many small local files in one call that needs no interpreter: summaries, comparisons with what should stand there.

Python asks the system four times for each file, and lets go of the interpreter each time: of a hundred bytes that costs
many times what reading them does, and threads take longer together than one alone. Compiled code asks here, at
addresses that are its arguments, as ``crc`` calls its engines. What it could not do, whatever the reason, it leaves to
the usual way, which also finds out what the reason is.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import extending, types

from storeio.clmul import address_of
from storeio.compiled import compiled, config
from storeio.crc import symbol_address
from storeio.kernels.units import SUMMARY_PLACES, summarize
from storeio.paths import CONSUMEQUEUE, NAME_DIGITS, file_name

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic  # because numba has no types

# Rows of a table of pieces: where the topic begins among the names and how long it is, queue id, the number in the
# file's name, the position in the file, the position among the expected bytes, and how many bytes.
(P_TOPIC_AT, P_TOPIC_BYTES, P_QUEUE_ID, P_BASE, P_START, P_EXPECTED_AT, P_BYTES) = range(7)
PIECE_ROWS = 7

MOST_BYTES: Final = 256 << 10  # of a piece; longer ones cost little in the usual way
(C_OPEN, C_LSEEK, C_PREAD, C_CLOSE, C_MEMCMP, C_ERRNO) = range(6)  # places of the addresses of functions of C
NEEDED: Final = ("open", "lseek", "pread", "close", "memcmp", "__errno_location")
SEEK_END, SEEK_DATA, SEEK_HOLE, ENXIO = 2, 3, 4, 6  # of Linux
OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not hold us up
MOST_DIGITS = 19  # of a number of 64 bits
BESIDE_TOPIC = 3 + MOST_DIGITS + NAME_DIGITS  # bytes of a path behind the directory: two slashes, and a zero at the end
PATH_BYTES: Final = 4096  # PATH_MAX
# What topics are made of. They come from the log, whose bytes may be anything: none of these leads elsewhere.
LETTERS = np.zeros(256, np.bool_)
LETTERS[np.frombuffer(b"%|+$-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", np.uint8)] = True


@intrinsic
def call_c(typing: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Call a function of C with four numbers or addresses; those that it does not take it does not see."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = ir.IntType(64)
        function = ir.FunctionType(number, [number] * 4)
        return builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])

    return types.int64(*[types.int64] * 5), emit


@intrinsic
def int32_of(typing: Any, address: Any) -> Any:
    """Read a C ``int`` at an address."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))

    return types.int32(types.int64), emit


@compiled("int64(uint8[::1], int64, int64, int64)")
def put_number(path: Bytes, at: int, number: int, least: int) -> int:
    """Write a number that is not negative, with so many digits at least; return where it ends. It fits."""
    digits, rest = np.int64(1), number // 10
    while rest:
        digits += 1
        rest //= 10
    stop = at + max(digits, least)
    for i in range(stop - 1, at - 1, -1):
        path[i] = np.uint8(48 + number % 10)
        number //= 10
    return stop


@compiled("boolean(uint8[::1], int64, readonly(uint8[::1]), readonly(int64[:, ::1]), int64)")
def put_path(path: Bytes, at: int, names: Bytes, pieces: Numbers, k: int) -> bool:
    """Write topic, queue id and file name behind a directory's path; False where these are not usual."""
    first, count = pieces[P_TOPIC_AT, k], pieces[P_TOPIC_BYTES, k]
    if count <= 0 or first < 0 or first + count > len(names) or at + count + BESIDE_TOPIC > len(path):
        return False
    if pieces[P_QUEUE_ID, k] < 0 or pieces[P_BASE, k] < 0:
        return False
    for i in range(count):
        if not LETTERS[names[first + i]]:
            return False
        path[at + i] = names[first + i]
    path[at + count] = np.uint8(47)
    at = put_number(path, at + count + 1, pieces[P_QUEUE_ID, k], 1)
    path[at] = np.uint8(47)
    path[put_number(path, at + 1, pieces[P_BASE, k], NAME_DIGITS)] = 0
    return True


@compiled(
    "void(readonly(int64[::1]), int64, uint8[::1], int64, readonly(uint8[::1]), readonly(int64[:, ::1]),"
    " readonly(uint8[::1]), uint8[::1], boolean[::1])"
)
def compare_pieces(
    calls: Numbers, flags: int, path: Bytes, at: int, names: Bytes, pieces: Numbers, expected: Bytes, room: Bytes,
    same: Mask,
) -> None:  # fmt: skip
    """Set ``same`` for each piece that could be read and is as expected; leave all others.

    Args:
        calls: Addresses of the functions.
        flags: What a file is opened with.
        path: The path of a directory, and room for the rest.
        at: Where the rest begins.
        names: Topics, one behind the other.
        pieces: Shape ``(PIECE_ROWS, n)``.
        expected: What should stand there.
        room: For the bytes of one piece; longer ones are left.
        same: False for each piece.
    """
    for k in range(pieces.shape[1]):
        count, start, where = pieces[P_BYTES, k], pieces[P_START, k], pieces[P_EXPECTED_AT, k]
        if count <= 0 or count > len(room) or start < 0 or where < 0 or where + count > len(expected):
            continue
        if not put_path(path, at, names, pieces, k):
            continue
        file = np.int64(np.int32(call_c(calls[C_OPEN], address_of(path, 0), flags, 0, 0)))
        if file < 0:
            continue
        # Neither a pipe nor a device has an end.
        is_there = call_c(calls[C_LSEEK], file, 0, SEEK_END, 0) >= start + count
        if is_there and call_c(calls[C_PREAD], file, address_of(room, 0), count, start) == count:
            differs = call_c(calls[C_MEMCMP], address_of(room, 0), address_of(expected, where), count, 0)
            same[k] = np.int32(differs) == 0
        call_c(calls[C_CLOSE], file, 0, 0, 0)


@compiled("int64(readonly(int64[::1]), int64, int64)")
def stop_of_data(calls: Numbers, file: int, size: int) -> int:
    """Return what ``local_files.data_stop`` does of an open file; -1 where the file system does not tell."""
    stop = np.int64(0)
    while stop < size:
        start = call_c(calls[C_LSEEK], file, stop, SEEK_DATA, 0)
        if start < 0:
            return stop if int32_of(call_c(calls[C_ERRNO], 0, 0, 0, 0)) == ENXIO else -1
        stop = call_c(calls[C_LSEEK], file, start, SEEK_HOLE, 0)
        if stop <= start:
            return -1
    return min(stop, size)


@compiled(
    "void(readonly(int64[::1]), int64, readonly(uint8[::1]), readonly(int64[:, ::1]), uint8[::1], int64[:, ::1],"
    " boolean[::1])"
)
def summarize_each(
    calls: Numbers, flags: int, paths: Bytes, files: Numbers, room: Bytes, summaries: Numbers, known: Mask
) -> None:
    """Fill the summary of each queue file that could be read, and set ``known`` for it; leave all others.

    Args:
        calls: Addresses of the functions.
        flags: What a file is opened with.
        paths: Each with a zero behind it.
        files: Shape ``(3, n)``: where the path begins, the file's length, bytes of a unit.
        room: For the bytes of one file; what has more that are no hole is left.
        summaries: Shape ``(n, SUMMARY_PLACES)``.
        known: False for each file.
    """
    for k in range(files.shape[1]):
        path_at, size, unit_bytes = files[0, k], files[1, k], files[2, k]
        if path_at < 0 or path_at >= len(paths) or size <= 0 or unit_bytes <= 0:
            continue
        file = np.int64(np.int32(call_c(calls[C_OPEN], address_of(paths, path_at), flags, 0, 0)))
        if file < 0:
            continue
        if call_c(calls[C_LSEEK], file, 0, SEEK_END, 0) >= size:
            count = stop_of_data(calls, file, size)
            if 0 <= count <= len(room) and call_c(calls[C_PREAD], file, address_of(room, 0), count, 0) == count:
                summarize(room[:count], unit_bytes, summaries[k])
                known[k] = True
        call_c(calls[C_CLOSE], file, 0, 0, 0)


@functools.cache
def addresses() -> Numbers | None:
    """Return where the functions are; None where compiled code cannot call them."""
    if config.DISABLE_JIT or ctypes.sizeof(ctypes.c_void_p) != 8 or not sys.platform.startswith("linux"):
        return None
    try:
        return np.array([symbol_address(None, name) for name in NEEDED], np.int64)
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of consume queue files: topics one behind the other, a table of pieces, and what should stand there."""

    names: Bytes
    table: Numbers
    expected: Bytes

    @property
    def count(self) -> int:
        """How many there are."""
        return self.table.shape[1]

    def piece(self, k: int) -> tuple[str, int, int, Bytes]:
        """Return path, start and stop of a piece, whose topic is a usual one, and what should stand there."""
        topic_at, topic_bytes, queue_id, base, start, at, count = self.table[:, k].tolist()
        topic = self.names[topic_at : topic_at + topic_bytes].tobytes().decode()
        path = f"{CONSUMEQUEUE}/{topic}/{queue_id}/{file_name(base)}"
        return path, start, start + count, self.expected[at : at + count]


def agreeing(root: str, pieces: Pieces) -> Mask:
    """Tell which pieces of a store's files are as expected, shape ``(n,)``; False says nothing."""
    same = np.zeros(pieces.count, np.bool_)
    calls, prefix = addresses(), os.fsencode(f"{root}/{CONSUMEQUEUE}/")
    if calls is None or not len(same) or len(prefix) >= PATH_BYTES or b"\0" in prefix:
        return same
    path = np.zeros(PATH_BYTES, np.uint8)
    path[: len(prefix)] = np.frombuffer(prefix, np.uint8)
    room = np.empty(min(int(pieces.table[P_BYTES].max(initial=1)), MOST_BYTES), np.uint8)
    compare_pieces(calls, OPEN_FLAGS, path, len(prefix), pieces.names, pieces.table, pieces.expected, room, same)
    return same


def summaries_of(root: str, files: Sequence[tuple[str, int, int]]) -> tuple[Numbers, Mask]:
    """Return summaries of queue files, shape ``(n, SUMMARY_PLACES)``, and which of them are known.

    Args:
        root: The store's directory.
        files: Path below it, length, and bytes of a unit.
    """
    summaries, known = np.zeros((len(files), SUMMARY_PLACES), np.int64), np.zeros(len(files), np.bool_)
    calls = addresses()
    if calls is None or not files:
        return summaries, known
    paths = [os.fsencode(f"{root}/{path}\0") for path, _, _ in files]
    lengths = np.array([len(path) for path in paths], np.int64)
    table = np.array([np.cumsum(lengths) - lengths, [size for _, size, _ in files], [unit for _, _, unit in files]])
    room = np.empty(min(int(table[1].max()), MOST_BYTES), np.uint8)
    summarize_each(calls, OPEN_FLAGS, np.frombuffer(b"".join(paths), np.uint8), table, room, summaries, known)
    return summaries, known
