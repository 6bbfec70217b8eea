"""One damaged record: what was damaged of it, where all that is known leaves one answer.

Each hypothesis changes one field of the head, of the lengths, or the topic, or two of the head that the record's unit
tells, or the place of one that its unit vouches for and another field. It must then agree with everything: the size
formula with where the record ends, the body with its CRC, the record with its place, its queue unit and its property
CRC. Two hypotheses that both agree are none. A body is never changed.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from storeio.format import commitlog as log
from storeio.salvage.evidence import Change, Known, Restored, agrees
from storeio.salvage.hypotheses import adds_up, hypotheses
from storeio.salvage.tries import Try


def restored(data: bytes, known: Known) -> Restored | None:
    """Return the record that begins at the first byte, None unless exactly one change explains everything.

    Where its own unit vouches for it, besides that of its place.

    Args:
        data: From the record's first byte on, as far as it may reach.
        known: What is known of it.
    """
    found = _changed(data, known)
    at, place = log.PHYSICAL_OFFSET_AT, struct.pack(">q", known.physical_offset)
    old = data[at : at + len(place)]
    if found is not None or not known.is_vouched or old == place:
        return found
    found = _changed(data[:at] + place + data[at + len(place) :], known)
    change = Change("physical_offset", at, old, place)
    return replace(found, changes=(change, *found.changes)) if found is not None else None


def _changed(data: bytes, known: Known) -> Restored | None:
    found: dict[bytes, Restored] = {}
    for attempt in hypotheses(data, known):
        old = data[attempt.position : attempt.position + len(attempt.new)]
        if old == attempt.new or attempt.size > len(data):
            continue
        raw = data[: attempt.position] + attempt.new + data[attempt.position + len(old) : attempt.size]
        agreed = agrees(raw, known) if adds_up(raw, len(raw)) else None
        if agreed is None:
            continue
        record, evidence = agreed
        found.setdefault(
            raw, Restored(raw, record, _changes(attempt, data, raw), tuple(dict.fromkeys((attempt.says, *evidence))))
        )
        if len(found) > 1:
            return None
    return next(iter(found.values()), None)


def _changes(attempt: Try, old: bytes, new: bytes) -> tuple[Change, ...]:
    """Return the fields that a hypothesis changes, with their bytes before and after."""
    fields = attempt.fields or ((attempt.field, attempt.position, len(attempt.new)),)
    return tuple(Change(name, at, old[at : at + count], new[at : at + count]) for name, at, count in fields)
