"""What stands where a queue, index file or checkpoint is to be: moved out of the way before that is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from storeio.plan import model
from storeio.plan.contents import Contents
from storeio.plan.overlay import GONE, Folder, parents
from storeio.planning.draft import Draft, Why
from storeio.planning.limits import RefusedError
from storeio.safe import printable

FILE = "a file where a directory belongs"
FOLDER = "a directory where a file belongs"


def make_way(draft: Draft, paths: Iterable[str], why: Why) -> None:
    """Add the actions that move aside what keeps files from having these paths.

    Args:
        draft: What is planned so far.
        paths: Files that are going to be changed, or made.
        why: Why they are; what is moved for them is of the risk of other strays.

    Raises:
        RefusedError: Something is in the way, or among the files, that no apply would touch; nothing was added.
    """
    found: dict[str, str] = {}
    for path in paths:
        obstacle = _obstacle(draft, path)
        if obstacle is not None:
            found.setdefault(*obstacle)
    if found and not draft.may_move:
        path, reason = next(iter(found.items()))
        raise RefusedError(f"{printable(path)}: {reason}, and actions of risk {model.METADATA} are not wanted")
    for path in found:
        draft.require_movable(path)
    for path, reason in found.items():
        draft.move(path, replace(why, risk=model.METADATA, reason=f"{reason}; what belongs there has no room"))


def _obstacle(draft: Draft, path: str) -> tuple[str, str] | None:
    """Return what is in the way of a file, and what is wrong with it; None for nothing."""
    for above in reversed([*parents(path)]):
        known = draft.found(above)
        if isinstance(known, Contents):
            return above, FILE
        if known == GONE:
            return None
    if isinstance(draft.found(path), Folder):
        return path, FOLDER
    draft.require_changeable(path)
    return None
