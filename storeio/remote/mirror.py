"""A remote store copied to the local disk, for what needs files: a plan is proven on a store that may be changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from storeio.errors import WriteError
from storeio.paths import StoreFile
from storeio.remote.filesystem import opened
from storeio.remote.reading import windows
from storeio.uris import shown


def mirrored(root: str, files: Iterable[StoreFile], target: Path) -> Path:
    """Return ``target``, made a copy of a remote store; what is zero takes no room.

    Raises:
        UnreadableError: A file cannot be read.
        WriteError: There is no room, or a file cannot be written.
    """
    place, files = opened(root), list(files)
    try:
        target.mkdir(parents=True)
        needed, free = sum(file.size for file in files), shutil.disk_usage(target).free
        if needed > free:
            raise WriteError(f"{target}: a copy of {shown(root)} takes {needed} bytes, and {free} are free")
        for file in files:
            copy = target / file.path
            if file.is_dir:
                copy.mkdir(parents=True, exist_ok=True)
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("xb") as stream:
                stream.truncate(file.size)
                for low, window in windows(place, file.path, 0, file.size):
                    if window.any():
                        stream.seek(low)
                        stream.write(window.data)
    except FileExistsError as error:
        raise WriteError(f"{error.filename}: is a file and a directory in {shown(root)}") from error
    except OSError as error:
        if error.errno is None:  # one of ours
            raise
        raise WriteError(f"{target}: a copy of {shown(root)} could not be written: {error.strerror}") from error
    return target
