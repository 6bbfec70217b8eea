"""``storeio diff`` on one node: both stores are audited, then their logs are compared byte by byte."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from storeio import __version__
from storeio.audit import Concluded, Progress, look_at_store
from storeio.compare.logs import Log, alone, differing, judged, queue_differences
from storeio.compare.model import A_ALONE, B_ALONE, DIVERGED, Difference, LogRange, Side
from storeio.errors import UnreadableError, UsageError
from storeio.output.targets import refuse_itself
from storeio.paths import COMMITLOG
from storeio.scan import kept_open, may_be_of, naming_store, require_same


@kept_open()
def diff(
    one: str | os.PathLike[str],
    other: str | os.PathLike[str],
    *,
    given: Mapping[str, str] | None = None,
    jobs: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Difference:
    """Return how the logs of two stores differ, which are only read.

    Args:
        one: A store directory or its URI, for example a master's.
        other: Another one, for example its slave's.
        given: Broker settings by name, of both; what is not given is told from the files.
        jobs: Threads, by default one a core.
        progress: Called after each task.

    Raises:
        NotAStoreError: One of them is no store.
        UsageError: A bad setting, or segments of different sizes.
        UnreadableError: A file could not be read.
    """
    refuse_itself("diff", other, one)
    started = time.monotonic()
    started_ms = time.time_ns() // 1_000_000
    found = []
    for root in (one, other):
        with naming_store(root):
            found.append(look_at_store(root, given=given, jobs=jobs, progress=progress))
            _require_log(found[-1])
    first, second = Log(found[0]), Log(found[1])
    if first.segments and second.segments and first.size != second.size:  # of a log without files nobody knows it
        raise UsageError(f"segments of {first.size} and of {second.size} bytes: not copies of one log")
    ranges = [judged(first, second, *place) for place in differing(first, second)]
    aligned = aligned_to(first, second, ranges)
    result = Difference(
        __version__, side(found[0]), side(found[1]), started_ms, 0.0,
        max(min(first.end, second.end) - max(first.start, second.start), 0),
        ranges[0].start if ranges else None,
        next((part.start for part in ranges if part.why == DIVERGED), None),
        aligned, sorted([*ranges, *alone(first, second)], key=lambda part: part.start),
        queue_differences(first, second),
    )  # fmt: skip
    for audited in found:
        with naming_store(audited.plan.root):
            require_same(audited.plan.listing)
    result.seconds = time.monotonic() - started
    return result


def _require_log(found: Concluded) -> None:
    """Raise if nothing is known of a log: its directory could not be listed, or is a link to nowhere.

    Raises:
        UnreadableError: So it is.
    """
    for path, why in found.plan.listing.unreadable:
        if path in (".", COMMITLOG):
            raise UnreadableError(f"{path}: {why}")


def side(found: Concluded) -> Side:
    """Return what is told of one of the stores."""
    audit, view = found.audit, found.view
    unread = tuple(text for text in audit.failed if may_be_of(text.partition(": ")[0], (COMMITLOG,)))
    ends = view.min_physical_offset, view.max_physical_offset
    return Side(audit.store, *ends, audit.log.records, audit.verdict, unread)


def aligned_to(first: Log, second: Log, ranges: list[LogRange]) -> int:
    """Return the physical offset up to which both logs hold the same, at the start of a record."""
    stop = min(first.end, second.end)
    known = [part for part in ranges if part.why not in (A_ALONE, B_ALONE)]
    if not known:
        return max(stop, max(first.start, second.start))
    place = known[0].start
    starts = [around[0] for log in (first, second) if (around := log.records_around(place)) is not None]
    return min(starts, default=place)
