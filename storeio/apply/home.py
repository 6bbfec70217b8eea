"""The directory beside a store in which its applies keep what they replace, one run directory each.

``<parent of the store>/<name of the store>.storeio/<time>-<first digits of the plan's digest>/`` holds copies,
``plan.json`` and ``bytes``, then ``backup`` (all replaced bytes side by side), ``backup.json`` (what lies where),
``journal``, and ``moved/k`` (what action k moved out). A name that ends in ``.part`` is one that changed nothing yet,
in ``.undone`` one that was taken back.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from storeio.apply import operations
from storeio.apply.journal import JOURNAL, Journal
from storeio.apply.tree import Tree, open_tree
from storeio.errors import NotAppliedError, NotAStoreError, UsageError
from storeio.plan.overlay import GONE, Folder
from storeio.uris import place_of, refuse_remote

SUFFIX: Final = ".storeio"
PART: Final = ".part"
UNDONE: Final = ".undone"
PLAN: Final = "plan.json"
BYTES: Final = "bytes"
BACKUP: Final = "backup"
INDEX: Final = "backup.json"
_RUN: Final = re.compile(r"(\d{8}T\d{6}\.\d{3})Z-[0-9a-f]{8}")
_ANY: Final = re.compile(rf"({_RUN.pattern})({re.escape(PART)}|{re.escape(UNDONE)})?")


def resolved_root(root: str | os.PathLike[str]) -> str:
    """Return a store root without links, so that the directory beside it is beside the real one.

    Raises:
        UsageError: It is a URI of another file system, where nothing is ever written, or an empty name.
        NotAStoreError: It is no directory, or the root of all.
    """
    local = refuse_remote(os.fspath(root), "only a store on a local disk can be changed; copy it, or name its copy")
    if not local:
        raise UsageError("an empty name is no store; is a variable not set?")
    path = os.path.realpath(local)
    if not os.path.isdir(path) or path == os.path.dirname(path):
        raise NotAStoreError(f"{os.fspath(root)}: not a store directory")
    return path


def beside(root: str) -> str:
    """Return the directory beside a store that is named in any way, there or not."""
    return os.path.realpath(os.path.realpath(place_of(root)) + SUFFIX)


def home_of(root: str) -> str:
    """Return the directory beside a resolved store root; a link of its name, to another disk, is followed.

    Raises:
        UsageError: It would lie inside the store, or something else is there, be it a link that leads nowhere: the disk
            that it leads to may not be mounted.
    """
    path = os.path.realpath(root + SUFFIX)
    if os.path.lexists(root + SUFFIX) and not os.path.isdir(path):
        what = f"leads to {path}, which is no directory" if os.path.islink(root + SUFFIX) else "is no directory"
        raise UsageError(f"{root}{SUFFIX}: {what}; what an apply replaces is kept there")
    if Path(path).is_relative_to(root) or Path(root).is_relative_to(path):
        raise UsageError(f"{root}{SUFFIX}: leads into the store, or the store lies in it")
    return path


@contextmanager
def opened_home(root: str, *, make: bool) -> Iterator[Tree]:
    """Yield the directory beside a store; one that is made for it and ends up empty is removed.

    Raises:
        UsageError: It is not there and not to be made: nothing was ever applied.
    """
    path = home_of(root)
    made = not os.path.isdir(path)
    if made and not make:
        raise UsageError(f"{root}: nothing was applied to it: there is no {path}")
    try:
        if made:
            _make(path)
        home = open_tree(path, os.path.basename(path))
        try:
            yield home
        finally:
            home.close()
    finally:
        if made:
            with suppress(OSError):  # there is something in it
                os.rmdir(path)


def _make(path: str) -> None:
    above, name = os.path.split(path)
    parent = open_tree(above, above.rstrip("/"))
    try:
        parent.make_folder(name, operations.PRIVATE_MODE)
    finally:
        parent.close()


def run_names(home: Tree) -> list[str]:
    """Return the names of all runs that are not taken back, the oldest first."""
    return [name for name in home.names() if _RUN.fullmatch(name) and isinstance(home.look(name), Folder)]


def new_name(home: Tree, plan_sha256: str) -> str:
    """Return a run's name that sorts behind those of all runs before it."""
    now_ms = time.time_ns() // 1_000_000
    known = [match[2] for match in map(_ANY.fullmatch, home.names()) if match]
    while True:
        seconds, ms = divmod(now_ms, 1000)
        stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{ms:03d}"
        if all(stamp > other for other in known):
            return f"{stamp}Z-{plan_sha256[:8]}"
        newest = max(known)  # the clock may have been set back
        now_ms = max(now_ms, _ms_of(newest)) + 1


def _ms_of(stamp: str) -> int:
    moment = time.strptime(stamp[:-4], "%Y%m%dT%H%M%S")
    return calendar.timegm(moment) * 1000 + int(stamp[-3:])


def sweep(home: Tree) -> None:
    """Remove runs that were killed before they changed anything; name those that were taken back and killed then."""
    for name in home.names():
        if name.endswith(PART) and _RUN.fullmatch(name.removesuffix(PART)):
            home.remove_tree(name)
    for name in run_names(home):
        run = home.below(name)
        try:
            undone = run.look(JOURNAL) != GONE and Journal(run).progress.undone
        finally:
            run.close()
        if undone:
            set_aside(home, name)


def set_aside(home: Tree, name: str) -> None:
    """Give a run that was taken back the name that says so."""
    with home.folder() as fd:
        operations.rename(name, fd, name + UNDONE, fd, f"{home.shown(name)} to {home.shown(name + UNDONE)}")
        operations.synced(fd, home.shown(""))


def publish(home: Tree, name: str) -> None:
    """Give a run that is prepared its name: from now on it may change the store."""
    with home.folder() as fd:
        operations.rename(name + PART, fd, name, fd, f"{home.shown(name + PART)} to {home.shown(name)}")
        operations.synced(fd, home.shown(""))


def discard(home: Tree, name: str) -> None:
    """Remove a run that changed nothing. Its name goes first, so that half of it is never taken for a run."""
    if home.look(name) != GONE:
        with home.folder() as fd:
            operations.rename(name, fd, name + PART, fd, f"{home.shown(name)} to {home.shown(name + PART)}")
    home.remove_tree(name + PART)


def unfinished(home: Tree) -> str | None:
    """Return the name of the run that is neither complete nor taken back.

    Raises:
        NotAppliedError: A journal cannot be read.
    """
    for name in reversed(run_names(home)):
        run = home.below(name)
        try:
            progress = Journal(run).progress
        except OSError as error:
            raise NotAppliedError(f"{home.shown(name)}: {error}") from error
        finally:
            run.close()
        if not progress.complete or progress.undoing:
            return name
    return None
