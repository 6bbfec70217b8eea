"""What every change of a store runs in: locks held, rests of killed ones gone, signals kept, errors in one line."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from types import FrameType

from storeio.apply import home as homes
from storeio.apply.locks import no_broker, only_us
from storeio.apply.operations import OperationError
from storeio.apply.tree import Tree, open_tree
from storeio.errors import NotAppliedError
from storeio.plan.model import Action
from storeio.process import heeded
from storeio.report.next_step import root_word
from storeio.results import Progress, Tell


class Patience:
    """Hears that somebody wants to stop; tells who waits how far it is.

    Before the first action the work ends at once, and takes away what it made; from then on an action is ended first.
    """

    def __init__(self, tell: Tell | None = None) -> None:
        """Begin without a wish to stop."""
        self.over = False
        self._begun = False
        self._tell = tell
        self._ends = [0]  # bytes of so many actions

    def begin(self) -> None:
        """Have signals only remembered from now on: an action comes next."""
        self._begun = True

    def expect(self, actions: Iterable[Action]) -> None:
        """Add up once what is to be done, or taken back: there may be thousands of actions."""
        self._ends = [0, *accumulate(action.length for action in actions)]

    def done(self, first: int, stop: int, phase: str) -> None:
        """Tell that the actions ``[first, stop)`` of those that are expected are done, or taken back."""
        if self._tell is not None:
            self._tell(Progress(self._ends[stop] - self._ends[first], self._ends[-1], phase))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Take the signals to stop while the block runs; only a main thread gets any.

        Raises:
            KeyboardInterrupt: There was one before ``begin``.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._stop) for number in heeded()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        first, self.over = not self.over, True
        if first and not self._begun:  # a second one must not disturb the cleaning up after the first
            raise KeyboardInterrupt


@contextmanager
def opened(root: str, *, make: bool) -> Iterator[tuple[Tree, Tree]]:
    """Yield the store and the directory beside it, with nobody else at them.

    Args:
        root: As ``resolved_root`` returns it.
        make: Whether the directory beside it may be made.

    Raises:
        UsageError: The directory is not there and not to be made.
        NotAppliedError: A broker runs, or another apply.
    """
    with homes.opened_home(root, make=make) as home, only_us(home):
        store = open_tree(root)
        try:
            with no_broker(store, home):
                homes.sweep(home)
                yield store, home
        finally:
            store.close()


@contextmanager
def said() -> Iterator[None]:
    """Make every refusal of the system an error of ours.

    Raises:
        NotAppliedError: In place of ``OperationError``.
    """
    try:
        yield
    except OperationError as error:
        raise NotAppliedError(str(error)) from error


def ways_on(root: str) -> str:
    """Return what can be done about an apply that did not end."""
    word = root_word(root)
    return f"`storeio apply --resume {word}` finishes it, `storeio undo {word}` takes it back"
