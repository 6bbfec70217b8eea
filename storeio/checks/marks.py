"""Records that a broker accepts although something in them is odd: their marks and their times."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.checks.glance import Glance
from storeio.dispatch import OddNumber
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.format import properties
from storeio.kernels import tables as w
from storeio.paths import is_legal_topic
from storeio.walk import Walked

Numbers = npt.NDArray[np.int64]

MOST_SHOWN: Final = 40  # characters of a text from a record
TWO_NUMBERS: Final = "where the properties of the inner batch say"
OTHER_COUNT: Final = "where the body of the inner batch holds"
OTHER_LEVEL: Final = "where a delayed message has level"

# mark, code, position of the field in the record (0: the whole record), its length, what is wrong
_FIELDS: Final = (
    (w.MARK_PHYSICAL, "LOG_PHYSICAL_OFFSET", log.PHYSICAL_OFFSET_AT, 8, "physical offset"),
    (w.MARK_QUEUE_ID, "LOG_FIELD", log.QUEUE_ID_AT, 4, "negative queue id"),
    (w.MARK_QUEUE_OFFSET, "LOG_FIELD", log.QUEUE_OFFSET_AT, 8, "negative queue offset"),
    (w.MARK_SYS_FLAG, "LOG_FIELD", log.SYS_FLAG_AT, 4, "bits in the sys flag that no broker sets in such a record"),
    (w.MARK_HOST, "LOG_FIELD", log.BORN_HOST_AT, 40, "a host's port is outside 0..65535"),
    (w.MARK_LENGTH, "LOG_FIELD", 0, 0, "a negative length, which counts as 0"),
    (w.MARK_CRC_OF_NOTHING, "LOG_FIELD", log.BODY_CRC_AT, 4, "a body CRC without a body"),
    (w.MARK_RECONSUME, "LOG_FIELD", 0, 0, "negative reconsume times"),
    (w.MARK_PREPARED, "LOG_FIELD", 0, 0, "the prepared transaction offset is negative or not before the record"),
    (w.MARK_TIME, "LOG_TIME", 0, 0, "store time is zero or negative"),
    (w.MARK_BORN, "LOG_FIELD", log.BORN_TIMESTAMP_AT, 8, "born time is zero, negative or years from the store time"),
    (w.MARK_MANY_RETRIES, "LOG_UNUSUAL", 0, 0, "more reconsume times than any group retries"),
    (w.MARK_BORN_APART, "LOG_UNUSUAL", log.BORN_TIMESTAMP_AT, 8, "born after it was stored, or days before"),
    (w.MARK_PROPERTY_CRC, "LOG_PROPERTY_CRC", 0, 0, "the property CRC over the whole record differs"),
)


@dataclass(frozen=True, slots=True)
class TimedRecord:
    """A record at the edge of a split, for comparison with its neighbours in the next one.

    ``inside`` ones have both their neighbours in the split; ``finding`` is what there is to say if its time leaps.
    """

    store_ms: int
    born_ms: int
    inside: bool
    finding: Finding


def mark_findings(walked: Walked, seen: Glance) -> list[Finding]:
    """Return a finding for each odd thing of each record."""
    if not seen.marks & w.MARKS_ODD:
        return []
    findings = []
    marks = walked.records[w.R_MARKS]
    odd = np.flatnonzero(marks & w.MARKS_ODD)
    for row in odd.tolist():
        for mark, code, at, length, what in _FIELDS:
            if int(marks[row]) & mark:
                findings.append(_at_record(walked, row, code, at, length, what))
        if int(marks[row]) & (w.MARK_INNER_BASE | w.MARK_INNER_NUM):
            findings += _batch(walked, row)
        if int(marks[row]) & w.MARK_LEVEL:
            findings.append(_level(walked, row))
        if int(marks[row]) & (w.MARK_ODD_PROPERTY | w.MARK_TEXT):
            findings += _properties(walked, row)
    return findings


def _batch(walked: Walked, row: int) -> list[Finding]:
    """Return findings for an inner batch whose properties say other numbers than its head, or than its body holds."""
    column = walked.records[:, row]
    marks, position, size = (int(column[place]) for place in (w.R_MARKS, w.R_POSITION, w.R_SIZE))
    findings = []
    if marks & w.MARK_INNER_BASE:
        what = f"{int(column[w.R_QUEUE_OFFSET])}, {TWO_NUMBERS} {int(column[w.R_BATCH_BASE])}"
        findings.append(_at_record(walked, row, "LOG_FIELD", log.QUEUE_OFFSET_AT, 8, what))
    if marks & w.MARK_INNER_NUM:
        record = log.decode_record(walked.field(position, size))
        start, stop = properties.value_place(record.properties, properties.INNER_NUM)
        at, held = size - len(record.properties) + start, log.messages_in(record.body)
        what = f"{properties.INNER_NUM} {int(column[w.R_BATCH_SIZE])}, {OTHER_COUNT} {held} messages"
        findings.append(_at_record(walked, row, "LOG_FIELD", at, stop - start, what))
    return findings


def _level(walked: Walked, row: int) -> Finding:
    """Return the finding for a delayed message that has not the level of its queue."""
    column = walked.records[:, row]
    at = int(column[w.R_PROPERTIES_AT])
    raw = walked.field(at, int(column[w.R_PROPERTIES_BYTES]))
    start, stop = properties.value_place(raw, properties.DELAY)
    queue_id = walked.queues[int(column[w.R_QUEUE])][1]
    what = f"{OTHER_LEVEL} {queue_id + 1}, that of its queue"
    if stop > start:
        text = properties.java_decode(raw[start:stop])
        return _at_record(
            walked, row, "LOG_FIELD", at - int(column[w.R_POSITION]) + start, stop - start,
            f"{properties.DELAY} {text[:MOST_SHOWN]}, {what}",
        )  # fmt: skip
    return _at_record(walked, row, "LOG_FIELD", 0, 0, f"no {properties.DELAY}, {what}")


def topic_findings(walked: Walked) -> list[Finding]:
    """Return a finding for the first record of each topic that is no legal name."""
    findings = []
    for number, (topic, _) in enumerate(walked.queues):
        name = properties.java_decode(topic)
        if is_legal_topic(name) or name.startswith(log.LMQ_PREFIX):
            continue
        row = int(np.flatnonzero(walked.records[w.R_QUEUE] == number)[0])
        findings.append(_at_record(walked, row, "LOG_TOPIC", 0, 0, f"topic {name!r}"))
    return findings


def list_findings(walked: Walked, odd: Iterable[OddNumber], silent: Container[str]) -> list[Finding]:
    """Return a finding for each number in lists of light queues that is none; none of topics that are ``silent``.

    Source: ``MultiDispatch``, ``Long.parseLong``; records in batch queues go into no others.
    """
    findings = []
    for row, name, text in odd:
        record = walked.records[:, row]
        raw = walked.field(int(record[w.R_PROPERTIES_AT]), int(record[w.R_PROPERTIES_BYTES]))
        start, stop = properties.value_place(raw, properties.MULTI_QUEUE_OFFSET)
        at = int(record[w.R_PROPERTIES_AT]) - int(record[w.R_POSITION]) + start
        what = f"{text[:MOST_SHOWN]!r} is to be the queue offset in {name[:MOST_SHOWN]!r}"
        finding = _at_record(walked, row, "LOG_MULTI_DISPATCH", at, stop - start, what)
        if finding.topic not in silent:
            findings.append(finding)
    return findings


def _at_record(walked: Walked, row: int, code: str, at: int, length: int, what: str) -> Finding:
    record = walked.records[:, row]
    position = int(record[w.R_POSITION])
    topic, queue_id = walked.queues[int(record[w.R_QUEUE])]
    return Finding(
        code, walked.split.path, position + at, length or int(record[w.R_SIZE]), properties.java_decode(topic),
        queue_id, int(record[w.R_QUEUE_OFFSET]), walked.split.base_offset + position, 1, what,
    )  # fmt: skip


def _properties(walked: Walked, row: int) -> list[Finding]:
    """Return a finding for properties that hold what no producer writes."""
    record = walked.records[:, row]
    raw = walked.field(int(record[w.R_PROPERTIES_AT]), int(record[w.R_PROPERTIES_BYTES]))
    at = int(record[w.R_PROPERTIES_AT]) - int(record[w.R_POSITION])
    odd = odd_properties(raw, int(record[w.R_MARKS]))
    return [_at_record(walked, row, "LOG_PROPERTIES", at, len(raw), what) for what in odd]


def odd_properties(raw: bytes, marks: int) -> list[str]:
    """Return in words what no producer writes of a record's properties; its marks tell where that may be."""
    found = []
    if marks & w.MARK_ODD_PROPERTY and (odd := properties.odd_piece(raw)):
        found.append(f"{odd[:40]!r} is dropped by every reader")
    if marks & w.MARK_TEXT:
        found.append("malformed UTF-8 or control characters")
    return found


