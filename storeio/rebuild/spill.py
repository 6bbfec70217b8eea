"""What splits hold, spilled into files between the two jobs of a rebuild: units, ext units and keys.

They lie below the output in the making, which all workers share: the driver decides from small facts, and whoever lays
a file reads what it holds. Nothing of them travels through Spark, and a worker that is lost loses none.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storeio.errors import WriteError
from storeio.output.staging import explained
from storeio.rebuild.derive import Derived
from storeio.rebuild.stretches import queue_by_queue
from storeio.remote.writing import upload

WRITING: Final = ".writing"  # directory of what is not, or not yet, part of the output
BUFFER_BYTES: Final = 1 << 20  # that are written at once

Numbers = npt.NDArray[np.int64]


class Spilled(NamedTuple):
    """Where what a split holds lies: the file's path, positions of its stretches' bytes, and that of its first key."""

    path: str
    stretches: Numbers
    keys: int


def spill(place: Path | str, parts: Sequence[Derived]) -> list[Spilled]:
    """Write what splits hold, in log order, into a new file; return where, split by split.

    Each attempt writes a file of its own, so that a task may be run again, or twice at once.

    Args:
        place: The output in the making, as ``Staging.shared`` tells it.
        parts: The splits, one behind the other.

    Raises:
        WriteError: It could not be written, or is not where this process sees it.
    """
    path = f"{WRITING}/{secrets.token_hex(8)}.spill"
    units, stands = queue_by_queue([part.stretches for part in parts])
    keys = [part.keys.packed.data if part.keys is not None else memoryview(b"") for part in parts]
    if isinstance(place, Path):
        require_shared(place)
        size = _write(place / path, units, keys)
    else:
        with explained(path), tempfile.TemporaryDirectory(prefix="storeio-") as scratch:
            made = Path(scratch) / "spill"
            size = _write(made, units, keys)
            upload(place, path, made)
    at = size - sum(len(data) for data in keys)
    told = []
    for stand, data in zip(stands, keys, strict=True):
        told.append(Spilled(path, stand, at))
        at += len(data)
    return told


def require_shared(place: Path) -> None:
    """Raise if a directory is not there; not even an empty one is made: files would lie where nobody looks for them.

    Raises:
        WriteError: It is not.
    """
    if not place.is_dir():
        raise WriteError(f"{place}: is not there; every worker must share the directory that is written")


def _write(place: Path, units: Iterable[memoryview], keys: Iterable[memoryview]) -> int:
    """Write all into a new file; return its size."""
    with explained(f"{WRITING}/{place.name}"), place.open("xb", buffering=BUFFER_BYTES) as file:
        file.writelines(units)
        file.writelines(keys)
        return file.tell()
