"""A queue whose units do not stand in the order of the log, beside a log with many gaps: it is read once a split."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from storebuilder import StoreBuilder

from storeio import audit
from storeio.checks import locate

MESSAGES = 600
UNIT_BYTES = 20


def damaged(root: Path) -> Path:
    """Return a store of which every third record is damaged and the units are shuffled; some appear twice."""
    chance = random.Random(7)
    builder = StoreBuilder(root, segment_bytes=1 << 20)
    placed = [builder.message("t", 0, b"x" * 20) for _ in range(MESSAGES)]
    builder.close()
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    for one in placed[::3]:
        data[one.physical_offset + 95] ^= 1
    log.write_bytes(data)
    files = sorted((root / "consumequeue/t/0").iterdir())
    units = b"".join(file.read_bytes() for file in files)
    rows = [units[at : at + UNIT_BYTES] for at in range(0, MESSAGES * UNIT_BYTES, UNIT_BYTES)]
    chance.shuffle(rows)
    rows[10:20] = rows[30:40]
    shuffled, at = b"".join(rows) + units[MESSAGES * UNIT_BYTES :], 0
    for file in files:
        size = file.stat().st_size
        file.write_bytes(shuffled[at : at + size])
        at += size
    return root


def test_it_is_read_once_and_says_what_many_looks_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = damaged(tmp_path / "store")
    looked, stretch = [], locate.stretch

    def counted(queue: locate.Queue, read: locate.Read, low: int, high: int) -> object:
        looked.append((low, high))
        return stretch(queue, read, low, high)

    monkeypatch.setattr(locate, "stretch", counted)
    once = audit.check(root, jobs=1)
    assert len(looked) == 1

    def each_time(self: locate.Places, physical: locate.Numbers) -> locate.Numbers:
        return locate.numbers_of(self._queue, self._read, physical)

    monkeypatch.setattr(locate.Places, "numbers_of", each_time)
    often = audit.check(root, jobs=1)
    assert len(looked) > 100
    assert replace(once, started_ms=0, seconds=0.0) == replace(often, started_ms=0, seconds=0.0)
