"""What an apply will refuse, asked while a plan is made: what it looks at, and never does, to a store.

It follows no symbolic link and moves none, opens no pipe, device or socket, and changes no file of several names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storeio.errors import StoreError, UsageError
from storeio.plan.overlay import GONE, Folder, Gone
from storeio.safe import printable

MOST_NAMED: Final = 3  # of what one thing keeps from being planned


class RefusedError(StoreError):
    """An action cannot be part of a plan, since no apply would carry it out; nothing was done."""


class RewrittenError(RefusedError):
    """An action would write where an earlier one of the plan wrote: they were made of looks that differ."""


class LeftOut:
    """What was left out of a plan, by what is in its way."""

    def __init__(self) -> None:
        """Begin with nothing left out."""
        self._found: dict[str, dict[str, None]] = {}

    def add(self, reason: str, what: str) -> None:
        """Remember that ``what`` was not planned; one plan may try it more than once."""
        self._found.setdefault(reason, {})[what] = None

    def forget(self, what: str) -> None:
        """Take back that ``what`` was not planned: it was in the end."""
        for names in self._found.values():
            names.pop(what, None)

    def sentences(self) -> list[str]:
        """Return a sentence for everything that was in the way."""
        return [f"{reason}; left for that: {_listed([*what])}" for reason, what in self._found.items() if what]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(printable, names[:MOST_NAMED])) + more


def looker(root: Path) -> Callable[[str], int | Folder | Gone]:
    """Return what tells of a path in a store how long the file is, or that there is a directory or nothing.

    Directories are looked at once: a plan asks for thousands of files below the same few, and an apply looks again.
    What it returns raises:
        UsageError: An apply would not go there: says which name on the way is in its way.
    """
    known: set[str] = set()

    def look(path: str) -> int | Folder | Gone:
        above = path.rpartition("/")[0]
        at, rest = (above, path[len(above) + 1 :]) if above in known else ("", path)
        found = Folder()
        for name in rest.split("/"):
            at = f"{at}/{name}" if at else name
            try:
                status = os.lstat(f"{root}/{at}")
            except FileNotFoundError:
                return GONE
            except OSError as error:
                raise UsageError(f"{printable(at)}: {error.strerror or error}") from None
            if stat.S_ISLNK(status.st_mode):
                raise UsageError(f"{printable(at)}: a symbolic link, which apply neither follows nor moves")
            if stat.S_ISREG(status.st_mode):
                if at != path:
                    raise UsageError(f"{printable(at)}: a file where a directory belongs")
                return status.st_size
            if not stat.S_ISDIR(status.st_mode):
                raise UsageError(f"{printable(at)}: a pipe, device or socket, which apply never touches")
            known.add(at)
        return found

    return look


def require_one_name(root: Path, path: str) -> None:
    """Raise if a file of a store has other names, under which a change of its bytes would show.

    Raises:
        UsageError: It has.
    """
    status = os.lstat(root / path)
    if stat.S_ISREG(status.st_mode) and status.st_nlink != 1:
        raise UsageError(f"{printable(path)}: has {status.st_nlink} names; a change would show under all of them")


def names_below(root: Path, path: str, look: Callable[[str], object]) -> set[str]:
    """Return all paths below a directory of a store, each of which an apply can move.

    Raises:
        UsageError: There is something that it does not move, or that cannot be listed.
    """
    found: set[str] = set()
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            names = sorted(os.listdir(root / folder))
        except OSError as error:
            raise UsageError(f"{printable(folder)}: {error.strerror or error}") from None
        for name in names:
            below = f"{folder}/{name}"
            found.add(below)
            if isinstance(look(below), Folder):
                folders.append(below)
    return found
