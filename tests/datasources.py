"""What the tests of the data source share: the rows of a walk from start to end, and stores that mislead it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from damage import append
from storebuilder import StoreBuilder

from storeio.inspect.logwalk import entries, walk_log
from storeio.inspect.reader import Reader
from storeio.inspect.recordviews import view_of
from udfs import begins
from udfs.options import Options
from udfs.schemas import RECORD_SCHEMA

Row = dict[str, Any]
NAMES = RECORD_SCHEMA.names


def expected_rows(root: Path, *, stale: bool = False) -> Iterator[Row]:
    """Yield the records as ``storeio inspect`` shows them, which walks from start to end."""
    reader = Reader(root)
    for stretch in walk_log(reader):
        for entry in entries(stretch, stale=stale).T.tolist():
            view = view_of(reader, stretch, *entry)
            tag = (view.properties or {}).get("TAGS")
            yield {name: tag if name == "tag" else getattr(view, name) for name in NAMES}


def begins_here(options: Options) -> begins.Begins:
    """Return the begins that the first of two passes finds, and check them against a walk from start to end."""
    splits = options.plan().splits
    root = options.path
    found = begins.stitch(
        splits, [begins.probe(root, split) for split in splits], lambda split, begin: begins.probe(root, split, begin)
    )
    state = None
    for split in splits:
        state = state if split.start else None
        assert found[(split.path, split.start)].state == (state or split.first_state())
        state = begins.probe(root, split, state).end
    return found


def forged_store(root: Path) -> Path:
    """Return a store with every kind of message, whose bodies hold forged records of their own place."""
    builder = StoreBuilder(root, segment_bytes=16384, property_crc=True)
    kinds = ["forged", "plain", "forged_newer", "tagged", "v6", "large", "forged_blank", "batch", "malformed", "keyed"]
    for number, what in enumerate(itertools.islice(itertools.cycle(kinds), 60)):
        append(builder, what, 250, number)
    return builder.close()


def unreadable_store(root: Path) -> Path:
    """Return a store whose segment is listed with a length, and cannot be mapped: a file of the kernel's."""
    kernels = Path("/sys/devices/system/cpu/online")
    if not kernels.is_file() or not kernels.stat().st_size:
        pytest.skip("no file here that is listed and cannot be mapped")
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020d}").symlink_to(kernels)
    return root
