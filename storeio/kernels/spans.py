"""Compiled spans: stretches of one class of bytes, in order and without holes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.compiled import compiled
from storeio.kernels import tables as w
from storeio.kernels.search import first_nonzero

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@compiled("void(int64[:, ::1], int64[::1], int64, int64)")
def undo_spans(spans: Numbers, state: Numbers, before: int, old_stop: int) -> None:
    """Take back what was added since there were ``before`` spans, the last ending at ``old_stop``."""
    state[w.S_SPANS] = before
    if before > 0:
        spans[w.SPAN_STOP, before - 1] = old_stop


@compiled("boolean(int64[:, ::1], int64[::1], int64, int64, int64, int64)", forceinline=True)
def add_span(spans: Numbers, state: Numbers, start: int, stop: int, kind: int, why: int) -> bool:
    """Append ``[start, stop)`` to the spans, or lengthen the last one; False where there is no room."""
    if stop <= start:
        return True
    n = state[w.S_SPANS]
    if n > 0 and spans[w.SPAN_STOP, n - 1] == start and spans[w.SPAN_CLASS, n - 1] == kind:
        if kind == w.RECORD or kind == w.STALE or (kind != w.TORN and why == w.WHY_SEARCHED):
            spans[w.SPAN_STOP, n - 1] = stop
            return True
    if n >= spans.shape[1]:
        return False
    spans[w.SPAN_START, n], spans[w.SPAN_STOP, n] = start, stop
    spans[w.SPAN_CLASS, n], spans[w.SPAN_WHY, n] = kind, why
    state[w.S_SPANS] = n + 1
    return True


@compiled("int64(int64, int64)", forceinline=True)
def block_end(position: int, stop: int) -> int:
    """Return where the aligned block around a position ends, ``stop`` at most."""
    return min((position // w.GAP_BLOCK + 1) * w.GAP_BLOCK, stop)


@compiled("boolean(readonly(uint8[::1]), int64, int64)", forceinline=True)
def is_zero(data: Bytes, i: int, stop: int) -> bool:
    """Tell whether all bytes in ``[i, stop)`` are zero."""
    return first_nonzero(data, i, stop) == stop


@compiled("boolean(readonly(uint8[::1]), int64, int64[:, ::1], int64[::1], int64, int64, int64)")
def add_gap(data: Bytes, origin: int, spans: Numbers, state: Numbers, start: int, stop: int, why: int) -> bool:
    """Append a stretch without records, cut into zero and garbage by aligned blocks; False if full."""
    before = state[w.S_SPANS]
    old_stop = spans[w.SPAN_STOP, max(before - 1, 0)]
    at = start
    while at < stop:
        end = block_end(at, stop)
        zero = is_zero(data, at - origin, end - origin)
        if zero:
            first = first_nonzero(data, end - origin, stop - origin) + origin
            end = stop if first == stop else first // w.GAP_BLOCK * w.GAP_BLOCK
        while not zero and end < stop and not is_zero(data, end - origin, block_end(end, stop) - origin):
            end = block_end(end, stop)
        if not add_span(spans, state, at, end, w.ZERO if zero else w.GARBAGE, why if at == start else w.WHY_SEARCHED):
            undo_spans(spans, state, before, old_stop)
            return False
        at = end
    return True
