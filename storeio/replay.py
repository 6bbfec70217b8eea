"""Salvaged messages one by one, for a producer that sends them again: rows, JSON lines and Parquet.

Rows are read from the finished new store, whose every byte was audited. What a salvage wrote itself, tombstones and
fillers, is no message and left out.
"""

from __future__ import annotations

import base64
import json
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storeio.errors import UsageError
from storeio.format import commitlog as log
from storeio.format import properties as props
from storeio.inspect.bodies import decoded
from storeio.inspect.logwalk import walk_segment
from storeio.inspect.reader import Reader
from storeio.inspect.recordviews import row_view
from storeio.inspect.views import MOST_BYTES, RecordView
from storeio.kernels import tables as w
from storeio.output.staging import explained
from storeio.output.whole_file import whole_file
from storeio.salvage.fillers import TOMBSTONE, is_filler
from storeio.salvaged import LostMessages, Moved, Salvaged

JSON_LINES: Final = (".jsonl", ".ndjson")
PARQUET: Final = (".parquet",)
AT_ONCE: Final = 8 << 20  # bytes of bodies in one group of rows
REAL_QUEUE: Final = "REAL_QID"
IN_PLACE, RESTORED, MOVED = "in place", "restored", "moved"
CRC_BODY, CRC_ALL, CRC_NONE = "body", "body and properties", "none"
STATES: Final = {0: "none", log.SYS_PREPARED: "prepared", log.SYS_COMMIT: "commit", log.SYS_ROLLBACK: "rollback"}

