"""Doing one action, and doing it again if it was begun: every one ends in the same bytes however often it is done."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from storeio.apply import operations
from storeio.apply.moving import content_sha256, move_out
from storeio.apply.run import Run
from storeio.apply.tree import Tree
from storeio.errors import MismatchError
from storeio.plan.model import CREATE, MOVE, RENAME, RESIZE, WRITE, Action
from storeio.plan.overlay import GONE


def do(run: Run, number: int, store: Tree) -> None:
    """Do an action, have it on the disk, and read it again.

    Raises:
        MismatchError: The store is not as it was when the plan was checked, or does not hold what was written.
        OperationError: The system refused something.
    """
    _KINDS[run.actions[number].kind](run, number, store)


def new_parents(action: Action, store: Tree) -> list[str]:
    """Return the directories that an action has to make, the outermost first."""
    made: list[str] = []
    if action.kind in (CREATE, RENAME):
        above = (action.target or action.path).rpartition("/")[0]
        while above and store.look(above) == GONE:
            made.insert(0, above)
            above = above.rpartition("/")[0]
    return made


def _write(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    with store.writing(action.path) as fd:
        if os.fstat(fd).st_size != action.old_length:
            raise MismatchError(f"{action.path}: no longer {action.old_length} bytes long")
        store.pour(fd, run.loaded.beside.new_bytes(action), action.position, action.path)
        store.sync(fd, action.path)
    _require(store.digest(action.path, action.position, action.length) == action.new_sha256, action)


def _create(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    for path in run.journal.progress.made.get(number, ()):
        store.make_folder(path)
    if store.look(action.path) == GONE:
        os.close(store.make_file(action.path))
    with store.writing(action.path) as fd:
        if os.fstat(fd).st_size != action.length:
            store.set_length(fd, action.length, action.path)
        store.sync(fd, action.path)
    store.sync_folder(action.path.rpartition("/")[0])
    _require(store.look(action.path) == action.length and store.is_zero(action.path, 0, action.length), action)


def _resize(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    with store.writing(action.path) as fd:
        length = os.fstat(fd).st_size
        if length not in (action.old_length, action.length):
            raise MismatchError(f"{action.path}: no longer {action.old_length} bytes long")
        if length != action.length:
            store.set_length(fd, action.length, action.path)
        store.sync(fd, action.path)
    appended = max(action.length - action.old_length, 0)
    _require(store.look(action.path) == action.length, action)
    _require(store.is_zero(action.path, action.length - appended, appended), action)


def _move(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    move_out(store, action.path, run.tree, number, action.old_sha256)


def _rename(run: Run, number: int, store: Tree) -> None:
    action = run.actions[number]
    for path in run.journal.progress.made.get(number, ()):
        store.make_folder(path)
    rename_within(store, action.path, action.target)
    _require(content_sha256(store, action.target) == action.old_sha256, action)


def rename_within(store: Tree, path: str, target: str) -> None:
    """Give a file another name unless it has it already, and have both directories on the disk.

    Raises:
        MismatchError: Both names are there, or none.
    """
    if (store.look(path) == GONE) == (store.look(target) == GONE):
        raise MismatchError(f"{path}: it or {target} is not as it was")
    with store.above(path) as (fd, name), store.above(target) as (new_fd, new_name):
        if store.look(path) != GONE:
            operations.rename(name, fd, new_name, new_fd, f"{store.shown(path)} to {store.shown(target)}")
            store.touched = True
        operations.synced(new_fd, store.shown(target.rpartition("/")[0]))
        operations.synced(fd, store.shown(path.rpartition("/")[0]))


def _require(holds: bool, action: Action) -> None:
    if not holds:
        raise MismatchError(f"{action.path}: does not hold what was written to it")


_KINDS: Final[dict[str, Callable[[Run, int, Tree], None]]] = {
    WRITE: _write,
    CREATE: _create,
    RESIZE: _resize,
    MOVE: _move,
    RENAME: _rename,
}
