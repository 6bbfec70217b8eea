"""Taking one action back, and again if that was begun: from the backup, to the exact old bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from storeio.apply.forward import rename_within
from storeio.apply.moving import move_back
from storeio.apply.run import Run
from storeio.apply.sources import old_length
from storeio.apply.tree import Tree
from storeio.errors import MismatchError
from storeio.plan.digest import digest_of, zeros_sha256
from storeio.plan.model import CREATE, MOVE, RENAME, RESIZE, WRITE
from storeio.plan.overlay import GONE


def take_back(run: Run, number: int, store: Tree) -> None:
    """Take an action back that is done or was begun, have that on the disk, and read it again.

    Raises:
        MismatchError: The store does not hold what was written back.
        OperationError: The system refused something.
    """
    _KINDS[run.actions[number].kind](run, number, store)
    for path in reversed(run.journal.progress.made.get(number, [])):
        store.remove_folder(path)


def _write(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    with store.writing(action.path) as fd:
        store.pour(fd, run.old_bytes(number), action.position, action.path)
        store.sync(fd, action.path)
    _require_old(run, number, store, action.position)


def _create(run: Run, number: int, store: Tree) -> None:
    store.remove_file(run.actions[number].path)


def _resize(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    with store.writing(action.path) as fd:
        if os.fstat(fd).st_size != action.old_length:
            store.set_length(fd, action.old_length, action.path)
        if old_length(action) and not run.was_zeros(number):  # else the length brings them back, and takes no space
            store.pour(fd, run.old_bytes(number), action.length, action.path)
        store.sync(fd, action.path)
    _require_old(run, number, store, action.length)


def _require_old(run: Run, number: int, store: Tree, position: int) -> None:
    """Compare what was written back with what was there before."""
    action, length = run.actions[number], old_length(run.actions[number])
    if store.look(action.path) != action.old_length:
        raise MismatchError(f"{action.path}: not {action.old_length} bytes long")
    old = zeros_sha256(length) if run.was_zeros(number) else digest_of(run.old_bytes(number))
    if length and store.digest(action.path, position, length) != old:
        raise MismatchError(f"{action.path}: does not hold what was written to it")


def _move(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    move_back(run.tree, number, store, action.path, action.old_sha256)


def _rename(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    if store.look(action.path) == GONE:  # else it was never renamed, or is back already
        rename_within(store, action.target, action.path)
        return
    for path in (action.path, action.target):
        above = path.rpartition("/")[0]
        if not above or store.look(above) != GONE:
            store.sync_folder(above)


_KINDS: Final[dict[str, Callable[[Run, int, Tree], None]]] = {
    WRITE: _write,
    CREATE: _create,
    RESIZE: _resize,
    MOVE: _move,
    RENAME: _rename,
}