def edge_records(walked: Walked) -> list[TimedRecord]:
    """Return the first two and the last two records of a split."""
    rows = sorted({*range(min(2, walked.count)), *range(max(walked.count - 2, 0), walked.count)})
    return [
        TimedRecord(
            int(walked.records[w.R_STORE_MS, row]),
            int(walked.records[w.R_BORN_MS, row]),
            0 < row < walked.count - 1,
            _at_record(walked, row, "LOG_TIME", 0, 0, ""),
        )
        for row in rows
    ]


def outliers(times: Numbers, born: Numbers) -> npt.NDArray[np.intp]:
    """Return which store times leap out of their neighbours and back: inner ones only.

    A clock that was set does not come back with the next record; a damaged field does. Nor do those leap that are later
    than the next one and whose record was born so late, too: where a log was cut and went on, older records may follow.

    Args:
        times: Store times of records in log order, ms, shape ``(n,)``.
        born: When the same records were born, ms.
    """
    if len(times) < 3:
        return np.empty(0, np.intp)
    before, here, after = times[:-2], times[1:-1], times[2:]
    spike = (here > after) & (before <= after) & ~_is_born_late(born[1:-1], here, after)
    dip = (here < before) & (after >= before)
    return np.flatnonzero(spike | dip) + 1


def _is_born_late(born: Numbers, here: Numbers, after: Numbers) -> npt.NDArray[np.bool_]:
    """Tell which records were born nearer to when they say that they were stored than to when the next ones were.

    Clients' clocks differ from brokers' a little. Halves, since damaged times may be any numbers.
    """
    return born > here // 2 + after // 2


