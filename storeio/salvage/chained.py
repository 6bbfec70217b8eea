"""Records that lack a key which a unit of the index names from amid the hash chain of that key.

Where a unit and its record contradict each other either may be damaged. But slot and neighbours lead to a unit by its
hash: one whose hash was damaged stands in the chain of another. Then it is the record's key that was.

Source: ``IndexFile.putKey``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import numpy as np

from storeio.audit import AuditPlan
from storeio.audit.split import index_reader
from storeio.checks.index_stretch import CHUNK_UNITS, ReadUnits, pieces_of
from storeio.checks.index_structure import IndexStructure
from storeio.format import commitlog as log
from storeio.format import index
from storeio.format import properties as p
from storeio.results import Audit
from storeio.salvage.fillers import may_be_new

MOST: Final = 64  # records that are looked at, for each of which a file may be read to its end; of more it is the index
OF_UNITS: Final = ("INDEX_UNIT_WRONG", "INDEX_UNIT_ORPHAN", "INDEX_DUPLICATE")  # more in a file: it is another log's


class Surveyed(Protocol):
    """What a survey knows, as far as it is asked here; see ``storeio.salvage.survey``."""

    @property
    def plan(self) -> AuditPlan: ...
    @property
    def audit(self) -> Audit: ...

    def record(self, physical_offset: int) -> log.Record | None: ...


def lacking_keys(found: Surveyed, places: Iterable[int]) -> Iterator[int]:
    """Yield those of some records that lack a key which such a unit names; none of too many, nor what a salvage wrote.

    Args:
        found: What is known of the store.
        places: Physical offsets of records that units of the index contradict.
    """
    doubtful = sorted(set(places))
    if not 0 < len(doubtful) <= MOST:
        return
    wrong, read_units = _wrong_units(found.audit), index_reader(found.plan)
    for place in doubtful:
        record = found.record(place)
        if record is None or may_be_new(record.body, record.properties):
            continue
        said = set().union(*p.index_hashes(p.java_decode(record.topic), p.parse(record.properties)))
        units = [
            (piece.file_no, piece.number(i))
            for piece in pieces_of(found.plan.index, read_units, place, place + 1)
            if wrong[found.plan.index[piece.file_no].path] <= MOST
            for i in np.flatnonzero(piece.units["physical_offset"] == place).tolist()
            if int(piece.units["key_hash"][i]) not in said
        ]
        if any(_is_chained(found.plan, file_no, number, read_units) for file_no, number in units):
            yield place


def _wrong_units(audit: Audit) -> Counter[str]:
    """Return by path of an index file how many of its units are no records' of this log."""
    wrong = Counter[str]()
    for finding in audit.findings:
        if finding.code in OF_UNITS:
            wrong[finding.path] += finding.count
    return wrong


def _is_chained(plan: AuditPlan, file_no: int, number: int, read_units: ReadUnits) -> bool:
    """Tell whether the next unit of its slot, or the slot, leads to a unit, and this one to another of its slot."""
    file = plan.index[file_no]
    unit = read_units(file_no, number, number + 1)[0]
    key_hash, previous = int(unit["key_hash"]), int(unit["previous"])
    slot = key_hash % file.slots
    if key_hash < 0 or not 0 <= previous < number:
        return False
    if previous and int(read_units(file_no, previous, previous + 1)["key_hash"][0]) % file.slots != slot:
        return False
    for first in range(number + 1, file.entries + 1, CHUNK_UNITS):
        units = read_units(file_no, first, min(first + CHUNK_UNITS, file.entries + 1))
        same = np.flatnonzero(units["key_hash"] % file.slots == slot)
        if len(same):
            return int(units["previous"][same[0]]) == number
    return _head(plan, file, slot) == number


def _head(plan: AuditPlan, file: IndexStructure, slot: int) -> int:
    """Return the unit that a slot names as its newest."""
    start = index.HEADER_BYTES + slot * index.SLOT_BYTES
    return int.from_bytes(plan.read(file.path, start, start + index.SLOT_BYTES).tobytes(), "big")
