"""STUB of the final interface; being filled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from storeio.check.index_structure import IndexStructure
from storeio.findings import Finding
from storeio.format.index import Units
from storeio.walk import Walked

ReadUnits = Callable[[int, int, int], Units]
"""``read_units(file_no, first, stop)``: these units of ``files[file_no]``; never beyond its entries."""


@dataclass(frozen=True, slots=True)
class IndexContent:
    """One split against the index; picklable and small. ``finish_content`` turns it into findings."""

    findings: tuple[Finding, ...]
    covered: tuple[int, int]  # half-open physical range whose units were judged: give these to units_outside
    units: int  # index units looked at
    keys: int  # keys that the split's records have
    # ... plus what finish_content needs


@dataclass(frozen=True, slots=True)
class IndexOutside:
    """Units that no split judged: findings, and the offsets behind the end of the log (capped, ascending)."""

    findings: tuple[Finding, ...]
    beyond: tuple[int, ...]
    beyond_count: int


def check_content(files: Sequence[IndexStructure], read_units: ReadUnits, walked: Walked) -> IndexContent:
    """Return the comparison of one (stitched) split with all index files, which are in name order."""
    raise NotImplementedError


def finish_content(files: Sequence[IndexStructure], contents: Sequence[IndexContent]) -> list[Finding]:
    """Return all findings of the contents, in log order given, header times and first units settled."""
    raise NotImplementedError


def units_outside(
    files: Sequence[IndexStructure],
    file_no: int,
    read_units: ReadUnits,
    ranges: Sequence[tuple[int, int]],
    *,
    min_physical_offset: int,
    max_physical_offset: int,
) -> IndexOutside:
    """Return what is wrong with the units of one file in none of ``ranges`` (the contents' ``covered``)."""
    raise NotImplementedError
