"""``storeio simulate --retention``: what a running broker's own cleaning deletes next, and when."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from storeio.config import infer_config
from storeio.errors import UnreadableError
from storeio.index_files import index_shape_of
from storeio.paths import COMMITLOG
from storeio.predict.start import LOOKED_AT, not_simulated, setup_of
from storeio.scan import Listing, kept_open, list_store, read_range, require_listed
from storeio.simulate.broker import Broker
from storeio.simulate.clock import due_times, hour_of
from storeio.simulate.disk import Disk
from storeio.simulate.ends import STARTS
from storeio.simulate.outcome import Outcome, simulate_start
from storeio.simulate.predicted import Forecast
from storeio.simulate.progress import Progress, progress_of
from storeio.simulate.retention import Cleaner, Cleaning, Conditions, Cycle, cleaning_of, used_ratio
from storeio.simulate.rules import DEFAULT_HEAP_BYTES, NEWEST, Rules, checked_heap, rules_of
from storeio.uris import refuse_remote

MOST_RUNS: Final = 10_000  # ten files each


@kept_open()
def forecast_retention(
    root: str | os.PathLike[str],
    *,
    broker: str = NEWEST,
    given: Mapping[str, str] | None = None,
    heap_bytes: int = DEFAULT_HEAP_BYTES,
) -> Forecast:
    """Return what a broker of this version deletes of the store at ``root``, which is only read.

    Clock, time zone and used share of the disk are those of this machine.

    Args:
        root: The store directory.
        broker: A version such as ``5.3.3``.
        given: Broker settings by name, those of cleaning included.
        heap_bytes: The broker's heap, 1 to 2**63 - 1; 4.x dies of a record that claims more.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: No such version, or a setting that is unknown or has a bad value.
        UnreadableError: A file could not be read.
    """
    root = refuse_remote(os.fspath(root), "retention depends on the disk and the times of files, which a copy has not")
    now = time.time_ns() // 1_000_000
    zone = time.localtime(now / 1000).tm_gmtoff * 1000
    cleaning = cleaning_of(given or {})
    rules = rules_of(broker)
    listing = list_store(root)
    require_listed(listing, LOOKED_AT)
    ratio = _used(listing.root)
    mtimes = _mtimes(Path(listing.root), [f.path for f in listing.of_kind(COMMITLOG)])
    conditions = Conditions(now, hour_of(now, zone), mtimes, ratio)
    starts = partial(_started, listing, given or {}, rules, checked_heap(heap_bytes))
    outcome, started = starts()
    unsure = (*not_simulated(listing, infer_config(listing, given or {})), *outcome.doubts)
    found = Forecast(
        store=os.fspath(root), broker=rules.version, line=rules.name, outcome=outcome, now_ms=now,
        disk_used_ratio=ratio, cleaning=cleaning.under(rules), now=None, due=(), next_ms=None, next_runs=(),
        not_simulated=unsure,
    )  # fmt: skip
    if outcome.outcome != STARTS:
        return found
    due = due_times(
        [file.path for file in started.log.files], mtimes, reserved_hours=cleaning.reserved_hours,
        delete_when=cleaning.delete_when, zone_offset_ms=zone, now_ms=now,
    )  # fmt: skip
    progress = progress_of(started.disk, {topic for topic, _ in started.queues})
    first = Cleaner(started, cleaning, progress).run(conditions)
    moments = [each.deletable_ms for each in due if each.deletable_ms is not None]
    at = min(moments, default=None)
    later: list[Cycle] = []
    if at is not None:
        later = _until_nothing_goes(
            starts()[1], cleaning, progress,
            replace(conditions, now_ms=at, hour=hour_of(at, zone)),
        )  # fmt: skip
    return replace(found, now=first, due=tuple(due), next_ms=at, next_runs=tuple(later))


def _started(listing: Listing, given: Mapping[str, str], rules: Rules, heap_bytes: int) -> tuple[Outcome, Broker]:
    """Return a start and the broker after it."""
    config = infer_config(listing, given)
    setup = setup_of(listing, config, index_shape_of(listing, config), heap_bytes)
    return simulate_start(Disk(listing.files, partial(read_range, listing.root)), rules, setup, digests=False)


def _until_nothing_goes(started: Broker, cleaning: Cleaning, progress: Progress, conditions: Conditions) -> list[Cycle]:
    """Return the runs at one moment, one after the other, that delete something."""
    cleaner = Cleaner(started, cleaning, progress)
    found: list[Cycle] = []
    for _ in range(MOST_RUNS):
        cycle = cleaner.run(conditions)
        if not cycle.deleted:
            break
        found.append(cycle)
    return found


def _used(root: str) -> float:
    """Return the used share of the disk that holds the store, as the broker rounds it."""
    try:
        usage = shutil.disk_usage(root)
    except OSError:
        return -1.0
    return used_ratio(usage.used, usage.free)


def _mtimes(root: Path, paths: list[str]) -> dict[str, int]:
    found = {}
    for path in paths:
        try:
            found[path] = (root / path).stat().st_mtime_ns // 1_000_000
        except OSError as error:
            raise UnreadableError(f"{path}: {error.strerror or error}") from error
    return found