# Name, type (as in the tables of the jobs) and meaning of each column.
COLUMNS: Final = (
    ("store", "string", "the damaged store"),
    ("physical_offset", "long", "where the record lies in the log"),
    ("size", "int", "its bytes"),
    ("topic", "string", "topic, as the log has it"),
    ("queue_id", "int", "queue id"),
    ("queue_offset", "long", "queue offset"),
    ("real_topic", "string", "topic that a delayed or prepared message is for, else its topic"),
    ("real_queue_id", "int", "queue id that it is for"),
    ("tags", "string", "tags; null without"),
    ("keys", "string", "keys, blanks between them; null without"),
    ("unique_key", "string", "the client's message id; null without"),
    ("transaction", "string", "none, prepared, commit or rollback"),
    ("flag", "int", "the application's flag"),
    ("sys_flag", "int", "the system flag, as stored"),
    ("reconsume_times", "int", "how often it was consumed in vain"),
    ("born_timestamp_ms", "long", "when the producer made it, Unix ms"),
    ("born_host", "string", "the producer's address"),
    ("store_timestamp_ms", "long", "when the broker stored it, Unix ms"),
    ("store_host", "string", "the broker's address"),
    ("prepared_transaction_offset", "long", "physical offset of its prepared message, 0 without"),
    ("properties", "string", "all properties: JSON object"),
    ("body", "binary", "what a consumer gets: decompressed where it was compressed"),
    ("body_note", "string", "what a reader of the body must know, e.g. that it could not be decompressed; else empty"),
    ("crc", "string", "what CRCs vouch for: body and properties, body, or none where there is no body"),
    ("found", "string", "in place, restored (damaged fields given their bytes back) or moved (it lay elsewhere)"),
    ("restored_field", "string", "the field, or fields; null where nothing was restored"),
    ("source", "string", "file in which it was found: of the store, or of a donor"),
    ("source_position", "long", "where in that file"),
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where records of a new log come from, by physical offset: fields that were restored, pieces that were moved."""

    store: str
    fields: Mapping[int, str]
    pieces: Sequence[Moved]
    lost: Mapping[tuple[str | None, int | None], Sequence[LostMessages]]

    @classmethod
    def of(cls, result: Salvaged) -> Provenance:
        """Return that of a finished salvage."""
        fields: dict[int, str] = {}
        for one in result.restored:
            before = fields.get(one.physical_offset)
            fields[one.physical_offset] = one.field if before is None else f"{before}, {one.field}"
        lost: dict[tuple[str | None, int | None], list[LostMessages]] = {}
        for part in result.lost:
            lost.setdefault((part.topic, part.queue_id), []).append(part)
        return cls(result.store, fields, sorted(result.moved, key=lambda piece: piece.physical_offset), lost)

    def is_lost(self, view: RecordView) -> bool:
        """Tell whether a record is a tombstone: it has the number of a lost message, or the mark of an older one.

        Prepared and rolled back messages have no number, whatever their queue offset says.
        """
        if (view.sys_flag or 0) & log.SYS_TRANSACTION in (log.SYS_PREPARED, log.SYS_ROLLBACK):
            return False
        number = view.base_queue_offset or 0
        parts = self.lost.get((view.topic, view.queue_id), ())
        here = any(part.first_queue_offset <= number < part.stop_queue_offset for part in parts)
        return here or TOMBSTONE in (view.properties or {})

    def of_record(self, at: int, path: str, position: int) -> dict[str, object]:
        """Return the columns for a record at a physical offset, which is a position of a file in the new log."""
        found, source = IN_PLACE, path
        i = bisect_right(self.pieces, at, key=lambda piece: piece.physical_offset)
        for piece in reversed(self.pieces[:i]):
            if at < piece.physical_offset + piece.length:
                found, source, position = MOVED, piece.source, piece.position + at - piece.physical_offset
                break
        field = self.fields.get(at)
        found = found if field is None else RESTORED
        return {"found": found, "restored_field": field, "source": source, "source_position": position}


def messages(origin: Provenance, root: str | os.PathLike[str], *, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the messages of a salvage, whose new store is at ``root``, as rows of ``COLUMNS``, in physical order.

    ``only`` names the segment whose messages are wanted.

    Raises:
        UnreadableError: The new store cannot be read.
    """
    reader = Reader(root)
    for segment in reader.segments():
        if only not in (None, segment.path):
            continue
        for stretch in walk_segment(reader, segment):
            marks = stretch.walked.records[w.R_MARKS].tolist()
            for row, mark in enumerate(marks):
                view = row_view(stretch, row)
                start = (view.body_position or 0) - stretch.walked.origin
                raw = stretch.walked.window[start : start + (view.body_length or 0)].tobytes()
                if origin.is_lost(view) or is_filler((view.topic or "").encode(), view.sys_flag or 0, raw):
                    continue
                whence = origin.of_record(view.physical_offset, segment.path, view.position)
                yield _row(origin.store, view, raw, mark) | whence


def _row(store: str, view: RecordView, raw: bytes, mark: int) -> dict[str, Any]:
    pairs = view.properties or {}
    flags = view.sys_flag or 0
    body = decoded(raw, flags, MOST_BYTES)
    number = pairs.get(REAL_QUEUE, "")
    vouched = mark & w.MARK_HAS_PROPERTY_CRC and not mark & w.MARK_PROPERTY_CRC
    return {
        "store": store,
        "physical_offset": view.physical_offset,
        "size": view.size,
        "topic": view.topic,
        "queue_id": view.queue_id,
        "queue_offset": view.queue_offset,
        "real_topic": pairs.get(props.REAL_TOPIC, view.topic),
        "real_queue_id": int(number) if number.isdecimal() and len(number) < 10 else view.queue_id,
        "tags": pairs.get(props.TAGS),
        "keys": pairs.get(props.KEYS),
        "unique_key": pairs.get(props.UNIQUE_KEY),
        "transaction": STATES[flags & log.SYS_TRANSACTION],
        "flag": view.flag,
        "sys_flag": flags,
        "reconsume_times": view.reconsume_times,
        "born_timestamp_ms": view.born_timestamp_ms,
        "born_host": view.born_host,
        "store_timestamp_ms": view.store_timestamp_ms,
        "store_host": view.store_host,
        "prepared_transaction_offset": view.prepared_transaction_offset,
        "properties": json.dumps(pairs),
        "body": body.data,
        "body_note": body.note,
        "crc": CRC_ALL if vouched else CRC_BODY if view.body_length else CRC_NONE,
    }


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON: properties as an object, the body in base64."""
    body = base64.b64encode(row["body"]).decode("ascii")
    return json.dumps({**row, "properties": json.loads(row["properties"]), "body": body})


# ---- Files


def checked_file(place: str) -> Callable[[Salvaged, str, Path], int]:
    """Return what writes messages into a file of this name; it returns how many.

    Raises:
        UsageError: The name tells no form that can be written here.
    """
    suffix = Path(place).suffix
    if suffix in JSON_LINES:
        return write_json_lines
    if suffix not in PARQUET:
        raise UsageError(f"--messages {place}: the name has to end in {', '.join((*JSON_LINES, *PARQUET))}")
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UsageError(f"--messages {place}: needs pyarrow: pip install 'storeio[remote]'") from error
    return write_parquet


def write_json_lines(result: Salvaged, root: str, place: Path) -> int:
    """Write the messages of a salvage, whose new store is at ``root``, as JSON lines; return how many.

    Raises:
        WriteError: They could not be written; nothing is left then.
    """
    count = 0
    with whole_file(place) as partial, explained(str(place)), partial.open("w", encoding="ascii") as file:
        for row in messages(Provenance.of(result), root):
            file.write(json_line(row) + "\n")
            count += 1
    return count


def write_parquet(result: Salvaged, root: str, place: Path) -> int:
    """Write the messages of a salvage, whose new store is at ``root``, as Parquet; return how many.

    Raises:
        WriteError: They could not be written; nothing is left then.
    """
    import pyarrow.parquet as pq

    count = 0
    with (
        whole_file(place) as partial,
        explained(str(place)),
        partial.open("wb") as file,  # to Arrow, a name has to be UTF-8
        pq.ParquetWriter(file, arrow_schema()) as writer,
    ):
        for batch in batches(messages(Provenance.of(result), root)):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def arrow_schema() -> Any:
    """Return the Arrow schema of ``COLUMNS``."""
    import pyarrow as pa

    types = {"string": pa.string(), "long": pa.int64(), "int": pa.int32(), "binary": pa.binary()}
    return pa.schema([pa.field(name, types[kind], metadata={"comment": text}) for name, kind, text in COLUMNS])


def batches(rows: Iterator[dict[str, Any]]) -> Iterator[Any]:
    """Yield rows as Arrow record batches of a few megabytes."""
    import pyarrow as pa

    schema = arrow_schema()
    held: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row["body"]) + 512
        if size >= AT_ONCE:
            yield pa.RecordBatch.from_pylist(held, schema=schema)
            held, size = [], 0
    if held:
        yield pa.RecordBatch.from_pylist(held, schema=schema)
