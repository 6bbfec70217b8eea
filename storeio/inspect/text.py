"""Views as lines for a person; every text from the store is made safe to print."""

from __future__ import annotations

from collections.abc import Iterator

from storeio.inspect.bodies import Body, as_text, ascii_columns, hex_columns, hex_lines
from storeio.inspect.hexvalues import flag_text, value_text
from storeio.inspect.hexview import HexView
from storeio.inspect.views import EntryView, FileView, RecordView, UnitView
from storeio.safe import path_text, printable, shortened, time_text

NAME_WIDTH = 28
MOST_CHARS = 120


def file_line(view: FileView) -> str:
    """Return one line about a file."""
    base = "" if view.base_offset is None else str(view.base_offset)
    return f"{view.kind:<18} {view.size:>12} {base:>20}  {path_text(view.path)}  {view.summary}".rstrip()


def place_text(view: RecordView) -> str:
    """Return topic, queue id and queue offset of a record, question marks for what could not be read."""
    topic = "?" if view.topic is None else shortened(printable(view.topic), 60)
    queue_id = "?" if view.queue_id is None else view.queue_id
    offset = "?" if view.queue_offset is None else view.queue_offset
    batch = f"+{view.batch_size}" if (view.batch_size or 1) != 1 else ""
    return f"{topic}/{queue_id}@{offset}{batch}"


def keys_text(view: RecordView) -> str:
    """Return tag and keys of a record."""
    pairs = view.properties or {}
    found = [f"{label}={pairs[name]}" for label, name in _SHOWN_KEYS if name in pairs]
    return shortened(printable(" ".join(found)), MOST_CHARS)


_SHOWN_KEYS = (("tag", "TAGS"), ("keys", "KEYS"), ("id", "UNIQ_KEY"))


def fault_text(view: RecordView) -> str:
    """Return what is wrong with a record, empty if nothing is."""
    faults = [f"NOT VALID: {view.why}"] if not view.valid else []
    faults += [f"odd: {', '.join(view.odd)}"] if view.odd else []
    return printable("  ".join(faults))


def record_line(view: RecordView, *, asked: bool = False) -> str:
    """Return one line about a record."""
    size = view.size if view.valid else view.extent
    texts = (place_text(view), time_text(view.store_timestamp_ms), keys_text(view), fault_text(view))
    return f"{'>' if asked else ' '} {view.physical_offset:>14} {size:>9}  " + "  ".join(t for t in texts if t)


def record_block(view: RecordView) -> Iterator[str]:
    """Yield all fields of a record, one a line."""
    yield f"record at physical offset {view.physical_offset} ({path_text(view.path)}, position {view.position})"
    if fault := fault_text(view):
        yield f"  {fault}"
    for name in _BLOCK:
        value = getattr(view, name)
        if value is None:
            continue
        yield f"  {name:<{NAME_WIDTH}} {value_text(name, value) if name != 'sys_flag' else _flag(value)}"
    for name, value in (view.properties or {}).items():
        yield f"  {'property ' + printable(name):<{NAME_WIDTH}} {printable(value)}"


_BLOCK = (
    "size", "magic", "topic", "queue_id", "queue_offset", "batch_size", "tags_code", "sys_flag", "flag",
    "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "reconsume_times",
    "prepared_transaction_offset", "body_crc", "body_length",
)  # fmt: skip


def _flag(value: int) -> str:
    return f"0x{value & 0xFFFFFFFF:x} ({flag_text(value)})"


def body_lines(body: Body, form: str) -> Iterator[str]:
    """Yield a body as text or hex, each line marked as part of it."""
    text = as_text(body.data, cut=body.truncated) if form == "text" else None
    kind = f", {body.compression}" if body.compression else ""
    note = f" ({printable(body.note)})" if body.note else ""
    yield f"  body: {len(body.data)} bytes{kind}{', not UTF-8' if form == 'text' and text is None else ''}{note}"
    if text is None:
        yield from (f"  | {line}" for line in hex_lines(body.data))
    elif text:
        yield from (f"  | {line}" for line in text.split("\n"))


def unit_line(view: UnitView) -> str:
    """Return one line about a queue unit, or about a run of empty ones."""
    offset = "" if view.queue_offset is None else f"@{view.queue_offset}"
    place = f"{shortened(printable(view.topic), 60)}/{view.queue_id}{offset}"
    where = f"{path_text(view.path)}:{view.position}"
    if view.physical_offset is None:
        many = f"{view.count} units" if view.count != 1 else "1 unit"
        what = f"{many} {view.state}" if view.state != "ragged" else "bytes that are less than a unit"
        return f"{place:<30} {where}  {what}"
    texts = [view.state, f"-> {view.physical_offset} +{view.size}", f"tags code {view.tags_code}"]
    if view.batch_size is not None:
        texts.append(f"{view.batch_size} messages, {time_text(view.store_timestamp_ms)}")
    if view.ext is not None:
        texts.append(f"ext {view.ext.position}: tags code {view.ext.tags_code}, bitmap {view.ext.bitmap}")
    if view.record is not None:
        texts.append(f"{place_text(view.record)} {keys_text(view.record)}".strip())
    if view.why:
        texts.append(f"BUT {printable(view.why)}")
    return f"{place:<30} {where}  " + "  ".join(texts)


def entry_line(view: EntryView) -> str:
    """Return one line about an index entry."""
    texts = [
        f"{path_text(view.path)} #{view.number}",
        f"hash {view.key_hash} slot {view.slot} previous {view.previous}",
        f"-> {view.physical_offset}",
        time_text(view.store_timestamp_ms),
    ]
    if view.record is not None:
        texts.append(f"{place_text(view.record)} {keys_text(view.record)}".strip())
    if view.why:
        texts.append(f"BUT {view.why}")
    return "  ".join(texts)


def hex_view_lines(view: HexView) -> Iterator[str]:
    """Yield an annotated hex view: position, bytes, ASCII, and on a field's first line its name and value."""
    yield f"{path_text(view.path)}, position {view.position}: {view.title}"
    for field in view.fields:
        rows = [field.raw[at : at + 16] for at in range(0, len(field.raw), 16)] or [b""]
        for k, row in enumerate(rows):
            position = field.position + 16 * k
            mark = ">" if position <= view.position < position + max(len(row), 1) else " "
            meaning = f"{field.name} {field.value}".strip() if k == 0 else ""
            if k == 0 and field.name and field.length > 8 and not field.value:
                meaning = f"{field.name} {field.length} bytes"
            yield f"{mark}{position:>12}  {hex_columns(row)}  {ascii_columns(row):<16}  {meaning}".rstrip()
        if len(field.raw) < field.length:
            yield f" {'':>12}  … {field.length - len(field.raw)} more bytes"
