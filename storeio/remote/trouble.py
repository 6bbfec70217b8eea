"""Trouble of a network: what passes is tried again, so often and so long; the rest is an error at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from storeio.errors import UnreadableError

T = TypeVar("T")

FIRST_PAUSE_SECONDS: Final = 0.2
MOST_PAUSE_SECONDS: Final = 5.0
PAUSE_FACTOR: Final = 3
DEADLINE_FACTOR: Final = 2  # times the request timeout: for a server that sends, but hardly anything
MOST_FAILING: Final = 3  # files in a row that cannot be read, before the server counts as gone
GONE_SECONDS: Final = 30.0  # for which nothing is asked of it
MOST_REASON: Final = 300  # characters
# What no second try changes, as the AWS client and others name it.
LASTING: Final = (
    "ACCESS_DENIED",
    "AUTHENTICATION",
    "EXPIRED_TOKEN",
    "HTTP status 301",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_SIGNATURE",
    "NO_SUCH_BUCKET",
    "NO_SUCH_KEY",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNRECOGNIZED_CLIENT",
)
_LASTING_KINDS: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


@dataclass(frozen=True, slots=True)
class Limits:
    """How often one request is tried, how long it may be silent, and how long a connection may take."""

    attempts: int
    request_seconds: float
    connect_seconds: float

    @property
    def deadline_seconds(self) -> float:
        """What one try may take altogether."""
        return DEADLINE_FACTOR * self.request_seconds + self.connect_seconds


class ShortError(OSError):
    """Fewer bytes came than the file has."""


class Health:
    """Whether a server answers at all; shared by the threads of a process."""

    def __init__(self) -> None:
        """Begin with a server that answers."""
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._gone_until = 0.0
        self.cause = ""

    def is_gone(self) -> bool:
        """Tell whether it is not worth asking now."""
        return time.monotonic() < self._gone_until

    def good(self) -> None:
        """Take note of an answer."""
        if self._failing:
            with self._lock:
                self._failing.clear()

    def bad(self, path: str, cause: str) -> None:
        """Take note of a file that cannot be read, however often it is tried."""
        with self._lock:
            self._failing.add(path)
            if len(self._failing) >= MOST_FAILING:
                self._gone_until, self.cause = time.monotonic() + GONE_SECONDS, cause
                self._failing.clear()


def is_lasting(error: Exception) -> bool:
    """Tell whether trying again is of no use."""
    if isinstance(error, _LASTING_KINDS) or not isinstance(error, OSError):
        return True
    return any(word in str(error) for word in LASTING)


def one_line(error: BaseException) -> str:
    """Return what went wrong as one line of bounded length, without what changes from request to request."""
    if isinstance(error, FileNotFoundError):
        return "No such file or directory"
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.partition(" (Request ID:")[0][:MOST_REASON]


def tried(work: Callable[[], T], path: str, what: str, limits: Limits, health: Health) -> T:
    """Return what the work returns, tried again after trouble that passes.

    Args:
        work: May be left running in a thread of its own when it takes too long.
        path: The file, for the message and to tell one bad file from a server that is gone.
        what: Which part of it, for the message.
        limits: How often and how long.
        health: Of the server.

    Raises:
        UnreadableError: It failed for good, too often or too long; names file, part and cause.
    """
    about = f"{path}: {what}" if what else path
    if health.is_gone():
        raise UnreadableError(f"{about}: not asked for, since nothing else worked: {health.cause}")
    cause = ""
    for number in range(limits.attempts):
        if number:
            time.sleep(pause_seconds(number))
        try:
            found = within(limits.deadline_seconds, work)
        except UnreadableError:
            raise
        except (OSError, ValueError, NotImplementedError) as error:
            cause = one_line(error)
            if is_lasting(error):
                health.good()  # it did answer
                raise UnreadableError(f"{about}: {cause}") from error
        else:
            health.good()
            return found
        if health.is_gone():
            break
    health.bad(path, cause)
    raise UnreadableError(f"{about}: {cause}" + (f" (tried {number + 1} times)" if number else ""))


def pause_seconds(number: int) -> float:
    """Return how long to wait before a try, by chance a little more or less: others wait, too."""
    pause = FIRST_PAUSE_SECONDS * PAUSE_FACTOR ** min(number - 1, 10)
    return min(pause, MOST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what the work returns if it ends in time; a thread that hangs in a library cannot be ended, only left.

    The work may ask whether it was left with ``is_given_up``.

    Raises:
        TimeoutError: It did not end.
    """
    ended = threading.Event()
    found: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    thread = _Try(target=run, daemon=True, name="storeio-remote")
    thread.start()
    if not ended.wait(seconds):
        thread.is_given_up = True
        raise TimeoutError(f"no answer within {seconds:g} s")
    if errors:
        raise errors[0]
    return found[0]


class _Try(threading.Thread):
    """Does one piece of work, for which somebody waits until it is given up."""

    is_given_up = False


def is_given_up() -> bool:
    """Tell whether this thread does work for which nobody waits any more."""
    thread = threading.current_thread()
    return isinstance(thread, _Try) and thread.is_given_up
