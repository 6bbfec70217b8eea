"""Entries of a walked split -> ``RecordView``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storeio.checks.marks import odd_properties
from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.format import properties as props
from storeio.inspect.layout import parts_of
from storeio.inspect.logwalk import DAMAGED, ROW, Stretch
from storeio.inspect.reader import Reader
from storeio.inspect.views import RecordView
from storeio.kernels import head as h
from storeio.kernels import tables as w

Numbers = npt.NDArray[np.int64]

WHY: Final = {
    h.WHY_SHORT: "too few bytes up to the segment's end",
    h.WHY_MAGIC: "no magic code",
    h.WHY_SIZE: "size impossible",
    h.WHY_BODY_LENGTH: "body length leads out of the segment",
    h.WHY_TOPIC_LENGTH: "topic length negative or out of the segment",
    h.WHY_PROPERTIES_LENGTH: "properties length leads out of the segment",
    h.WHY_FORMULA: "size is not the sum of the fields",
    h.WHY_BODY_CRC: "body CRC differs",
    h.WHY_PROPERTY: "a property that must be a number is none",
    w.WHY_BLANK_SIZE: "a blank record with another size than the rest of the segment",
    w.WHY_BLANK_DIRTY: "bytes behind a blank record's head",
    w.WHY_BLANK_EARLY: "a blank record in front of newer records",
    w.WHY_MISPLACED: "intact, but it belongs to another place",
    w.WHY_OLDER: "intact, but older than the records in front: left behind a cut",
    w.WHY_SEARCHED: "no record",
}
_ODD: Final = {
    w.MARK_QUEUE_ID: "negative queue id",
    w.MARK_QUEUE_OFFSET: "negative queue offset",
    w.MARK_SYS_FLAG: "sys flag bits that no broker sets",
    w.MARK_HOST: "impossible port",
    w.MARK_LENGTH: "negative length",
    w.MARK_CRC_OF_NOTHING: "body CRC without a body",
    w.MARK_INNER_BASE: "INNER_BASE is another number than its queue offset",
    w.MARK_INNER_NUM: "INNER_NUM is not how many messages its body holds",
    w.MARK_LEVEL: "DELAY is not the level of its queue",
    w.MARK_RECONSUME: "negative reconsume times",
    w.MARK_PREPARED: "negative prepared transaction offset",
    w.MARK_TIME: "impossible store time",
    w.MARK_BORN: "impossible born time",
    w.MARK_PROPERTY_CRC: "property CRC differs",
}
_PARTS: Final = (
    "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "sys_flag", "born_timestamp_ms", "born_host",
    "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset", "body_length", "topic",
)  # fmt: skip


MOST_BYTES: Final = 64 << 20  # of a damaged stretch that are looked at for fields; brokers take 4 MiB a message


def view_of(reader: Reader, stretch: Stretch, start: int, stop: int, kind: int, index: int) -> RecordView:
    """Return the view of one entry, given as a column of ``logwalk.entries``."""
    if kind == ROW:
        return row_view(stretch, index)
    spans = stretch.walked.spans
    why = WHY[int(spans[w.SPAN_WHY, index])]
    return _bad_view(reader, stretch, start, stop, why, damaged=kind == DAMAGED)


def row_view(stretch: Stretch, row: int) -> RecordView:
    """Return the view of an intact record."""
    walked = stretch.walked
    column: list[int] = walked.records[:, row].tolist()
    position, size = column[w.R_POSITION], column[w.R_SIZE]
    start = position - walked.origin
    record = log.decode_record(walked.window.data[start : start + size])
    body_at = log.BORN_HOST_AT + sum(log.host_bytes(record.sys_flag)) + 24
    return RecordView(
        path=stretch.segment.path,
        position=position,
        extent=size,
        physical_offset=stretch.base_offset + position,
        size=record.size,
        magic=record.magic,
        topic=props.java_decode(record.topic),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        sys_flag=record.sys_flag,
        flag=record.flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=str(record.born_host),
        store_timestamp_ms=record.store_timestamp_ms,
        store_host=str(record.store_host),
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        body_crc=record.body_crc,
        body_length=len(record.body),
        properties=props.parse(record.properties),
        tags_code=column[w.R_TAGS_CODE],
        batch_size=column[w.R_BATCH_SIZE],
        base_queue_offset=column[w.R_BATCH_BASE],
        body_position=position + body_at,
        odd=_odd(column[w.R_MARKS], column[w.R_PHYSICAL], record.properties),
    )


def _odd(marks: int, physical: int, properties: bytes) -> tuple[str, ...]:
    """Return in words what a broker accepts although it is wrong."""
    if not marks & w.MARKS_ODD:
        return ()
    found = [f"its physical offset field says {physical}"] if marks & w.MARK_PHYSICAL else []
    found += [text for mark, text in _ODD.items() if marks & mark]
    return (*found, *(f"properties: {what}" for what in odd_properties(properties, marks)))


def _bad_view(reader: Reader, stretch: Stretch, start: int, stop: int, why: str, *, damaged: bool) -> RecordView:
    """Return the view of a damaged or stale record, with the fields that its bytes still give."""
    path = stretch.segment.path
    fields: dict[str, Any] = {}
    try:
        raw = reader.read(path, start, min(stop, start + MOST_BYTES)).data
    except UnreadableError as error:
        reader.failed(error)
        raw = memoryview(b"")
    parts, ends = parts_of(raw)
    found = {part.name: part for part in parts}
    fields = {name: found[name].value for name in _PARTS if name in found}
    if "properties" in found:
        fields["properties"] = props.parse(bytes(raw[found["properties"].at :][: found["properties"].length]))
    if "body" in found:
        fields["body_position"] = start + found["body"].at
        fields["body_length"] = found["body"].length
    odd: tuple[str, ...] = ()
    says = found["physical_offset"].value if "physical_offset" in found else None
    if isinstance(says, int) and says != stretch.base_offset + start:
        odd = (f"its physical offset field says {says}",)
    if damaged and ends:
        why = f"{why} ({ends})"
    physical = stretch.base_offset + start
    return RecordView(path, start, stop - start, physical, **fields, valid=False, why=why, odd=odd)
