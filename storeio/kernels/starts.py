"""Compiled search for what starts somewhere: intact records and true blank records behind damage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.format import commitlog as log
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.kernels.chain import FOUND, V_BASE, V_FILE_SIZE, V_ORIGIN, check_whole
from storeio.kernels.search import boundary, is_named, next_magic
from storeio.kernels.text import int32_at, int64_at

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

(FOUND_AT, FOUND_KIND, FOUND_STOP) = range(3)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64, int64, int64[::1], readonly(int64[::1]), int64[::1])"
)
def own_record(
    data: Bytes, view: Numbers, start: int, stop: int, head: Numbers, delays_ms: Numbers, work: Numbers
) -> int:
    """Return where in ``[start, stop)`` the first intact record in its own place begins, ``stop`` if none, or NEED.

    ``head`` is filled anew.
    """
    origin = view[V_ORIGIN]
    last = min(stop, view[V_FILE_SIZE] - log.MIN_RECORD_BYTES + 1)
    if start >= last:
        return stop
    if h.lacks(data, origin, view[V_FILE_SIZE], start, last + log.BORN_HOST_AT - start):
        return np.int64(h.NEED)
    at = start
    while at < last:
        at = next_magic(data, at + log.MAGIC_AT - origin, last + 7 - origin) + origin - log.MAGIC_AT
        if at >= last:
            break
        if int64_at(data, at + log.PHYSICAL_OFFSET_AT - origin) == view[V_BASE] + at:
            why = check_whole(data, view, at, head, delays_ms, work)
            if why == h.NEED or why == h.OK:
                return np.int64(h.NEED if why == h.NEED else at)
        at += 1
    return stop


@compiled("int64(readonly(uint8[::1]), readonly(int64[::1]), int64, int64[::1], readonly(int64[::1]), int64[::1])")
def is_cut(data: Bytes, view: Numbers, position: int, head: Numbers, delays_ms: Numbers, work: Numbers) -> int:
    """Return 1 if the accepted record of another place at ``position`` is cut off by one in its own place, 0, or NEED.

    Behind the body no CRC tells that all of it is still there. ``head`` is filled anew.
    """
    stop = position + head[h.SIZE]
    inside = own_record(data, view, head[h.BODY_AT] + max(head[h.BODY_BYTES], 0), stop, head, delays_ms, work)
    if inside == h.NEED:
        return np.int64(h.NEED)
    return np.int64(1 if inside < stop else 0)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64, int64, int64[::1], readonly(int64[::1]), int64[::1],"
    " int64[::1])"
)
def find_start(
    data: Bytes, view: Numbers, position: int, limit: int, head: Numbers, delays_ms: Numbers, work: Numbers,
    found: Numbers,
) -> int:  # fmt: skip
    """Return DONE with the next start in ``[position, limit)`` in ``found``, or NEED_BYTES.

    FOUND_AT is the position, ``limit`` if there is none; FOUND_KIND the class of what starts there: RECORD, BLANK or
    STALE. A true record of another place is stale, FOUND_STOP is where it ends; nothing else counts. ``head`` is that
    of a RECORD.
    """
    file_size = view[V_FILE_SIZE]
    origin = view[V_ORIGIN]
    last = min(limit + 7, file_size)
    stop = min(last, origin + len(data))  # what is found in front of the window's end is the first in any case
    if h.lacks(data, origin, file_size, position, 0):
        return np.int64(w.NEED_BYTES)
    at = position
    while at < limit:
        magic_at = next_magic(data, at + 4 - origin, stop - origin) + origin
        if magic_at >= stop or magic_at - 4 >= limit:
            break
        at = magic_at - 4
        if int32_at(data, magic_at - origin) == log.MAGIC_BLANK:
            if int32_at(data, at - origin) == file_size - at:
                found[FOUND_AT], found[FOUND_KIND] = at, w.BLANK
                return np.int64(w.DONE)
        else:
            why = check_whole(data, view, at, head, delays_ms, work)
            if why == h.OK:
                found[FOUND_AT], found[FOUND_KIND], found[FOUND_STOP] = at, w.RECORD, at + head[h.SIZE]
                if head[h.PHYSICAL_OFFSET] == view[V_BASE] + at:
                    return np.int64(w.DONE)
                cut = is_cut(data, view, at, head, delays_ms, work)
                if cut == 0:
                    found[FOUND_KIND] = w.STALE
                    return np.int64(w.DONE)
                why = np.int64(h.NEED) if cut == h.NEED else why
            if why == h.NEED:
                return np.int64(w.NEED_BYTES)
        at += 1
    if stop < last:
        return np.int64(w.NEED_BYTES)
    found[FOUND_AT], found[FOUND_KIND] = limit, w.ZERO
    return np.int64(w.DONE)


@compiled(
    "int64(readonly(uint8[::1]), readonly(int64[::1]), int64, int64, int64[::1], readonly(int64[::1]), int64[::1])"
)
def hides_start(
    data: Bytes, view: Numbers, position: int, end: int, head: Numbers, delays_ms: Numbers, work: Numbers
) -> int:
    """Return 1 if the end that one witness alone gives a bad record would hide what starts before it, 0, or NEED.

    Zeros lie wherever a number leads behind the log's last record, so that whatever starts in front of them counts
    for more. A head is there by chance only if nothing says that this is a record; then a record in its own place does.
    """
    named = is_named(head)
    if boundary(data, view[V_ORIGIN], view[V_BASE], view[V_FILE_SIZE], end) == 1:
        found = work[FOUND:]
        if find_start(data, view, position + 1, end, head, delays_ms, work, found) != w.DONE:
            return np.int64(h.NEED)
        return np.int64(1 if found[FOUND_AT] < end else 0)
    if named:
        return np.int64(0)
    inside = own_record(data, view, position + 1, end, head, delays_ms, work)
    if inside == h.NEED:
        return np.int64(h.NEED)
    return np.int64(1 if inside < end else 0)
