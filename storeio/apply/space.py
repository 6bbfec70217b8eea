"""Whether there is room for what an apply adds, on the file systems that it adds it to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from storeio.apply.run import LoadedPlan, backup_places
from storeio.apply.tree import Tree
from storeio.errors import NotAppliedError
from storeio.plan.digest import FILE
from storeio.plan.model import CREATE, MOVE, WRITE, Action
from storeio.plan.overlay import GONE, Folder, parents

MARGIN_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 4096
SECTOR_BYTES: Final = 512  # the unit of st_blocks


def require_space(loaded: LoadedPlan, first: int, store: Tree, home: Tree, *, resumed: bool = False) -> None:
    """Raise if an apply from the ``first`` action on would not fit.

    Raises:
        NotAppliedError: Says how much is needed and how much is free; nothing was changed.
    """
    actions = loaded.plan.actions
    needed: Counter[int] = Counter()
    with home.folder() as fd:
        beside = os.fstat(fd).st_dev
        free = {beside: _free(fd)}
        if not resumed:
            own = backup_places(actions)[1] + loaded.plan.bytes_length + 2 * len(loaded.text)
            needed[beside] += own + BLOCK_BYTES * 8
        needed[beside] += _journal_bytes(len(actions) - first)
    written: Counter[str] = Counter()
    gone = {action.path for action in actions[first:] if action.kind == MOVE}
    for action in actions[first:]:
        if action.kind == WRITE:
            written[action.path] += action.length + 2 * BLOCK_BYTES
        elif action.kind == MOVE:
            needed[beside] += _copied(action, store, beside)
        elif action.kind == CREATE:
            written[action.path] += BLOCK_BYTES
    for path, growth in written.items():
        device, holes = _holes(path, store, free, gone)
        needed[device] += growth if holes is None else min(growth, holes)
    for device, count in needed.items():
        if count and count + MARGIN_BYTES > free[device]:
            raise NotAppliedError(
                f"no space: {count} bytes and {MARGIN_BYTES} to spare are needed, {free[device]} are free; "
                "nothing was changed"
            )


def _journal_bytes(actions: int) -> int:
    return 512 * actions + BLOCK_BYTES


def _free(fd: int) -> int:
    found = os.statvfs(fd)
    return found.f_bavail * found.f_frsize


def _holes(path: str, store: Tree, free: dict[int, int], gone: Collection[str]) -> tuple[int, int | None]:
    """Return a file's file system, and how many of its bytes take no space yet; None for a file that is not there.

    What is ``gone`` by then tells nothing: a file may lie below the name of one that is moved first.
    """
    above, there = "", path not in gone
    for each in reversed([*parents(path)]):
        if each in gone or not isinstance(store.look(each), Folder):
            there = False
            break
        above = each
    with store.folder(above) as fd:
        device = os.fstat(fd).st_dev
        if device not in free:
            free[device] = _free(fd)
    found = store.status(path) if there else None
    if found is None:
        return device, None
    return device, max(found.st_size + BLOCK_BYTES - found.st_blocks * SECTOR_BYTES, 0)


def _copied(action: Action, store: Tree, beside: int) -> int:
    """Return the bytes that moving takes beside the store: none on the same file system."""
    found = store.status(action.path)
    if found is None or found.st_dev == beside or store.look(action.path) == GONE:
        return 0
    if isinstance(store.look(action.path), Folder):
        entries: Sequence[int] = [
            entry.length + BLOCK_BYTES for entry in store.listing(action.path, digests=False) if entry.kind == FILE
        ]
        return sum(entries)
    return found.st_size + BLOCK_BYTES
