"""Files uploaded whole, and the two marks by which an output on an object store tells whether it is complete.

An object appears when its upload ends and not before, but many objects do not appear at once. So ``_storeio_writing``
is put down first and taken away last, after ``_storeio_complete``, which lists every file with its size. On file
systems that can rename a directory there are no marks: files go into ``NAME.<chance>.partial``, which gets its name in
the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from storeio.errors import StoreError, UsageError, WriteError
from storeio.remote.filesystem import Place, opened
from storeio.remote.listing import COMPLETE, WRITING, listed
from storeio.remote.reading import WINDOW_BYTES, fill
from storeio.remote.trouble import Limits, is_given_up, tried
from storeio.uris import scrubbed, shown

T = TypeVar("T")

REMOVALS: Final = 4  # tries, of what a server said was not there, and is
UPLOADS: Final = 3  # of one file; the client tries each request of it again, too


def free_place(into: str) -> None:
    """Look whether an output may go to a URI: nothing is there, or an output that was not completed.

    Raises:
        UsageError: Something else is there.
        UnreadableError: It cannot be listed.
    """
    found = listed(opened(into))
    if found and WRITING not in found and any(info.is_file for info in found.values()):
        raise UsageError(f"--into {shown(into)}: is not empty")


def begin(into: str, token: str) -> None:
    """Put down the mark of an output in the making, and remove what is left of one that was not completed.

    Raises:
        WriteError: It cannot be written, or there is something by now that is no such rest.
    """
    found = sizes_below(into)
    if found and WRITING not in found:  # of another run, perhaps, that ended since ``free_place``
        raise WriteError(f"{shown(into)}: is not empty any more")
    left = [path for path in found if path != WRITING]
    put(into, WRITING, token.encode("ascii"))
    for path in left:
        remove(into, path)


def complete(into: str, token: str, sizes: dict[str, int]) -> None:
    """Put down the mark of a complete output, after a look that it is one, and take the other away.

    Raises:
        WriteError: A file is missing, or somebody else has begun to write there.
    """
    found = sizes_below(into)
    found.pop(WRITING, None)
    if found != sizes:
        path = sorted(set(found.items()) ^ set(sizes.items()))[0][0]
        raise WriteError(f"{shown(into)}: {path}: is not what was written there; does something else write there?")
    if get(into, WRITING) != token.encode("ascii"):
        raise WriteError(f"{shown(into)}: something else writes there")
    told = {"tool": "storeio", "files": [{"path": path, "size": size} for path, size in sorted(sizes.items())]}
    put(into, COMPLETE, json.dumps(told, indent=1).encode("ascii"))
    if get(into, WRITING) != token.encode("ascii"):  # who begins from now on finds a complete output
        raise WriteError(f"{shown(into)}: something else writes there")
    for _ in range(REMOVALS):
        remove(into, WRITING)
        if not get(into, WRITING):
            return
    raise WriteError(f"{shown(into)}: {WRITING}: could not be removed")


def sizes_below(into: str) -> dict[str, int]:
    """Return the files below a URI with their sizes.

    Raises:
        WriteError: It cannot be listed.
    """
    return {path: info.size for path, info in _listed(into).items() if info.is_file}


def names_beside(into: str) -> list[str]:
    """Return the names of what lies in the directory above a URI; none where that is not there or cannot be listed."""
    place = opened(into)
    from pyarrow import fs

    selector = fs.FileSelector(place.base.rpartition("/")[0] or "/", allow_not_found=True)
    with contextlib.suppress(StoreError):
        return _written(place, shown(into), lambda: [info.base_name for info in place.patient.get_file_info(selector)])
    return []


def rename(partial: str, into: str) -> None:
    """Give a directory its name, in place of an empty one.

    Raises:
        WriteError: It could not be done.
    """
    place, target = opened(partial), opened(into)

    def work() -> None:
        if target.fs.get_file_info(target.base).type.name == "Directory":
            if target.fs.get_file_info(_below(target)):
                raise FileExistsError(f"{shown(into)}: is not empty any more")
            target.fs.delete_dir(target.base)
        place.fs.move(place.base, target.base)

    _written(place, shown(into), work, once=True)


def abandon(into: str, token: str, *, marked: bool) -> None:
    """Remove what was written, as far as that is possible; the mark of what is not complete goes last.

    Where the mark is somebody else's nothing is removed.
    """
    try:
        place = opened(into)
        if marked:
            _abandon_marked(into, token)
        elif listed(place):
            _written(place, shown(into), lambda: place.fs.delete_dir(place.base))
    except StoreError:
        return  # what is left says itself that it is not complete


def _abandon_marked(into: str, token: str) -> None:
    """Remove everything and then the mark, unless something is still there: an upload may end late, an answer be wrong.

    Raises:
        WriteError: It could not be removed.
    """
    for _ in range(REMOVALS):
        left = [path for path in sizes_below(into) if path != WRITING]
        if get(into, WRITING) != token.encode("ascii"):
            return
        if not left:
            remove(into, WRITING)
            return
        for path in left:
            remove(into, path)


def upload(into: str, path: str, source: Path) -> None:
    """Write a file whole; until then there is none of its name, or the one before.

    Raises:
        WriteError: It could not be written.
    """
    place = opened(into)

    def work() -> None:
        if place.has_rename:
            place.fs.create_dir(place.path(path).rpartition("/")[0], recursive=True)
        with source.open("rb") as file, _whole(place, path) as stream:
            while not is_given_up() and (data := file.read(WINDOW_BYTES)):
                stream.write(data)

    _written(place, path, work, windows=1 + source.stat().st_size // WINDOW_BYTES)


def put(into: str, path: str, data: bytes) -> None:
    """Write a small file whole.

    Raises:
        WriteError: It could not be written.
    """
    place = opened(into)

    def work() -> None:
        with _whole(place, path) as stream:
            stream.write(data)

    _written(place, path, work)


@contextlib.contextmanager
def _whole(place: Place, path: str) -> Iterator[Any]:
    """Give the stream of a file that gets its name if all goes well, and else never does.

    Raises:
        TimeoutError: Nobody waits for it any more: another try may have been made, or all been taken away.
    """
    stream = place.patient.open_output_stream(place.path(path))
    try:
        yield stream
        if is_given_up():
            raise TimeoutError("took too long")
        stream.close()
    except BaseException:
        if place.has_rename:
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        elif not stream.closed:
            # An object store would make an object of what came so far if it was closed, which happens when it is freed
            # at the latest; pyarrow has no other end for it. So it is never freed, not even when the process ends.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
        raise


def get(into: str, path: str) -> bytes:
    """Return a small file, empty where there is none.

    Raises:
        WriteError: It cannot be read again.
    """
    place = opened(into)

    def work() -> bytes:
        try:
            with place.patient.open_input_file(place.path(path)) as file:
                data = np.empty(min(file.size(), WINDOW_BYTES), np.uint8)
                if len(data):
                    fill(file, 0, data)
                return data.tobytes()
        except FileNotFoundError:
            return b""

    return _written(place, path, work)


def remove(into: str, path: str) -> None:
    """Remove a file, if it is there.

    Raises:
        WriteError: It could not be removed.
    """
    place = opened(into)

    def work() -> None:
        try:
            place.patient.delete_file(place.path(path))
        except FileNotFoundError:
            return

    _written(place, path, work)


def remove_directory(into: str, path: str) -> None:
    """Remove a directory with all that is in it, if it is there, of a file system that has directories.

    Raises:
        WriteError: It could not be removed.
    """
    place = opened(into)

    def work() -> None:
        if place.fs.get_file_info(place.path(path)).type.name == "Directory":
            place.fs.delete_dir(place.path(path))

    _written(place, path, work)


def _listed(into: str) -> dict[str, Any]:
    try:
        return listed(opened(into)) or {}
    except StoreError as error:
        raise WriteError(f"{shown(into)}: cannot be listed: {error}") from error


def _below(place: Place) -> Any:
    from pyarrow import fs

    return fs.FileSelector(place.base)


def _written(place: Place, path: str, work: Callable[[], T], *, once: bool = False, windows: int = 1) -> T:
    """Return what the work returns; trouble that passes is tried again.

    Raises:
        WriteError: It failed for good.
    """
    limits = Limits(
        1 if once else min(UPLOADS, place.limits.attempts),
        windows * place.limits.request_seconds,
        place.limits.connect_seconds,
    )
    try:
        return tried(work, path, "", limits, place.health)
    except StoreError as error:
        raise WriteError(scrubbed(str(error), place.root)) from error
