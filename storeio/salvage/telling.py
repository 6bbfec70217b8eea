"""What a salvage decided, as the plain data that is told."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from storeio import __version__, crc
from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.kernels import tables as w
from storeio.salvage import holes
from storeio.salvage.decide import Decision
from storeio.salvage.missing import Missing
from storeio.salvage.survey import Survey
from storeio.salvage.traces import MOST_KEYS, Trace, traces
from storeio.salvage.unnamed import unnamed
from storeio.salvaged import LostMessages, Moved, RestoredRecord, Salvaged


def report(known: Survey, decision: Decision, moved: list[Moved], started_ms: int, into: str) -> Salvaged:
    """Return what a decision comes to, of a log into which pieces were moved; without what is built of the new log."""
    kinds = [patch.kind for patch in decision.patches]
    unplaced = set(decision.unplaced)
    return Salvaged(
        known.audit.store, __version__, into, crc.ENGINE, started_ms,
        (time.time_ns() // 1_000_000 - started_ms) / 1000, tuple(known.audit.settings), decision.first, decision.stop,
        known.audit.log.records,
        tombstones=kinds.count(holes.TOMBSTONE),
        fillers=kinds.count(holes.FILLER),
        restored=sorted(
            [*_restored(decision), *_first_bytes(known, moved)], key=lambda record: record.physical_offset
        ),
        dropped=list(decision.dropped),
        lost=list(_lost(decision.missing, unplaced, traces(known, decision.missing))),
        moved=moved,
        unnamed=unnamed(known, decision),
        problems=[*decision.tight],
    )  # fmt: skip


def _restored(decision: Decision) -> Iterator[RestoredRecord]:
    for fixed in decision.fixed:
        record = fixed.restored.record
        for change in fixed.restored.changes:
            yield RestoredRecord(
                fixed.start, len(fixed.restored.raw), p.java_decode(record.topic), record.queue_id,
                record.queue_offset, change.field, change.old.hex(), change.new.hex(), fixed.restored.evidence,
            )  # fmt: skip


def _first_bytes(known: Survey, moved: Iterable[Moved]) -> Iterator[RestoredRecord]:
    """Yield the first records of segments whose files had lost a byte or two, the zeros that their sizes begin with."""
    sound = {s.base for s in known.concluded.view.segments if (s.spans[w.SPAN_CLASS, :1] == w.RECORD).any()}
    for piece in moved:
        gone = piece.physical_offset % known.segment_bytes
        base = piece.physical_offset - gone
        record = known.record(base) if 0 < gone < log.MAGIC_AT and not piece.position and base in sound else None
        if record is not None:
            size = record.size.to_bytes(log.MAGIC_AT, "big")
            yield RestoredRecord(
                base, record.size, p.java_decode(record.topic), record.queue_id, record.queue_offset, "size",
                size[gone:].hex(), size.hex(), ("size formula", "body CRC") if record.body else ("size formula",),
            )  # fmt: skip


def _lost(missing: Sequence[Missing], unplaced: set[Missing], known: Mapping[Missing, Trace]) -> Iterator[LostMessages]:
    """Yield what is lost, neighbours of which the same is known as one."""
    last: LostMessages | None = None
    for row in missing:
        unit = row.unit
        low, high = (unit.physical_offset, unit.physical_offset + unit.size) if unit else (row.low, row.high)
        evidence = "its queue unit" if unit else "queue offsets of its neighbours"
        one = LostMessages(
            row.topic, row.queue_id, row.first, row.stop, low, high, unit.size if unit else None, evidence,
            row not in unplaced, known[row].key_hashes, known[row].first_ms, known[row].last_ms,
        )  # fmt: skip
        if last is None:
            last = one
        elif _follows(last, one):
            total = None if last.bytes is None or one.bytes is None else last.bytes + one.bytes
            last = LostMessages(
                last.topic, last.queue_id, last.first_queue_offset, one.stop_queue_offset,
                min(last.physical_start, low), max(last.physical_stop, high), total, evidence, one.tombstone,
                (*last.key_hashes, *one.key_hashes)[:MOST_KEYS], last.first_store_timestamp_ms,
                one.last_store_timestamp_ms,
            )  # fmt: skip
        else:
            yield last
            last = one
    if last is not None:
        yield last


def _follows(last: LostMessages, one: LostMessages) -> bool:
    queues = (last.topic, last.queue_id) == (one.topic, one.queue_id)
    same = (last.evidence, last.tombstone) == (one.evidence, one.tombstone)
    return queues and same and last.stop_queue_offset == one.first_queue_offset
