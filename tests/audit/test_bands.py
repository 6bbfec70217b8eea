"""Bands of the map against the byte counts of the same audit, and coarse ones against exact ones."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
import salvages

from storeio import audit
from storeio.checks import bands
from storeio.checks.segments import CLASS_NAMES, LogView, Segment
from storeio.kernels import tables as w
from storeio.paths import COMMITLOG, StoreFile
from storeio.results import Audit

pytestmark = pytest.mark.share(2)


def assert_adds_up(result: Audit) -> None:
    """Bands of a file follow one another, and have as many bytes of each class as the file."""
    counts: dict[str, Counter[str]] = {}
    ends: dict[str, int] = {}
    for band in result.bands:
        assert band.start == ends.get(band.path, 0) < band.stop, band
        ends[band.path] = band.stop
        counts.setdefault(band.path, Counter())[band.byte_class] += band.stop - band.start
    files = {file.path: +Counter(file.classes) for file in result.files if file.kind == COMMITLOG}
    assert counts == {path: classes for path, classes in files.items() if classes}


@pytest.mark.parametrize("name", golden.STORES)
def test_sound_stores(name: str) -> None:
    assert_adds_up(audit.check(golden.store(name), jobs=1))


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(900, 904))
@pytest.mark.parametrize("name", ["rich-4.9.8", "rich-5.5.1"])
def test_damaged_stores(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    whole = audit.check(damage.root, given=damage.given, jobs=1)
    assert_adds_up(whole)
    split_bytes = max(5000, damage.segment_bytes // 40)
    assert audit.check(damage.root, given=damage.given, jobs=1, split_bytes=split_bytes).bands == whole.bands


def view_of(sizes: list[int], kinds: list[int]) -> LogView:
    """Return a log of one segment whose spans have these sizes and classes."""
    stops = np.cumsum(sizes)
    spans = np.zeros((max(w.SPAN_START, w.SPAN_STOP, w.SPAN_CLASS, w.SPAN_WHY) + 1, len(sizes)), np.int64)
    spans[w.SPAN_START], spans[w.SPAN_STOP], spans[w.SPAN_CLASS] = stops - sizes, stops, kinds
    file = StoreFile("commitlog/00000000000000000000", COMMITLOG, int(stops[-1]), base_offset=0)
    return LogView([Segment(file, spans)], 0, int(stops[-1]))


@pytest.mark.parametrize("seed", range(40))
def test_coarse_bands_show_the_worst_of_each_cell(seed: int) -> None:
    chance = np.random.default_rng(seed)
    count = int(chance.integers(bands.MOST, 3 * bands.MOST))
    sizes = chance.integers(1, chance.choice([2, 20, 3000]), size=count).tolist()
    order = [w.RECORD, w.BLANK, w.ZERO, w.STALE, w.TORN, w.GARBAGE]
    kinds = chance.choice(order, size=count).tolist()
    view = view_of(sizes, kinds)
    size = view.segments[0].file.size
    found = bands.bands_of(view, size)
    of_byte = np.repeat([order.index(kind) for kind in kinds], sizes)
    exact = 1 + int(np.count_nonzero(np.diff(of_byte)))
    drawn = np.concatenate(
        [np.full(b.stop - b.start, [CLASS_NAMES[k] for k in order].index(b.byte_class)) for b in found]
    )
    assert len(drawn) == size
    if exact <= bands.MOST:
        assert (drawn == of_byte).all()
        return
    assert len(found) <= bands.MOST
    edges = [i * size // bands.MOST for i in range(bands.MOST + 1)]
    worst = np.concatenate([np.full(b - a, of_byte[a:b].max()) for a, b in itertools.pairwise(edges) if b > a])
    assert (drawn == worst).all()
