"""Where which bytes of the commitlog lie: the byte classes in the order of the files, coarse enough to be drawn."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.segments import CLASS_NAMES, LogView, Segment, known_spans
from storeio.kernels import tables as w
from storeio.results import Band

MOST: Final = 512  # bands of one segment; one that has more is cut into so many cells
_BY_HARM: Final = (w.RECORD, w.BLANK, w.ZERO, w.STALE, w.TORN, w.GARBAGE)  # a cell shows the last that it has any of

MISSING: Final = "missing"

Numbers = npt.NDArray[np.int64]


def bands_of(view: LogView, segment_bytes: int) -> list[Band]:
    """Return stretches of one byte class each, in the order of path and position.

    They are exact where a segment has at most ``MOST``. Else it is cut into ``MOST`` cells of one size, a cell being
    of the worst class that it has a byte of, so that small damage is never hidden by what is around it. What a file
    lacks at its end, what could not be read, and whole files that are not there, are bands of class ``missing``.
    """
    bands: list[Band] = []
    for segment in view.segments:
        path, end = segment.file.path, 0
        for start, stop, kind in _stretches(segment, known_spans(segment, view)).T.tolist():
            bands += [Band(path, end, start, MISSING)] if start > end else []
            bands.append(Band(path, start, stop, CLASS_NAMES[kind]))
            end = stop
        whole = max(segment.file.size, segment_bytes)
        bands += [Band(path, end, whole, MISSING)] if whole > end else []
    there = {segment.file.path for segment in view.segments}
    gone = {path: classes.get(MISSING, 0) for path, classes in view.classes.items() if path not in there}
    bands += [Band(path, 0, count, MISSING) for path, count in gone.items() if count]
    return sorted(bands, key=lambda band: (band.path, band.start))


def _stretches(segment: Segment, spans: Numbers) -> Numbers:
    """Return starts, stops and classes, neighbours of one class joined."""
    if not spans.shape[1]:
        return np.empty((3, 0), np.int64)
    kinds, starts, stops = spans[w.SPAN_CLASS], spans[w.SPAN_START], spans[w.SPAN_STOP]
    first = np.flatnonzero(np.r_[True, (kinds[1:] != kinds[:-1]) | (starts[1:] != stops[:-1])])
    joined = np.stack([starts[first], stops[np.r_[first[1:] - 1, len(stops) - 1]], kinds[first]])
    return joined if joined.shape[1] <= MOST else _cells(joined, segment.file.size)


def _cells(joined: Numbers, size: int) -> Numbers:
    """Return the cells of a segment, those of one class joined."""
    edges = np.arange(MOST + 1, dtype=np.int64) * size // MOST
    kinds = np.full(MOST, w.ZERO, np.int64)
    for kind in _BY_HARM:
        some = joined[:, joined[2] == kind]
        steps = np.zeros(MOST + 1, np.int64)
        np.add.at(steps, np.searchsorted(edges, some[0], "right") - 1, 1)
        np.add.at(steps, np.searchsorted(edges, some[1], "left"), -1)
        kinds[np.cumsum(steps)[:MOST] > 0] = kind
    first = np.flatnonzero(np.r_[True, kinds[1:] != kinds[:-1]])
    return np.stack([edges[first], np.r_[edges[first[1:]], size], kinds[first]])
