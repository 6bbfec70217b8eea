"""One file of a rebuild, laid by one worker from its sorted pieces: under another name, flushed, then renamed.

So a task that is run again, or twice at once, does no harm: each attempt writes a file of its own, and the last one to
be renamed holds the same bytes as the first.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from storeio.errors import WriteError
from storeio.rebuild.derive import Keys
from storeio.rebuild.index import IndexFile, Shape
from storeio.rebuild.layout import Bridge, Write, bridged
from storeio.rebuild.queues import OldUnits
from storeio.rebuild.shares import OutFile, Piece
from storeio.rebuild.stretches import QueueKey
from storeio.remote.writing import upload
from storeio.staging import created, explained, write_all

WRITING: Final = ".writing"  # directory of files that have not got their name yet


@dataclass(slots=True)
class FileLaid:
    """A file that was written.

    ``kept`` are units of gaps that are the store's own, by queue; ``failed`` what could not be read of them.
    """

    number: int
    written_bytes: int = 0
    kept: dict[QueueKey, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def lay_in(
    number: int, file: OutFile, pieces: Iterable[Piece], place: Path | str, old: OldUnits, shape: Shape
) -> FileLaid:
    """Write a file of an output that is a directory or, by way of a directory of this machine, a URI; as ``lay``."""
    if isinstance(place, Path):
        return lay(number, file, pieces, place, old, shape)
    with explained(file.path), tempfile.TemporaryDirectory(prefix="storeio-") as scratch:
        made = Path(scratch)
        (made / WRITING).mkdir()
        (made / file.path).parent.mkdir(parents=True, exist_ok=True)
        result = lay(number, file, pieces, made, old, shape)
        upload(place, file.path, made / file.path)
        return result


def lay(number: int, file: OutFile, pieces: Iterable[Piece], partial: Path, old: OldUnits, shape: Shape) -> FileLaid:
    """Write a file and give it its name; directories are there already, on a local disk or one that is shared.

    Args:
        number: Of the file.
        file: What it is.
        pieces: All that it holds; an index file's in order of its keys.
        partial: The directory in the making.
        old: Reads units of the store.
        shape: Of index files.

    Raises:
        WriteError: It could not be written.
    """
    if not partial.is_dir():
        raise WriteError(f"{partial}: is not there; every worker must share the directory that is written")
    result = FileLaid(number)
    temporary = partial / WRITING / f"{number}-{secrets.token_hex(8)}"
    try:
        with explained(file.path):
            handle = created(temporary, file.size)
            try:
                _fill(handle, file, pieces, old, shape, result)
                os.fsync(handle)
            finally:
                os.close(handle)
            temporary.rename(partial / file.path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return result


def _fill(handle: int, file: OutFile, pieces: Iterable[Piece], old: OldUnits, shape: Shape, result: FileLaid) -> None:
    index = IndexFile(shape, file.index.before) if file.index is not None else None
    own_units = cache(old)
    for piece in pieces:
        if isinstance(piece, Write):
            result.written_bytes += write_all(handle, piece.position, bytes(piece.data) * piece.times)
        elif isinstance(piece, Bridge):
            units, kept = bridged(piece, own_units(piece.key))
            result.written_bytes += write_all(handle, piece.position, units)
            result.kept[piece.key] = result.kept.get(piece.key, 0) + kept
        elif index is not None:
            # Another attempt may be given the same keys, and is not to find units in their place.
            _, position, data = index.add(Keys(piece.packed.copy()), 0)
            result.written_bytes += write_all(handle, position, data.data)
    if index is not None:
        result.written_bytes += write_all(handle, 0, index.head().data)
