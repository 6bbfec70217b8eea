"""Damaged properties of records that brokers accept: index and queue unit tell keys and tags, the neighbours others.

Most properties are the same in one message after another, their names all the more.

Source: ``IndexService.buildIndex`` for keys, ``MessageExtBrokerInner.tagsString2tagsCode``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.format import queueext
from storeio.salvage.evidence import Change, Known, Restored, agrees, is_text, property_crc_agrees
from storeio.salvage.regions import Fixed
from storeio.salvage.survey import Survey
from storeio.salvage.times import index_units

MOST_BYTES: Final = 1 << 12  # of properties each of whose bits is tried
MOST_PLACES: Final = 1 << 7  # each of whose bytes is tried
PRINTABLE: Final = range(0x20, 0x7F)
AROUND: Final = 32  # records on each side whose properties are looked at


class Told(NamedTuple):
    """What others say of a record's properties: hashes of its keys, and its tags code; None where they do not."""

    hashes: frozenset[int] | None
    tags_code: int | None


class Usual(NamedTuple):
    """The properties of records, as they are stored, and their names."""

    pieces: frozenset[bytes]
    names: frozenset[bytes]


class KeyWords:
    """Restores properties of records of one survey; at ``places`` they are damaged beyond doubt.

    Of others they are left alone: where one bit of a tags code is wrong, a tag with another last letter has it.
    """

    def __init__(self, survey: Survey, places: Iterable[int]) -> None:
        self._survey = survey
        self._places = frozenset(places)
        units = index_units(survey, np.array(sorted(self._places), np.int64))
        self._hashes = {place: frozenset(key for key, _, _ in pointing) for place, pointing in units.items()}

    def mended(self, place: int, record: log.Record, raw: bytes) -> Fixed | None:
        """Return a record with one byte of its properties changed, None unless one change alone has its keys and tags.

        A property CRC, which tells of each byte, is left to decide for itself.
        """
        if place not in self._places or property_crc_agrees(raw) is not None:
            return None
        told, properties = self._told(place, record), record.properties
        if len(properties) > MOST_BYTES:
            return None
        # Where keys and tags are as others tell, it is something else that is damaged.
        usual = self._usual(place, record.size) if _says(record.topic, properties, told) else None
        for tried in (_bits(properties), _bytes(properties)):
            answers = {one for one in tried if _says(record.topic, one, told) and is_text(one)}
            if usual is not None:
                answers = {one for one in answers if _is_usual(properties, one, usual)}
            if answers:
                break
        if len(answers) != 1:
            return None
        start, answer = len(raw) - len(properties), answers.pop()
        at = next(k for k, (old, new) in enumerate(zip(properties, answer, strict=True)) if old != new)
        change = Change("properties", start + at, properties[at : at + 1], answer[at : at + 1])
        whole = raw[:start] + answer + raw[start + len(answer) :]
        agreed = agrees(whole, Known(place, ((len(raw), "its own size"),)))
        if agreed is None:
            return None
        evidence = (
            *agreed[1],
            *(("keys in the index",) if told.hashes else ()),
            *(("tags code of its unit",) if told.tags_code else ()),
            *(("properties of its neighbours",) if usual is not None else ()),
        )
        return Fixed(place, Restored(whole, agreed[0], (change,), evidence))

    def _usual(self, place: int, size: int) -> Usual:
        """Return the properties of the records around one."""
        pieces = frozenset(piece for raw in self._around(place, size) for piece in raw.split(p.PROPERTY.encode()))
        return Usual(pieces, frozenset(piece.partition(p.NAME_VALUE.encode())[0] for piece in pieces))

    def _around(self, place: int, size: int) -> Iterator[bytes]:
        """Yield the properties of the intact records next to one, before and behind it."""
        first: int = place
        for _ in range(AROUND):
            before = self._survey.nearest.before(first)
            if before is None:
                break
            first = before.place
            yield from self._sound(first)
        at = self._survey.nearest.start_from(place + size)
        for _ in range(AROUND):
            if at is None:
                break
            yield from self._sound(at)
            at = self._survey.nearest.start_from(at + self._survey.size_at(at))

    def _sound(self, place: int) -> Iterator[bytes]:
        record = self._survey.record(place) if place not in self._places else None
        if record is not None:
            yield record.properties

    def _told(self, place: int, record: log.Record) -> Told:
        topic = p.java_decode(record.topic)
        unit = self._survey.unit_of(topic, record.queue_id, record.queue_offset)
        tags_code = None
        if unit is not None and (unit.physical_offset, unit.size) == (place, record.size):
            is_ext = bool(queueext.is_address(np.array([unit.tags_code], np.int64))[0])
            tags_code = None if is_ext or topic == log.SCHEDULE_TOPIC else unit.tags_code
        return Told(self._hashes.get(place), tags_code)


def _says(topic: bytes, properties: bytes, told: Told) -> bool:
    """Tell whether properties have just the keys and tags that others tell of; some indexes have tags, too."""
    said = p.parse(properties)
    if told.tags_code is not None and p.java_hash(said.get(p.TAGS, "")) != told.tags_code:
        return False
    if told.hashes is None:
        return True
    of_keys, of_tags = p.index_hashes(p.java_decode(topic), said)
    return of_keys <= told.hashes <= of_keys | of_tags


def _is_usual(old: bytes, new: bytes, usual: Usual) -> bool:
    """Tell whether all that one other byte changes is as with other records: a value with its name, or names."""
    end, name_value = p.PROPERTY.encode(), p.NAME_VALUE.encode()
    at = next(k for k, (one, other) in enumerate(zip(old, new, strict=True)) if one != other)
    start = new.rfind(end, 0, at) + 1
    piece = new[start:].partition(end)[0]
    name, _, value = piece.partition(name_value)
    if new[at] == ord(end):  # the last one, or between two properties
        behind = new[at + 1 :].partition(end)[0].partition(name_value)[0]
        is_fine = piece in usual.pieces if at + 1 == len(new) else b"" != behind in usual.names
        return is_fine and b"" != name in usual.names
    return piece in usual.pieces if at > start + len(name) else name in usual.names and value != b""


def _bits(raw: bytes) -> Iterator[bytes]:
    """Yield what one other bit makes of bytes."""
    for place, byte in enumerate(raw):
        yield from (raw[:place] + bytes((byte ^ 1 << bit,)) + raw[place + 1 :] for bit in range(8))


def _bytes(raw: bytes) -> Iterator[bytes]:
    """Yield what another byte makes of those that are no letters, if these are few."""
    places = [place for place, byte in enumerate(raw) if byte not in PRINTABLE]
    for place in places if len(places) <= MOST_PLACES else ():
        yield from (raw[:place] + bytes((byte,)) + raw[place + 1 :] for byte in range(256))
