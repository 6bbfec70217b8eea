"""``storeio inspect``: the command, a thin layer over ``storeio.inspect``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import click

from storeio.commands.console import complain, drop_output, explain, settings_of
from storeio.commands.inspect_options import Asked, InspectCommand, asked_options
from storeio.commands.options import failure_of
from storeio.commands.outputs import json_sink, lost_json, lost_output
from storeio.errors import StoreError, UnreadableError, WriteError
from storeio.inspect.views import RecordView
from storeio.process import undivided
from storeio.report import failure_object, to_json
from storeio.results import EXIT_CANCELLED, EXIT_FAILED, EXIT_SOUND

# Each function imports what it needs of the engine: numba takes half a second.
if TYPE_CHECKING:
    from storeio.inspect.reader import Reader

Line = dict[str, Any]


@dataclass(slots=True)
class Output:
    """Where lines go: text to standard output, JSON lines to a file or, with ``-``, to standard output alone."""

    json_file: IO[str] | None = None
    text_file: IO[str] | None = None
    quiet: bool = False
    failures: int = 0
    said: set[str] = field(default_factory=set)

    def show(self, line: Line, lines: Iterable[str]) -> None:
        """Write one thing in both forms."""
        if self.json_file is not None:
            _write(self.json_file, to_json(line) + "\n")
        self.write_text(lines)

    def write_text(self, lines: Iterable[str]) -> None:
        """Write lines to where text goes, if it goes anywhere."""
        if self.text_file is None:
            return
        try:
            for text_line in lines:
                _write(self.text_file, text_line + "\n")
        except BrokenPipeError:
            if self.json_file is None:
                raise
            drop_output(self.text_file)  # who reads the text has seen enough, the file is wanted all the same
            self.text_file = None

    def note(self, sentence: str) -> None:
        """Say something once on standard error, unless quiet."""
        if not self.quiet and sentence not in self.said:
            self.said.add(sentence)
            complain(sentence)

    def failed(self, error: UnreadableError) -> None:
        """Report what could not be read, once, and remember for the exit code."""
        self.failures += 1
        if str(error) not in self.said:
            self.said.add(str(error))
            complain(str(error))


def _write(stream: IO[str], text: str) -> None:
    """Write a text; that nobody reads standard output any more is for who called.

    Raises:
        BrokenPipeError: So it is.
        WriteError: It cannot be written.
    """
    try:
        stream.write(text)
    except OSError as error:
        if stream is not sys.stdout:
            raise lost_json(stream.name, error) from error
        if isinstance(error, BrokenPipeError):
            raise
        raise lost_output(error) from error


@click.command(name="inspect", cls=InspectCommand)
@asked_options
@click.pass_context
def inspect(context: click.Context, asked: Asked) -> None:
    """Show what STORE holds: its files, or with an option records, units, index entries, bytes.

    Physical offsets and positions may be decimal or 0x hexadecimal. Times are ISO 8601, UTC
    unless they say otherwise, or milliseconds. Nothing is written into the store.
    """
    try:
        code = run(asked)
    except StoreError as error:
        code = explain(error, asked.store)
    context.exit(code)


def run(asked: Asked) -> int:
    """Print what is asked for and return the exit code."""
    with undivided():
        from storeio.inspect.reader import Reader
        from storeio.scan import kept_open

    given = settings_of(asked.conf, asked.sets, {"--json": asked.json}, quiet=asked.quiet)
    with ExitStack() as stack:
        stack.enter_context(kept_open())
        output = Output(quiet=asked.quiet)
        sink = stack.enter_context(json_sink(asked.json, [asked.store], quiet=asked.quiet))
        output.json_file = sink.stream
        output.text_file = sys.stdout if asked.json != "-" else None
        try:
            reader = Reader(asked.store, settings=given, note=output.note, failed=output.failed)
            _SHOW[asked.mode](reader, asked, output)
            reader.finish()
        except WriteError:
            raise  # nobody can be told
        except StoreError as error:
            code, told = failure_of(error, asked.store)
            sink.put(to_json(told))
            return code | EXIT_FAILED if output.failures else code
        except KeyboardInterrupt:
            complain(f"{asked.store}: cancelled")
            sink.put(to_json(failure_object(asked.store, "cancelled", EXIT_CANCELLED)))
            return EXIT_CANCELLED
    return (EXIT_FAILED if output.failures else EXIT_SOUND) | sink.code


def _show_files(reader: Reader, asked: Asked, output: Output) -> None:
    from storeio.inspect import api, text

    for view in _limited(api.files(reader), asked.limit):
        output.show(view.as_json(), [text.file_line(view)])


def _show_records(reader: Reader, asked: Asked, output: Output) -> None:
    from storeio.inspect import api

    found = api.records(
        reader,
        at=asked.at,
        around=asked.around,
        message_id=asked.message_id,
        unique_key=asked.unique_key,
        key=asked.key,
        tag=asked.tag,
        topic=asked.topic,
        queue_id=asked.queue,
        queue_offset=asked.queue_offset,
        since_ms=asked.since,
        until_ms=asked.until,
        scan=asked.scan,
        stale=asked.stale,
        limit=asked.limit,
    )
    lines = ((_record_json(reader, view, asked), _record_lines(reader, view, asked)) for view in found)
    _show_all(lines, output, "no such record", asked.limit)


def _show_all(found: Iterable[tuple[Line, Iterable[str]]], output: Output, none: str, limit: int | None) -> None:
    """Write things in both forms, or say that there are none; nothing where none were to be shown."""
    any_shown = limit == 0
    for line, lines in found:
        any_shown = True
        output.show(line, lines)
    if not any_shown:
        output.note(none)


def _record_lines(reader: Reader, view: RecordView, asked: Asked) -> Iterator[str]:
    """Yield a record as one line among neighbours, else in full where one record was asked for."""
    from storeio.inspect import api, text

    is_asked = asked.at is not None and view.physical_offset <= asked.at < view.physical_offset + view.extent
    if asked.wants_block:
        yield from text.record_block(view)
    else:
        yield text.record_line(view, asked=is_asked)
    if asked.body != "none":
        yield from text.body_lines(api.body(reader, view, asked.most), asked.body)


def _record_json(reader: Reader, view: RecordView, asked: Asked) -> Line:
    """Return the JSON line of a record, its body added on request."""
    from storeio.inspect import api

    line = view.as_json()
    if asked.body != "none":
        body = api.body(reader, view, asked.most)
        readable = _exact_text(body.data) if asked.body == "text" else None
        line |= {"body": readable} if readable is not None else {"body_hex": body.data.hex()}
        if body.note:
            line["body_note"] = body.note
    return line


def _exact_text(data: bytes) -> str | None:
    """Return a body as text, every character kept, None if it is no UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _show_units(reader: Reader, asked: Asked, output: Output) -> None:
    from storeio.inspect import api, text

    found = api.units(
        reader, topic=asked.topic, queue_id=asked.queue, queue_offset=asked.queue_offset, limit=asked.limit
    )
    _show_all(((view.as_json(), [text.unit_line(view)]) for view in found), output, "no such unit", asked.limit)


def _show_index(reader: Reader, asked: Asked, output: Output) -> None:
    from storeio.inspect import api, text

    found = api.index_entries(
        reader, key=asked.key, unique_key=asked.unique_key, tag=asked.tag, topic=asked.topic, at=asked.at,
        limit=asked.limit,
    )  # fmt: skip
    _show_all(((view.as_json(), [text.entry_line(view)]) for view in found), output, "no such index entry", asked.limit)


def _show_hex(reader: Reader, asked: Asked, output: Output) -> None:
    from storeio.inspect import api, text

    view = api.hex_view(reader, asked.hex or 0, asked.file, asked.most)
    output.write_text(text.hex_view_lines(view))
    if output.json_file is not None:
        for part in view.fields:
            Output(json_file=output.json_file).show({"path": view.path, "title": view.title} | part.as_json(), ())


def _limited(found: Iterator[Any], limit: int | None) -> Iterator[Any]:
    for number, view in enumerate(found):
        if number == limit:
            return
        yield view


_SHOW: dict[str, Callable[[Reader, Asked, Output], None]] = {
    "files": _show_files,
    "records": _show_records,
    "units": _show_units,
    "index": _show_index,
    "hex": _show_hex,
}
