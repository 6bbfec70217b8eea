"""Taking an apply back, complete or not: from its backup, last action first, to the exact old bytes."""

from __future__ import annotations

import os
import time

from storeio.apply import home as homes
from storeio.apply import journal as journals
from storeio.apply.backward import take_back
from storeio.apply.holds import require_held
from storeio.apply.run import Run, open_run
from storeio.apply.session import Patience, opened, said, ways_on
from storeio.apply.tree import Tree
from storeio.errors import NotAppliedError, StoreError, UsageError
from storeio.plan.outcome import CANCELLED, UNDONE, Undone
from storeio.results import Tell


def undo(root: str | os.PathLike[str], *, name: str | None = None, progress: Tell | None = None) -> Undone:
    """Take an apply back; killed or stopped, it can be called again.

    Args:
        root: The store.
        name: The apply's name; the newest that is not taken back yet if not given.
        progress: Called after each action.

    Returns:
        What was taken back. Stopped by a signal, it ends between two actions.

    Raises:
        UsageError: There is nothing to take back, or the store was changed since; nothing was changed by us.
        NotAppliedError: A broker runs, or the system refused something.
        KeyboardInterrupt: It was stopped by a signal before it began.
    """
    started = time.monotonic()
    shown = os.fspath(root)
    patience = Patience(progress)
    with said(), patience.kept():
        real = homes.resolved_root(root)
        with opened(real, make=False) as (store, home):
            run = open_run(home, _chosen(home, shown, name))
            try:
                require_held(run, store)
                patience.begin()
                left = _back(run, store, patience)
            finally:
                run.close()
            if not left:
                homes.set_aside(home, run.name)
        where = f"{homes.home_of(real)}/{run.name}{'' if left else homes.UNDONE}"
    outcome = CANCELLED if left else UNDONE
    return Undone(shown, run.name, where, outcome, left, run.actions, time.monotonic() - started)


def _chosen(home: Tree, root: str, name: str | None) -> str:
    """Return the name of the apply to take back."""
    names = homes.run_names(home)
    if not names:
        raise UsageError(f"{root}: nothing to take back")
    if name is None:
        return names[-1]
    if name not in names:
        raise UsageError(f"{root}: no apply {name} that is not taken back; there are {', '.join(names)}")
    left = homes.unfinished(home)
    if left not in (None, name):
        raise NotAppliedError(f"{root}: the apply {left} did not end; {ways_on(root)}")
    return name


def _back(run: Run, store: Tree, patience: Patience) -> int:
    """Return how many actions are still done, 0 once all are taken back."""
    journal = run.journal
    progress = journal.progress
    patience.expect(run.actions)
    try:
        if progress.flux is None and progress.done:
            journal.add(journals.undo_begin(progress.done - 1))
        elif progress.flux is not None and not progress.undoing:
            journal.add(journals.undo_begin(progress.flux))
        while progress.flux is not None:
            number = progress.flux
            take_back(run, number, store)
            patience.done(number, len(run.actions), "taking back")
            if number == 0:
                journal.add(journals.undo_done(0), journals.UNDONE)
            elif patience.over:
                journal.add(journals.undo_done(number))
                return number
            else:
                journal.add(journals.undo_done(number), journals.undo_begin(number - 1))
        if not progress.undone:
            journal.add(journals.UNDONE)
    except (OSError, StoreError) as error:
        raise NotAppliedError(f"{error}; {progress.done} actions are left; `storeio undo` again goes on") from error
    return 0
