"""Where reports go: standard output, and JSON lines to what people name; what is lost there is said and counted."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from storeio.commands.console import complain, drop_output, explain
from storeio.errors import UsageError, WriteError
from storeio.output.partials import left_beside
from storeio.output.targets import file_target, followed, is_inside, refuse_inside
from storeio.output.whole_file import is_replaceable, whole_file
from storeio.results import EXIT_SOUND
from storeio.uris import refuse_remote, shown


def put(stream: IO[str] | None, text: str) -> None:
    """Write a line, if there is a stream. That nobody reads standard output any more is no error.

    Raises:
        WriteError: It cannot be written.
    """
    if stream is None:
        return
    try:
        stream.write(text + "\n")
        stream.flush()
    except OSError as error:
        if stream is not sys.stdout:
            raise lost_json(stream.name, error) from error
        if not isinstance(error, BrokenPipeError):
            raise lost_output(error) from error
        drop_output(sys.stdout)


def say(text: str) -> int:
    """Print a report; return the exit code of that: what was found out counts also if it cannot be told."""
    try:
        put(sys.stdout, text)
    except WriteError as error:
        return explain(error)
    return EXIT_SOUND


@dataclass(slots=True)
class Sink:
    """Where JSON lines go, ``stream``, None for nowhere.

    What cannot be written there ends no work: no more goes there, and once all is done, that is said and in ``code``.
    """

    stream: IO[str] | None = None
    error: WriteError | None = None
    ended: bool = False
    code: int = EXIT_SOUND

    def put(self, text: str) -> None:
        """Write a line, unless an earlier one was lost."""
        try:
            put(None if self.error is not None else self.stream, text)
        except WriteError as error:
            self.error = error


@contextlib.contextmanager
def json_sink(target: str | None, stores: Sequence[str], *, quiet: bool) -> Iterator[Sink]:
    """Yield where JSON lines go: ``-`` is standard output, a file never lies in a store.

    A file is there when the block has ended, whole, and as it was if the block fails or it cannot be written; links
    are followed. What killed runs left beside it is said on standard error, unless quiet. Pipes and devices get a line
    when it is known.

    Raises:
        UsageError: It lies in one, or cannot be a file there.
        WriteError: The file cannot be made.
    """
    sink = Sink()
    try:
        with _stream(target, stores, quiet=quiet) as sink.stream:
            yield sink
            sink.ended = True
            if sink.error is not None:
                raise sink.error
    except WriteError as error:
        if not sink.ended:
            raise
        sink.code = explain(error)


@contextlib.contextmanager
def _stream(target: str | None, stores: Sequence[str], *, quiet: bool) -> Iterator[IO[str] | None]:
    if target is None or target == "-":
        yield sys.stdout if target else None
        return
    if _is_output(target):  # one file, which the reports are written into as well: else these would overwrite it
        yield sys.stdout
        return
    target = refuse_remote(target, "--json writes to a local disk")
    for store in stores:
        if is_inside(target, store):
            raise UsageError(f"--json {target}: lies inside the store {shown(store)}, which is never written")
    refuse_inside("--json", target)
    if os.path.isdir(target) or not os.path.isdir(os.path.dirname(target) or "."):
        raise UsageError(f"--json {target}: is no file in a directory that is there")
    if not (os.path.basename(target) and is_replaceable(target)):
        with _written(target, target) as file:
            yield file
        return
    place = followed(target)
    for note in () if quiet else left_beside(place):
        complain(note)
    with whole_file(place) as partial, _written(target, partial) as file:
        yield file


def _is_output(target: str) -> bool:
    """Tell whether a path leads to what standard output is."""
    try:
        return os.path.samestat(os.stat(target), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is none, or standard output is no file
        return False


@contextlib.contextmanager
def _written(target: str, place: str | Path) -> Iterator[IO[str]]:
    """Give what is written for ``--json`` at a place, closed in the end; its name is the one that was given."""
    try:
        # What the block raises is not about this file.
        file = open(target, "w", encoding="ascii", opener=lambda _, flags: os.open(place, flags, 0o666))  # noqa: SIM115
    except OSError as error:
        raise lost_json(target, error) from error
    try:
        yield file
    finally:
        try:
            file.close()
        except OSError as error:
            raise lost_json(target, error) from error


def html_target(target: str | None, stores: Sequence[str]) -> Path | None:
    """Return where a page is written, None for nowhere: a local file that is in no store.

    Raises:
        UsageError: It is in one, or cannot be made there.
    """
    if target is None:
        return None
    return file_target("--html", target, stores)


def lost_output(error: OSError) -> WriteError:
    """Return what to say of standard output that could not be written; nothing more goes there."""
    drop_output(sys.stdout)
    return WriteError(f"standard output: could not be written: {error.strerror or error}")


def lost_json(target: str, error: OSError) -> WriteError:
    """Return what to say of a file of ``--json`` that could not be written."""
    return WriteError(f"--json {target}: could not be written: {error.strerror or error}")
