"""What a process sets that is ours alone: the command line's, and a bench's that stands for it."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

COLLECTED_AFTER: Final = (20_000, 20, 10)  # objects, then collections
BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"
COMES_AGAIN_S: Final = 0.01
ASKING: Final = (signal.SIGTERM, signal.SIGHUP)  # of service managers and ``timeout``, of a session that ends


def own_process() -> None:
    """Have Python look for garbage less often, and SIGTERM and SIGHUP stop the work; a library leaves it to its caller.

    To be called before numpy is imported, and before any file is opened.

    Importing numba makes half a million objects that stay; by default they are looked at in vain again and again,
    for a tenth of a short run.
    """
    hold_streams()
    gc.set_threshold(*COLLECTED_AFTER)
    # numpy's linear algebra, of which we have none, starts a thread a core that turns for a tenth of a second.
    os.environ.setdefault(BLAS_THREADS, "1")
    stop_when_asked()


def hold_streams() -> None:
    """Have standard streams that the caller closed lead nowhere, as with ``>/dev/null``.

    Else the next file that is opened, maybe one of a store, has their number and gets what was meant for them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is the stream's
            os.set_inheritable(handle, True)
            setattr(sys, name, os.fdopen(handle, mode))


def stop_at_once() -> None:
    """Have requests to stop end the process, which only imports modules yet, so that nothing is to be cleared up."""
    for number in heeded():
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)


def _end(*_: object) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"storeio: cancelled\n")
    os._exit(32)  # EXIT_CANCELLED of storeio.results, which may not be there yet


def stop_when_asked() -> None:
    """Have SIGTERM and SIGHUP stop the work as Ctrl-C does: cleaned up, and said."""
    for number in ASKING:
        if signal.getsignal(number) in (signal.SIG_DFL, _end):
            signal.signal(number, signal.default_int_handler)
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = come_again


def stop_alike() -> None:
    """Have the others, where they stop the work, do what Ctrl-C does by now: a library has its own work end, too."""
    for number in ASKING:
        if signal.getsignal(number) is signal.default_int_handler:
            signal.signal(number, signal.getsignal(signal.SIGINT))


def heeded() -> list[signal.Signals]:
    """Return the signals that ask to stop: Ctrl-C, SIGTERM and SIGHUP, those left out that are ignored.

    Whoever starts a process has it ignore them where it is to go on, as ``nohup`` does, and a shell's ``&``.
    """
    return [number for number in (signal.SIGINT, *ASKING) if signal.getsignal(number) is not signal.SIG_IGN]


@contextlib.contextmanager
def undivided() -> Iterator[None]:
    """Have requests to stop wait for the end of the block, unless they come twice; only the main thread gets them.

    Raises:
        KeyboardInterrupt: One came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _: object) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in heeded()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def stop_still(error: BaseException) -> None:
    """Have Ctrl-C go on where clearing up for it has failed, which hides it.

    Raises:
        KeyboardInterrupt: The error came of one.
    """
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        at = at.__context__


def come_again(dropped: UnraisableHookArgs) -> None:
    """Have Ctrl-C come again a moment later where Python drops what is raised: in a finaliser, a callback from C."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        later = threading.Timer(COMES_AGAIN_S, interrupt_main)
        later.daemon = True
        later.start()
    else:
        sys.__unraisablehook__(dropped)


def end_undisturbed() -> None:
    """Have requests to stop change nothing any more, since all is said and only Python clears up."""
    for number in heeded():
        signal.signal(number, signal.SIG_IGN)
    # Ctrl-C in code that was made of text, as dataclass makes it, has Python end itself by SIGINT instead of with our
    # exit code, until other such code has run.
    exec("")
