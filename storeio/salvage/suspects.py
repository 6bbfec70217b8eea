"""Records of which their queues' numbers, or other records, say that they are not as they were, or none of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from storeio.findings import Finding
from storeio.salvage import at_the_end, copies, strangers
from storeio.salvage.bare import bare
from storeio.salvage.in_a_row import in_a_row

Row = tuple[int, Finding]


class Surveyed(at_the_end.Surveyed, copies.Surveyed, strangers.Surveyed, Protocol):
    """What a survey knows, as far as it is asked here; see ``storeio.salvage.survey``."""


def suspects(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield the physical offsets of such records, and what is said of each."""
    yield from bare(found.concluded)
    yield from _either(in_a_row(found.concluded), at_the_end.at_the_end(found))
    yield from at_the_end.amid_others(found)
    yield from at_the_end.off_by_no_file(found)
    yield from copies.copies(found)
    yield from strangers.lone(found)
    yield from strangers.repeated(found)
    yield from strangers.pointed_at(found)
    yield from strangers.behind_the_first(found)


def _either(told: Iterable[Row], more: Iterable[Row]) -> Iterator[Row]:
    """Yield of each queue what was told, or more, if that is of all its records: these follow on from one another."""
    by_queue: list[dict[tuple[str | None, int | None], dict[int, Row]]] = [{}, {}]
    for rows, found in zip((told, more), by_queue, strict=True):
        for place, finding in rows:
            found.setdefault((finding.topic, finding.queue_id), {})[place] = place, finding
    first, then = by_queue
    for queue in first | then:
        one, other = first.get(queue, {}), then.get(queue, {})
        yield from (other if one.keys() <= other.keys() else one).values()
