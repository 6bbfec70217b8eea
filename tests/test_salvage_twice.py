"""Logs that were damaged more than once, or hold bytes of an earlier life: what is no message stays none."""

from __future__ import annotations

import random
from pathlib import Path

import golden_data as golden
import pytest
from salvages import originals_of, records_of

import storeio


@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1", "base-long-5.5.1", "ext-4.9.8"])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_records_of_other_places_behind_the_end_are_no_messages(name: str, count: int, tmp_path: Path) -> None:
    """Nothing is missing from any queue, so what could be restored there would have the number of another record."""
    root, originals = golden.copy_of(name, tmp_path / "store"), originals_of(name)
    size = int(golden.options(name)["clFile"])
    last = max((root / "commitlog").iterdir())
    end = max(at + len(record.raw) for at, record in originals.items())
    copies = random.Random(count).sample(sorted(originals), count)
    with last.open("r+b") as file:
        file.seek(end - int(last.name))
        file.write(b"".join(originals[at].raw for at in copies)[: size - end % size])
    result = storeio.salvage(root, tmp_path / "new", given={"mappedFileSizeCommitLog": str(size)})
    assert (result.problems, result.lost, result.restored) == ([], [], [])
    saved = records_of(tmp_path / "new", size)
    assert {at: record.raw for at, record in saved.items() if at < end} == {
        at: record.raw for at, record in originals.items()
    }
    assert all(record.head.topic.startswith(b"storeio_") for at, record in saved.items() if at >= end)
