"""Carrying out a plan: the order of locks, checks, backups, actions and journal."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from storeio.apply import home as homes
from storeio.apply import journal as journals
from storeio.apply.expect import check_actions, check_bytes_file
from storeio.apply.forward import do, new_parents
from storeio.apply.holds import require_held
from storeio.apply.run import MOST_PLAN_BYTES, LoadedPlan, Run, load_plan, open_run, plan_in, prepare
from storeio.apply.session import Patience, opened, said, ways_on
from storeio.apply.space import require_space
from storeio.apply.tree import Tree, open_tree
from storeio.errors import MismatchError, NotAppliedError, StoreError, UsageError
from storeio.plan.outcome import APPLIED, CANCELLED, NOTHING, Applied
from storeio.plan.overlay import Overlay
from storeio.results import Tell
from storeio.uris import refuse_remote


def apply_plan(
    plan_path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
    allow_log: bool = False,
    progress: Tell | None = None,
) -> Applied:
    """Carry out a saved plan, all of it or, after an error, as far as it came; that can be resumed or taken back.

    Args:
        plan_path: The plan's file, its bytes file beside it; with ``resume`` the store root will do.
        root: The store, if it is not the one that the plan names.
        resume: Go on with what was begun, from the copy of the plan that was made then.
        allow_log: Whether the commitlog may be changed.
        progress: Called after each action.

    Returns:
        What was done. Stopped by a signal, it ends between two actions.

    Raises:
        UsageError: It is no plan, or does not fit the store; nothing was changed.
        NotAppliedError: A broker runs, there is no space, or the system refused something; says how to go on.
        KeyboardInterrupt: It was stopped by a signal before the first action; nothing was changed.
    """
    started = time.monotonic()
    patience = Patience(progress)
    path = refuse_remote(os.fspath(plan_path), "a plan is read from a local disk")
    with said(), patience.kept():
        if resume and os.path.isdir(path):
            return _resume(path, os.fspath(root or path), None, patience, started)
        _require_file(path)
        folder, name = os.path.split(os.path.realpath(path))
        tree = open_tree(folder)
        try:
            loaded = load_plan(tree, name, None, allow_log=allow_log or resume)
            store = os.fspath(root) if root is not None else loaded.plan.store
            if resume:
                return _resume(path, store, loaded, patience, started)
            if not loaded.plan.actions:
                homes.resolved_root(store)
                seconds, left = time.monotonic() - started, loaded.plan.left
                return Applied(store, path, "", "", NOTHING, 0, (), False, seconds, left)
            return _apply(path, store, loaded, patience, started)
        finally:
            tree.close()


def store_of(plan_path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> str:
    """Return the store that ``apply_plan`` would change: the one given, else what the plan names.

    Raises:
        UsageError: It is no plan.
    """
    path = refuse_remote(os.fspath(plan_path), "a plan is read from a local disk")
    if root is not None or os.path.isdir(path):
        return os.fspath(root) if root is not None else path
    _require_file(path)
    try:
        with open(path, "rb") as file:
            return plan_in(file.read(MOST_PLAN_BYTES), path).store
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def _require_file(path: str) -> None:
    """Raise if there is no plan's file at a path.

    Raises:
        UsageError: There is none.
    """
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a directory; a plan's file is needed, or --resume")
    if not os.path.isfile(path):
        raise UsageError(f"{path}: {'is no file' if os.path.exists(path) else 'no such plan'}")


def _apply(path: str, root: str, loaded: LoadedPlan, patience: Patience, started: float) -> Applied:
    real = homes.resolved_root(root)
    actions = loaded.plan.actions
    with opened(real, make=True) as (store, home):
        left = homes.unfinished(home)
        if left is not None:
            raise NotAppliedError(f"{root}: the apply {left} did not end; {ways_on(root)}")
        check_bytes_file(loaded.plan, loaded.beside)
        check_actions(actions, 0, Overlay(store.look), store, loaded.beside)
        require_space(loaded, 0, store, home)
        name = homes.new_name(home, loaded.sha256)
        try:
            prepare(home, name, loaded, Overlay(store.look), store)
            patience.begin()
        except BaseException as error:
            _discarded(home, name)
            if isinstance(error, OSError):
                raise NotAppliedError(f"{error}; the store is unchanged") from error
            raise
        done = _publish_and_carry(home, name, store, root, patience)
    outcome = APPLIED if done == len(actions) else CANCELLED
    where = f"{homes.home_of(real)}/{name}"
    seconds, left_out = time.monotonic() - started, loaded.plan.left
    return Applied(root, path, name, where, outcome, done, actions, False, seconds, left_out)


def _publish_and_carry(home: Tree, name: str, store: Tree, root: str, patience: Patience) -> int:
    """Return how many actions are done of a run that was prepared. One that changed nothing is removed.

    Raises:
        NotAppliedError: The system refused something; says how to go on.
        KeyboardInterrupt: It was stopped before the first action.
    """
    run = None
    failed: Exception | None = None
    store.touched = False  # a lock file that was made is gone in the end
    try:
        homes.publish(home, name)
        run = open_run(home, name)
        if not patience.over:
            return carry(run, store, patience)
    except (OSError, StoreError) as error:
        failed = error
    finally:
        if run is not None:
            run.close()
    if not store.touched and _discarded(home, name):
        if failed is None:
            raise KeyboardInterrupt
        raise NotAppliedError(f"{failed}; the store is unchanged") from failed
    raise _stopped(failed, run, root)


def _discarded(home: Tree, name: str) -> bool:
    """Tell whether a run's directory could be removed."""
    with suppress(OSError, StoreError):
        homes.discard(home, name)
        return True
    return False