def time_findings(walked: Walked, seen: Glance) -> list[Finding]:
    """Return a finding for each record inside the split whose store time leaps out of its neighbours."""
    if not seen.leaps:
        return []
    times = walked.records[w.R_STORE_MS]
    return [
        _at_record(walked, int(row), "LOG_TIME", 0, 0, _leap(int(times[row]), int(times[row - 1])))
        for row in outliers(times, walked.records[w.R_BORN_MS])
    ]


def _leap(here_ms: int, before_ms: int) -> str:
    return f"store time {here_ms}, before it {before_ms}"


def edge_findings(edges: list[TimedRecord], now_ms: int) -> list[Finding]:
    """Return findings for records at the edges of splits, and for the very first and last of the log."""
    times = np.array([edge.store_ms for edge in edges], np.int64)
    born = np.array([edge.born_ms for edge in edges], np.int64)
    rows = {row for row in outliers(times, born).tolist() if not edges[row].inside}
    if len(edges) > 1:
        if times[0] > times[1] and not _is_born_late(born[:1], times[:1], times[1:2])[0]:
            rows.add(0)
        newer, late = _is_born_late(born[-2:], times[-2:-1], times[-1:]).tolist()  # an old one behind it is not late
        if (times[-1] < times[-2] and (late or not newer)) or times[-1] > now_ms + 86_400_000:
            rows.add(len(edges) - 1)
    return [
        replace(
            edges[row].finding,
            detail=_leap(int(times[row]), int(times[row - 1])) if row else f"store time {times[row]}",
        )
        for row in sorted(rows)
    ]
