"""What a plan expects, compared with the store before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from storeio.apply.moving import content_sha256
from storeio.apply.sources import BytesFile, new_length, sha256_of
from storeio.apply.tree import Tree
from storeio.errors import MismatchError, UsageError
from storeio.plan.digest import NOTHING, digest_of, zeros_sha256
from storeio.plan.model import MOVE, RENAME, RESIZE, WRITE, ZEROS, Action, Plan
from storeio.plan.overlay import GONE, Folder, Overlay, parents
from storeio.safe import printable


def check_bytes_file(plan: Plan, beside: BytesFile) -> None:
    """Compare the bytes file with the plan.

    Raises:
        MismatchError: Its length or digest is another, or it is not there.
    """
    if not plan.bytes_file:
        return
    length = beside.tree.look(beside.name)
    if length != plan.bytes_length:
        there = f"{length} bytes long" if isinstance(length, int) else "not a file that is there"
        raise MismatchError(f"bytes file {printable(beside.name)}: {there}; the plan's has {plan.bytes_length} bytes")
    if beside.tree.digest(beside.name, 0, plan.bytes_length) != plan.bytes_sha256:
        raise MismatchError(f"bytes file {printable(beside.name)}: not the bytes of this plan")


def check_actions(actions: Sequence[Action], first: int, overlay: Overlay, store: Tree, beside: BytesFile) -> None:
    """Compare every action from the ``first`` on with the store as the actions before it leave it.

    Args:
        actions: All of the plan, which obeys ``check_plan``.
        first: Number of the first that is not done.
        overlay: Looks at the store; what was begun is assumed. Holds the end state afterwards.
        store: The store.
        beside: The bytes file, whose digest is right.

    Raises:
        MismatchError: A difference; nothing was changed.
    """
    for number, action in enumerate(actions[first:], first):
        try:
            _check(action, overlay, store, beside)
            overlay.apply(action)
        except UsageError as error:
            raise MismatchError(f"the plan does not fit the store: action {number}: {error}") from None


def _check(action: Action, overlay: Overlay, store: Tree, beside: BytesFile) -> None:
    shown = printable(action.path)
    if action.kind in (WRITE, RESIZE, RENAME) and action.path not in overlay.names:
        _require_one_name(store, action.path)
    if action.kind == RENAME:
        _require_one_file_system(store, action)
    pieces = overlay.replaced(action)
    if pieces is None:
        if action.old_length != 0 or content_sha256(store, action.path) != action.old_sha256:
            raise MismatchError(f"{shown}: the directory does not hold what the plan moves")
    elif sha256_of(pieces, store, beside) != (action.old_sha256 or NOTHING):
        raise MismatchError(f"{shown}: {_range_of(action)} not what the plan replaces")
    if action.kind not in (MOVE, RENAME) and action.new_sha256 not in ("", new_sha256(action, beside)):
        raise MismatchError(f"{shown}: the new bytes do not have the digest that the plan says")


def _range_of(action: Action) -> str:
    if action.kind == WRITE:
        return f"bytes {action.position} to {action.position + action.length} are"
    if action.kind == RESIZE:
        return f"bytes {action.length} to {action.old_length} are"
    return "its bytes are"


def new_sha256(action: Action, beside: BytesFile) -> str:
    """Return the digest of what an action writes or appends."""
    length = new_length(action)
    if not length:
        return NOTHING
    return zeros_sha256(length) if action.source == ZEROS else digest_of(beside.new_bytes(action))


def _require_one_name(store: Tree, path: str) -> None:
    found = store.status(path)
    if found is not None and not isinstance(store.look(path), Folder) and found.st_nlink != 1:
        raise MismatchError(f"{printable(path)}: has {found.st_nlink} names; a change would show under all of them")


def _require_one_file_system(store: Tree, action: Action) -> None:
    above = next((path for path in parents(action.target) if store.look(path) != GONE), "")
    found = store.status(action.path)
    with store.folder(above) as fd:
        if found is not None and found.st_dev != os.fstat(fd).st_dev:
            raise MismatchError(f"{printable(action.path)}: {printable(action.target)} is on another file system")
