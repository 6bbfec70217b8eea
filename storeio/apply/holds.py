"""Whether a store still is as an apply left it: looked at before it is resumed or taken back."""

from __future__ import annotations

from collections.abc import Iterator

from storeio.apply.expect import new_sha256
from storeio.apply.moving import is_rest, moved_path
from storeio.apply.run import Run
from storeio.apply.sources import BytesFile, sha256_of
from storeio.apply.tree import Tree
from storeio.errors import MismatchError
from storeio.plan.contents import ANY, ZERO, Contents, Piece
from storeio.plan.model import CREATE, MOVE, RENAME, RESIZE, WRITE, Action
from storeio.plan.overlay import GONE, Folder, Overlay, parents
from storeio.safe import printable

MOST_TOLD = 10


def require_held(run: Run, store: Tree) -> None:
    """Raise unless all that the apply wrote is there as it wrote it, and every backup is whole.

    Raises:
        MismatchError: Says what differs; nothing was changed.
    """
    found = list(differences(run, store))
    if found:
        more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
        told = "; ".join(found[:MOST_TOLD])
        raise MismatchError(f"{run.name}: the store was changed since, nothing is done to it: {told}{more}")


def differences(run: Run, store: Tree) -> Iterator[str]:
    """Yield a clause for everything that is not as the apply left it."""
    yield from _unlogged(run, store)
    progress, actions = run.journal.progress, run.actions
    touched = [*range(progress.done), *([] if progress.flux is None else [progress.flux])]
    for number in touched:
        if not run.holds_backup(number):
            yield f"the backup of action {number} is damaged"
    overlay = Overlay()
    for number in range(progress.done):
        overlay.apply(actions[number])
        if actions[number].kind == MOVE:
            yield from _moved(run, number)
    free: set[str] = set()  # paths that the action in flux may have in either state
    if progress.flux is not None:
        free.update(progress.made.get(progress.flux, ()))
        yield from _flux(run, progress.flux, store, overlay, free)
    beside = run.loaded.beside
    for path, known in overlay.names.items():
        if path in free:
            continue
        try:
            found = store.look(path)
            if isinstance(known, Contents):
                yield from _file(path, known, found, store, beside)
            elif (known == GONE) != (found == GONE) or isinstance(found, int):
                yield f"{printable(path)}: {'something' if found != GONE else 'nothing'} is there"
        except MismatchError as error:
            yield str(error)
    yield from _strangers(run, touched, store, overlay, free)


def _unlogged(run: Run, store: Tree) -> Iterator[str]:
    """Yield a clause for each action that is done, and whose journal does not tell: it lost its end.

    What somebody else changed there is none of ours: only what is just as the action leaves it is looked for, and not
    where one before it, that is not done either, would change what has the name.
    """
    progress = run.journal.progress
    changed = _names_of(run.actions[progress.flux]) if progress.flux is not None else set()
    for number in range(progress.done + (progress.flux is not None), len(run.actions)):
        action = run.actions[number]
        if changed.isdisjoint((action.path, *parents(action.path))) and _looks_done(run, number, store):
            told = f"action {number} on {printable(action.path)} is done, which the journal does not tell"
            yield f"{told}: it has lost its end"
        if action.kind != WRITE:
            changed |= _names_of(action)


def _names_of(action: Action) -> set[str]:
    return {name for name in (action.path, action.target) if name}


def _looks_done(run: Run, number: int, store: Tree) -> bool:
    """Tell whether the store is as an action leaves it, and not as before it."""
    action = run.actions[number]
    try:
        found = store.look(action.path)
        if action.kind == WRITE:
            new = new_sha256(action, run.loaded.beside)
            is_there = found == action.old_length and new != action.old_sha256
            return is_there and store.digest(action.path, action.position, action.length) == new
        if action.kind == MOVE:
            return run.tree.look(moved_path(number)) != GONE
        if action.kind == RENAME:
            return found == GONE and store.look(action.target) != GONE
        return found == action.length and (action.kind == CREATE or action.length != action.old_length)
    except MismatchError:
        return False


def _moved(run: Run, number: int) -> Iterator[str]:
    try:
        if not run.holds_moved(number):
            yield f"{run.tree.shown(moved_path(number))}: changed"
    except MismatchError as error:
        yield str(error)


def _file(path: str, known: Contents, found: object, store: Tree, beside: BytesFile) -> Iterator[str]:
    """Compare a file with what is known of it."""
    if found != known.length:
        there = f"{found} bytes long" if isinstance(found, int) else "not a file"
        yield f"{printable(path)}: {there}, not {known.length}"
        return
    if known.sha256 and store.digest(path, 0, known.length) != known.sha256:
        yield f"{printable(path)}: other bytes"
    position = 0
    for piece in known.pieces(0, known.length):
        if piece.origin != ANY and not _holds(store, path, position, piece, beside):
            yield f"{printable(path)}: other bytes within {position} to {position + piece.length}"
        position += piece.length


def _holds(store: Tree, path: str, position: int, piece: Piece, beside: BytesFile) -> bool:
    if piece.origin == ZERO:
        return store.is_zero(path, position, piece.length)
    return store.digest(path, position, piece.length) == sha256_of([piece], store, beside)


def _flux(run: Run, number: int, store: Tree, overlay: Overlay, free: set[str]) -> Iterator[str]:
    """Compare what one action leaves that was begun and not ended; what may be in either state goes into ``free``."""
    action = run.actions[number]
    path, found = action.path, store.look(action.path)
    if action.kind == WRITE:
        contents = overlay.file(action)
        contents.put(action.position, Piece(action.length, ANY))
        overlay.names[path] = contents
    elif action.kind == RESIZE:
        contents = overlay.file(action)
        if found == action.length:
            contents.resize(action.length)
        kept = min(action.length, action.old_length)
        if contents.length > kept:
            contents.put(kept, Piece(contents.length - kept, ANY))
        overlay.names[path] = contents
    elif action.kind == CREATE:
        free.add(path)
        if found != GONE and not (found in (0, action.length) and store.is_zero(path, 0, int(str(found)))):
            yield f"{printable(path)}: not what was being created"
    elif action.kind == MOVE:
        if run.tree.look(moved_path(number)) != GONE:
            free.add(path)
            yield from _moved(run, number)
            if not is_rest(store, path, run.tree, number):
                yield f"{printable(path)}: something else is there"
    elif action.kind == RENAME:
        target = store.look(action.target)
        if (found == GONE) == (target == GONE):
            yield f"{printable(path)}: it or {printable(action.target)} is not as it was"
        elif found == GONE:
            overlay.assume(action)


def _strangers(run: Run, touched: list[int], store: Tree, overlay: Overlay, free: set[str]) -> Iterator[str]:
    """Compare directories that the apply made with what it put there: taking back removes them."""
    targets = {run.actions[number].target for number in touched}
    known = {*overlay.names, *free, *targets}
    for path in (*known,):
        known.update(parents(path))
    progress = run.journal.progress
    for number in touched:
        for path in progress.made.get(number, ()):
            if not isinstance(store.look(path), Folder):
                continue  # the action in flux came not so far, or a later one moved it away
            for name in store.names(path):
                if f"{path}/{name}" not in known:
                    yield f"{printable(path)}/{printable(name)}: not made by this apply"
