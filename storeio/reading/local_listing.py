"""What lies below a directory of this machine: files and directories as a listing has them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from storeio.errors import NotAStoreError, UnreadableError
from storeio.paths import COMMITLOG, OF_A_STORE, StoreFile, describe, special_of
from storeio.uris import shown

LINK_BELOW_LINK: Final = "a link to a directory below another such link: not followed"
OF_THE_DISK: Final = "lost+found"  # where one is mounted; only root may look, and nothing in it is a store's
MAX_DEPTH: Final = 12  # a store is four levels deep; deeper means a loop of links


def list_files(base: str, links: list[str]) -> tuple[list[StoreFile], list[tuple[str, str]]]:
    """Return what lies below a directory, and what could not be looked at, with why; ``links`` grow by those there.

    Nothing is looked at below one in which no name is a store's: it may be anything, the root of all disks, too.

    Raises:
        NotAStoreError: It is no directory.
        UnreadableError: It cannot be listed.
    """
    files, unreadable = list[StoreFile](), list[tuple[str, str]]()
    try:
        is_one = _holds(base, OF_A_STORE)
    except FileNotFoundError as error:
        raise NotAStoreError(f"{base}: no such directory") from error
    except (NotADirectoryError, ValueError) as error:  # a NUL in its name
        raise NotAStoreError(f"{base}: not a directory") from error
    except OSError as error:
        raise UnreadableError(f"{shown(base)}: cannot be listed: {error.strerror or error}") from error
    if is_one:
        _list_into(base, "", 0, files, unreadable, links, linked=False)
    return files, unreadable


def _list_into(
    base: str, prefix: str, depth: int, files: list[StoreFile], unreadable: list[tuple[str, str]], links: list[str],
    *, linked: bool,
) -> None:  # fmt: skip
    """List what lies in a directory and below; ``linked`` tells that a link led there.

    Links lead to other disks. One below a link leads anywhere, as those in ``/proc`` do, maybe again and again.
    """
    try:
        with os.scandir(f"{base}/{prefix}") as found:
            entries = sorted(found, key=lambda e: e.name)
    except OSError as error:
        if not (isinstance(error, PermissionError) and prefix.rpartition("/")[2] == OF_THE_DISK):
            unreadable.append((prefix or ".", error.strerror or str(error)))
        return
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        links += [path] if entry.is_symlink() else []
        try:
            if entry.is_dir():
                files.append(describe(path, 0, is_dir=True))
                if linked and entry.is_symlink():
                    unreadable.append((path, LINK_BELOW_LINK))
                elif depth < MAX_DEPTH:
                    _list_into(base, path, depth + 1, files, unreadable, links, linked=linked or entry.is_symlink())
            else:
                status = entry.stat()
                file, special = describe(path, status.st_size), special_of(status.st_mode)
                files.append(replace(file, special=special) if special else file)
        except OSError as error:
            unreadable.append((path, error.strerror or str(error)))


def hint(base: str) -> str:
    """Return where a store is, as the end of a sentence: the directory given may lie in one, or hold one."""
    place = Path(os.path.abspath(base))
    for other in map(str, (*place.parents[:4], place / "store")):
        with contextlib.suppress(OSError):
            if _holds(other, (COMMITLOG,)):
                return f"; {shown(other)} may be one"
    return ""


def _holds(base: str, names: Collection[str]) -> bool:
    """Tell whether a directory has one of some names."""
    return any(name in names for name in os.listdir(base))