def _stopped(error: Exception | None, run: Run | None, root: str) -> NotAppliedError:
    """Return the error of an apply that may have changed something."""
    came = f"{run.journal.progress.done} of {len(run.actions)} actions are done; " if run is not None else ""
    return NotAppliedError(f"{error or 'cancelled'}; {came}{ways_on(root)}")


def carry(run: Run, store: Tree, patience: Patience) -> int:
    """Return how many actions are done, once all are or somebody wants to stop."""
    journal, count = run.journal, len(run.actions)
    patience.expect(run.actions)
    if journal.progress.done < count and journal.progress.flux is None:
        journal.add(_begin(run, journal.progress.done, store))
    while journal.progress.done < count:
        number = journal.progress.done
        do(run, number, store)
        patience.done(0, number + 1, "writing")
        if number + 1 == count:
            journal.add(journals.done(number), journals.COMPLETE)
        elif patience.over:
            journal.add(journals.done(number))
            return number + 1
        else:
            journal.add(journals.done(number), _begin(run, number + 1, store))
    if not journal.progress.complete:
        journal.add(journals.COMPLETE)
    return count


def _begin(run: Run, number: int, store: Tree) -> journals.Line:
    return journals.begin(number, new_parents(run.actions[number], store))


def _resume(path: str, root: str, loaded: LoadedPlan | None, patience: Patience, started: float) -> Applied:
    """Go on with the one apply of a store that did not end."""
    real = homes.resolved_root(root)
    with opened(real, make=False) as (store, home):
        name = homes.unfinished(home)
        complete = name is None
        if name is None:
            names = homes.run_names(home)
            if not names:
                raise UsageError(f"{root}: nothing to resume")
            name = names[-1]
        run = open_run(home, name)
        try:
            progress = run.journal.progress
            if progress.undoing:
                raise NotAppliedError(f"{root}: {name} is being taken back; `storeio undo` goes on with that")
            if loaded is not None and loaded.sha256 != progress.plan_sha256:
                raise MismatchError(f"{path}: not the plan of {name}, which did not end")
            done = progress.done if complete else _carry_on(run, store, home, root, patience)
        finally:
            run.close()
    outcome = NOTHING if complete else APPLIED if done == len(run.actions) else CANCELLED
    where = f"{homes.home_of(real)}/{name}"
    seconds, left_out = time.monotonic() - started, run.loaded.plan.left
    return Applied(root, path, name, where, outcome, done, run.actions, True, seconds, left_out)


def _carry_on(run: Run, store: Tree, home: Tree, root: str, patience: Patience) -> int:
    """Check what is done and what is left, then carry it out."""
    progress, beside = run.journal.progress, run.loaded.beside
    require_held(run, store)
    overlay = Overlay(store.look)
    first = progress.done
    if progress.flux is not None:
        overlay.assume(run.actions[first])
        first += 1
    check_actions(run.actions, first, overlay, store, beside)
    require_space(run.loaded, progress.done, store, home, resumed=True)
    patience.begin()
    try:
        return carry(run, store, patience)
    except (OSError, StoreError) as error:
        raise _stopped(error, run, root) from error
