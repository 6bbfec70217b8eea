"""Moving a file or directory between the store and the run directory, whole or not at all, across file systems too.

What is moved out is ``moved/k``. While that is there it is whole, and anything still at the old path is a rest. So
``moved/k`` comes into being by a rename, and going back it loses its name before the first byte of it is removed.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from storeio.apply import operations
from storeio.apply.operations import OperationError
from storeio.apply.tree import Tree
from storeio.errors import MismatchError
from storeio.plan.digest import listing_sha256
from storeio.plan.overlay import GONE, Folder

MOVED: Final = "moved"
_PART: Final = ".part"  # a copy that is being made
_REST: Final = ".rest"  # what has been copied back and is being removed


def moved_path(number: int) -> str:
    """Return where an action's file or directory lies in the run directory."""
    return f"{MOVED}/{number}"


def content_sha256(tree: Tree, path: str) -> str:
    """Return the digest of a file, or of a directory's listing.

    Raises:
        MismatchError: Nothing is there, or something that is neither.
    """
    found = tree.look(path)
    if isinstance(found, int):
        return tree.digest(path, 0, found)
    if found == GONE:
        raise MismatchError(f"{tree.shown(path)}: not there")
    return listing_sha256(tree.listing(path))


def move_out(store: Tree, path: str, run: Tree, number: int, sha256: str) -> None:
    """Move what is at a path into the run directory; may have been begun before."""
    target = moved_path(number)
    run.remove_tree(target + _PART)
    if run.look(target) == GONE:
        try:
            _rename(store, path, run, target)
        except OperationError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(store, path, run, target + _PART)
            _require(run, target + _PART, sha256)
            _rename(run, target + _PART, run, target)
    _require(run, target, sha256)
    store.remove_tree(path)
    store.sync_folder(path.rpartition("/")[0])
    run.sync_folder(MOVED)


def move_back(run: Tree, number: int, store: Tree, path: str, sha256: str) -> None:
    """Move it back; may have been begun before, or moving it out may not have ended."""
    source = moved_path(number)
    if run.look(source) != GONE:
        _require(run, source, sha256)
        store.remove_tree(path)
        try:
            _rename(run, source, store, path)
        except OperationError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(run, source, store, path)
            _require(store, path, sha256)
            _rename(run, source, run, source + _REST)
    run.remove_tree(source + _PART)
    run.remove_tree(source + _REST)
    _require(store, path, sha256)
    store.sync_folder(path.rpartition("/")[0])
    run.sync_folder(MOVED)


def is_rest(store: Tree, path: str, run: Tree, number: int) -> bool:
    """Tell whether all names at a path are also in ``moved/k``, so that they are what a copy left behind."""
    left, whole = store.look(path), run.look(moved_path(number))
    if not (isinstance(left, Folder) and isinstance(whole, Folder)):
        return left == GONE or (isinstance(left, int) and isinstance(whole, int) and left <= whole)
    known = {entry.path: entry for entry in run.listing(moved_path(number), digests=False)}
    return all(
        entry.path in known and known[entry.path].kind == entry.kind and known[entry.path].length >= entry.length
        for entry in store.listing(path, digests=False)
    )


def _require(tree: Tree, path: str, sha256: str) -> None:
    if content_sha256(tree, path) != sha256:
        raise MismatchError(f"{tree.shown(path)}: not what the plan moves")


def _rename(source: Tree, path: str, target: Tree, new_path: str) -> None:
    with source.above(path) as (fd, name), target.above(new_path) as (new_fd, new_name):
        operations.rename(name, fd, new_name, new_fd, f"{source.shown(path)} to {target.shown(new_path)}")
        source.touched = target.touched = True
        operations.synced(new_fd, target.shown(new_path.rpartition("/")[0]))
        operations.synced(fd, source.shown(path.rpartition("/")[0]))


def _copy(source: Tree, path: str, target: Tree, new_path: str) -> None:
    """Copy a file or a directory with modes and owners, all of it synced."""
    if isinstance(source.look(path), int):
        _copy_file(source, path, target, new_path)
        return
    _copy_folder(source, path, target, new_path)
    for entry in source.listing(path, digests=False):
        copy = _copy_file if entry.kind == "file" else _copy_folder
        copy(source, f"{path}/{entry.path}", target, f"{new_path}/{entry.path}")


def _copy_folder(source: Tree, path: str, target: Tree, new_path: str) -> None:
    target.make_folder(new_path)
    with source.folder(path) as fd, target.folder(new_path) as new_fd:
        _keep_owner(fd, new_fd, target.shown(new_path))


def _copy_file(source: Tree, path: str, target: Tree, new_path: str) -> None:
    length = source.look(path)
    assert isinstance(length, int)
    with source.reading(path) as fd:
        target.write_new(new_path, source.read(fd, 0, length, path))
        with target.writing(new_path) as made:
            _keep_owner(fd, made, target.shown(new_path))
            target.sync(made, new_path)
    target.sync_folder(new_path.rpartition("/")[0])


def _keep_owner(fd: int, new_fd: int, path: str) -> None:
    found = os.fstat(fd)
    with operations.naming("set owner and mode", path):
        os.fchmod(new_fd, found.st_mode & 0o7777)
        if os.geteuid() == 0:
            os.fchown(new_fd, found.st_uid, found.st_gid)
