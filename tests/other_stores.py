"""Starts of real brokers on stores with everything in them, as recorded, and these stores."""

from __future__ import annotations

import functools
import json
import lzma
import tarfile
from pathlib import Path
from typing import Final

import golden_data

PLACE: Final = golden_data.GOLDEN / "simulate"

CASES: Final = [
    json.loads(line) for line in lzma.decompress((PLACE / "other-stores.jsonl.xz").read_bytes()).decode().splitlines()
]


@functools.cache
def store(name: str, place: Path) -> Path:
    """Return the directory of a sound store; not to be written into."""
    packed = PLACE / f"{name}.tar.xz"
    if not packed.exists():
        return golden_data.store(name)
    with tarfile.open(packed) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="data")
        else:
            archive.extractall(place)
    return place / name
