"""Records of which their queues' numbers, or other records, say that they are not as they were, or none of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from storeio.findings import Finding
from storeio.salvage import at_the_end, copies, strangers
from storeio.salvage.bare import bare
from storeio.salvage.in_a_row import in_a_row


class Surveyed(at_the_end.Surveyed, copies.Surveyed, strangers.Surveyed, Protocol):
    """What a survey knows, as far as it is asked here; see ``storeio.salvage.survey``."""


def suspects(found: Surveyed) -> Iterator[tuple[int, Finding]]:
    """Yield the physical offsets of such records, and what is said of each."""
    yield from bare(found.concluded)
    fit_nowhere = list(in_a_row(found.concluded))
    yield from fit_nowhere
    yield from at_the_end.amid_others(found)
    told = {(finding.topic, finding.queue_id) for _, finding in fit_nowhere}
    yield from (row for row in at_the_end.at_the_end(found) if (row[1].topic, row[1].queue_id) not in told)
    yield from copies.copies(found)
    yield from strangers.lone(found)
    yield from strangers.repeated(found)
    yield from strangers.behind_the_first(found)
