"""Listing a remote store: what lies there, and which version of each file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from storeio.errors import NotAStoreError
from storeio.paths import StoreFile, describe
from storeio.remote.filesystem import Place, opened
from storeio.remote.trouble import one_line, tried
from storeio.uris import scrubbed, shown

WRITING: Final = "_storeio_writing"  # there while an output on an object store is not complete
COMPLETE: Final = "_storeio_complete"  # there when it is; both are no part of a store


def list_files(root: str) -> tuple[list[StoreFile], list[tuple[str, str]], dict[str, str]]:
    """Return what lies below a root: entries, names that cannot be read and why, and each file's version.

    Directories are those that files imply and those that the file system tells of. A version changes
    when the file does: its size and time of change.

    Raises:
        NotAStoreError: There is nothing, or an output that is not complete.
        UnreadableError: It cannot be listed.
        UsageError: A URI that makes no sense.
    """
    place = opened(root)
    found = listed(place)
    if found is None:
        raise NotAStoreError(f"{shown(root)}: no such directory or bucket, or nothing in it")
    entries: dict[str, StoreFile] = {}
    unreadable: list[tuple[str, str]] = []
    versions: dict[str, str] = {}
    for path, info in found.items():
        parts = path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            unreadable.append((path, "its name is none that a file can have"))
            continue
        if path == WRITING:
            raise NotAStoreError(f"{shown(root)}: an output that is not complete ({WRITING} is there)")
        if path == COMPLETE:
            continue
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            entries.setdefault(above, describe(above, 0, is_dir=True))
        if info.is_file:
            entries[path] = describe(path, info.size)
            versions[path] = _version(info)
        else:
            entries.setdefault(path, describe(path, 0, is_dir=True))
    return list(entries.values()), unreadable, versions


def _version(info: Any) -> str:
    return f"{info.size}-{info.mtime_ns}"


def versions_beside(root: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the versions that files in the directories of ``paths`` have now, as ``list_files`` gives them.

    Directories are listed, since other answers of a server may tell times less exactly.

    Raises:
        UnreadableError: They cannot be listed.
    """
    found: dict[str, str] = {}
    for directory in sorted({path.rpartition("/")[0] for path in paths}):
        infos = listed(opened(root), directory) or {}
        found |= {path: _version(info) for path, info in infos.items() if info.is_file}
    return found


def listed(place: Place, directory: str | None = None) -> dict[str, Any] | None:
    """Return what the file system tells of everything below a root, by relative path; None where nothing is.

    Of a directory below it only what lies in that itself.

    Raises:
        UnreadableError: It cannot be listed.
    """
    from pyarrow import fs

    selector = fs.FileSelector(place.path(directory) if directory else place.base, recursive=directory is None)

    def work() -> list[Any] | None:
        try:
            found: list[Any] = place.patient.get_file_info(selector)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if "NO_SUCH_BUCKET" in str(error):
                return None
            raise OSError(scrubbed(one_line(error), place.root)) from error
        return found

    infos = tried(work, shown(place.root), "", place.limits, place.health)
    if infos is None:
        return None
    skipped = len(place.base.rstrip("/")) + 1
    return {info.path[skipped:].rstrip("/"): info for info in infos}
