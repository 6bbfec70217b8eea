"""A predicted store written into a directory: every file as the start that was simulated leaves it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from storeio.errors import UnreadableError
from storeio.kernels.search import first_nonzero
from storeio.output.staging import PIECE_BYTES, staged
from storeio.output.targets import checked_target
from storeio.scan import data_stretches
from storeio.simulate.disk import Disk
from storeio.simulate.predicted import Prediction
from storeio.uris import is_remote, refuse_remote


def place_for(target: str | os.PathLike[str], store: str | os.PathLike[str]) -> Path:
    """Return the directory for a predicted store.

    Raises:
        UsageError: The directory is not local, holds something, or lies in the store.
        WriteError: It cannot be read.
    """
    place = refuse_remote(os.fspath(target), "--into of a simulated start is a directory on a local disk")
    return checked_target(place, store)


def write_into(prediction: Prediction, target: str | os.PathLike[str]) -> tuple[str, ...]:
    """Write the predicted store into a directory that is new or empty; whole or not at all. Holes stay holes.

    Return sentences on what runs that were killed left beside it.

    Raises:
        UsageError: The directory holds something, or lies in the store.
        WriteError: A file could not be written.
        UnreadableError: Some of the store could not be read.
    """
    store, disk = prediction.store, prediction.disk
    for text in prediction.unread:
        raise UnreadableError(text)
    with staged(place_for(target, store)) as staging:
        if not is_remote(store):  # elsewhere only reading them tells what of files is zero
            files = (path for path, file in disk.files.items() if not file.is_dir)
            staging.require_room(sum(stop - start for path in files for start, stop in _to_write(disk, store, path)))
        for path, file in sorted(disk.files.items()):
            if file.is_dir:
                staging.make_directory(path)
                continue
            staging.write(path, 0, b"", size=file.size)
            for start, stop in _to_write(disk, store, path):
                for at, piece in disk.pieces(path, start, stop, PIECE_BYTES):
                    if first_nonzero(piece, 0, len(piece)) < len(piece):  # not every file system tells of holes
                        staging.write(path, at, piece.data, size=file.size)
            if not (file.made or is_remote(store)):  # elsewhere times are those of the copy, not the broker's
                _keep_times(store, path, staging.partial)
        staging.finish(os.cpu_count() or 1)
        return staging.notes


def _keep_times(store: str, path: str, partial: Path) -> None:
    """Give a written file the times and the mode that it has in the store.

    Raises:
        UnreadableError: It is there no more.
    """
    try:
        shutil.copystat(Path(store) / path, partial / path)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror or error}") from error


def _to_write(disk: Disk, store: str, path: str) -> list[tuple[int, int]]:
    """Return the stretches of a predicted file that may hold something."""
    return disk.stretches(path, data_stretches(store, path, 0, disk.files[path].stored))
