"""``storeio simulate``: what brokers would do with a store at their next start. Reads files, writes none of them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from storeio.audit.running import moment_of
from storeio.checks.layout import ROCKSDB_QUEUES, foreign_layouts, queues_elsewhere
from storeio.config import StoreConfig, infer_config
from storeio.errors import StoreError, UnreadableError
from storeio.index_files import index_settings, index_shape_of
from storeio.kernels.search import first_nonzero
from storeio.paths import (
    ABORT,
    BATCHQUEUE,
    CHECKPOINT,
    COMMITLOG,
    CONFIG,
    CONSUMEQUEUE,
    LOCK,
    QUEUE_EXT,
    StoreFile,
)
from storeio.predict.dead_links import LISTED, add_links
from storeio.predict.timer_files import switches_of
from storeio.reading import many_files
from storeio.reading.around import ReadAround
from storeio.results import Tell
from storeio.scan import Bytes, Listing, is_below_strays, kept_open, list_store, not_listed, read_range, require_same
from storeio.settings import log_elsewhere, not_followed, not_read
from storeio.simulate.broker import Broker, Setup
from storeio.simulate.disk import Disk, Read
from storeio.simulate.ends import STARTS
from storeio.simulate.keys_lost import keys_lost
from storeio.simulate.losses import Finder
from storeio.simulate.metadata import REFUSING, TIMER_WHEEL
from storeio.simulate.outcome import simulate_start, without_digests
from storeio.simulate.predicted import Prediction, stopped_by
from storeio.simulate.pull import consume
from storeio.simulate.rules import ALL, DEFAULT_HEAP_BYTES, LINES, NEWEST, Rules, checked_heap, rules_of
from storeio.uris import is_remote, place_of, shown

LOOPS: Final = os.strerror(errno.ELOOP)
AS_FILES: Final = "; what is said is of a broker with storeType=default"
EPOCHS: Final = "epochFileCheckpoint"  # only brokers with enableControllerMode write it
OF_EXT_FILES: Final = "writeWithoutMmap"  # without such files a start is the same with it
TAIL_BYTES: Final = 16 << 20
WHOLE_LOG_BYTES: Final = 1 << 30  # up to here the whole log is compared unless that is declined
NEEDED: Final = frozenset((COMMITLOG, CHECKPOINT, LOCK, ABORT))  # without them nothing can be said of a start
LOOKED_AT: Final = LISTED | {CHECKPOINT, LOCK, ABORT, CONFIG, TIMER_WHEEL}


def next_starts(
    root: str | os.PathLike[str], given: Mapping[str, str]
) -> Iterator[tuple[str, Prediction | StoreError]]:
    """Yield each broker line and what its next start does, or why that is not known.

    Of large logs not what is given up, for which all of it would have to be read. Whoever keeps none needs memory for
    one at a time.
    """
    try:
        small = sum(f.size for f in list_store(root).of_kind(COMMITLOG)) <= WHOLE_LOG_BYTES
    except StoreError as error:
        yield from ((line, error) for line in LINES)
        return
    for line, version in LINES.items():
        try:
            yield line, simulate(root, broker=version, given=given, whole_log=small, digests=False)
        except StoreError as error:
            yield line, error


def versions_of(broker: str) -> list[str]:
    """Return the versions that ``--broker`` names: one, or one of each line.

    Raises:
        UsageError: No version.
    """
    if broker == ALL:
        return list(LINES.values())
    return [rules_of(broker).version]


@kept_open()
def simulate(
    root: str | os.PathLike[str],
    *,
    broker: str = NEWEST,
    given: Mapping[str, str] | None = None,
    whole_log: bool | None = None,
    heap_bytes: int = DEFAULT_HEAP_BYTES,
    consumers: bool = True,
    digests: bool = True,
    metadata: bool = True,
    progress: Tell | None = None,
) -> Prediction:
    """Return what a broker of this version does with the store at ``root``, which is only read.

    Where a broker runs on it, that is what follows if it is killed at the moment at which this is called.

    Args:
        root: The store directory.
        broker: A version such as ``5.3.3``.
        given: Broker settings by name; what is not given is told from the files.
        whole_log: Read all of the log to find what is given up and what consumers get. If not said:
            of logs of up to 1 GiB, and of larger ones where the start deletes or cuts something.
        heap_bytes: The broker's heap, 1 to 2**63 - 1; 4.x dies of a record that claims more.
        consumers: Tell what consumers get, too, wherever the log is read for what is given up.
        digests: Give the digest of each file in the outcome's states, of logs of up to 1 GiB; reads all files.
        metadata: Whether tables of ``config`` and a timer wheel that refuse a start do; else as if they were mended.
        progress: Called while the log is read for what is given up.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: No such version, or a setting that is unknown or has a bad value.
        UnreadableError: A directory could not be listed, or a store elsewhere not be read.
    """
    heap_bytes = checked_heap(heap_bytes)
    start = partial(_started, root, rules_of(broker), given or {}, whole_log, heap_bytes, progress, consumers=consumers)
    found = start(digests=digests, metadata=metadata)
    if metadata and found.outcome.stage in REFUSING:
        found.once_mended = start(digests=False, metadata=False)
    return found


def _started(
    root: str | os.PathLike[str], rules: Rules, given: Mapping[str, str], whole_log: bool | None, heap_bytes: int,
    progress: Tell | None, *, consumers: bool, digests: bool, metadata: bool,
) -> Prediction:  # fmt: skip
    """Return one start, as ``simulate`` is asked for it."""
    started = time.monotonic()
    listing = list_store(root)
    unlisted = _unlisted(listing)
    config = infer_config(listing, given)
    shape = index_shape_of(listing, config)
    setup = replace(setup_of(listing, config, shape, heap_bytes), now_ms=time.time_ns() // 1_000_000)
    listing, read, running_end = _looked_at(listing, config, shape)
    read = gaps = ReadAround(read, listing.files, whole=is_remote(listing.root))
    disk = _disk_of(listing, read)
    switches = switches_of(listing, given, follows=metadata)
    small = sum(f.size for f in listing.of_kind(COMMITLOG)) <= WHOLE_LOG_BYTES
    outcome, started_broker = simulate_start(disk, rules, setup, digests=digests and small, switches=switches)
    found = given_up = None
    whole = COMMITLOG not in unlisted and (small or cuts(started_broker) if whole_log is None else whole_log)
    elsewhere = queues_elsewhere(listing.files, in_database=config.in_database)
    if outcome.outcome == STARTS and whole and not elsewhere:
        alone = running_end is None and not is_remote(listing.root)
        agreeing = partial(many_files.agreeing, listing.root) if alone else None
        finder = Finder(started_broker, listing.files, read, agreeing)
        given_up = finder.find(progress)
        found = consume(started_broker, finder.there) if consumers else None
    held = {file.path: file for file in listing.files} if disk.deleted else {}
    emptied = [path for path in disk.deleted if path in held and held_something(held[path], read)]
    require_same(listing, gaps.paths)
    without_digests(outcome, gaps.paths)
    starts = outcome.outcome == STARTS
    return Prediction(
        store=shown(place_of(os.fspath(root))), line=rules.name, outcome=outcome, given_up=given_up, consumers=found,
        disk=disk, settings=(*config.settings, *index_settings(listing, config, shape)), emptied=emptied,
        stopped=stopped_by(started_broker, has_index=config.index_enabled) if starts else None,
        keys_lost=_keys_lost(started_broker) if starts else 0,
        seconds=time.monotonic() - started, not_simulated=(*not_simulated(listing, config), *outcome.doubts),
        running_end=running_end, unread=tuple(f"{path}: {why}" for path, why in unlisted.items()) + gaps.told(),
    )  # fmt: skip


def _keys_lost(broker: Broker) -> int:
    return keys_lost(broker.index, broker.log.min_offset, broker.log.max_offset)


def _unlisted(listing: Listing) -> dict[str, str]:
    """Return what could not be listed of where a start looks, with the reasons. Brokers take that for empty, too.

    A link that leads to itself is to them what one to nothing is, see ``dead_links``.

    Raises:
        UnreadableError: Without it nothing can be said of a start.
    """
    reasons = dict(listing.unreadable)
    names = (path for path in not_listed(listing, LOOKED_AT) if not is_below_strays(path))
    found = {path: reasons[path] for path in names if reasons[path] != LOOPS}
    for path, why in found.items():
        if path == "." or (path != COMMITLOG and path.split("/")[0] in NEEDED):
            raise UnreadableError(f"{path}: {why}")
    return found


def _looked_at(
    listing: Listing, config: StoreConfig, shape: tuple[int, int] | None
) -> tuple[Listing, Read, int | None]:
    """Return the files, what reads them, and where the log ended, None for as they are.

    Of a store on which a broker runs that is as it was at one moment.
    """
    read = partial(read_range, listing.root)
    then = moment_of(listing, config, shape)
    if then is None:
        return listing, read, None
    files, moment = then

    def read_then(path: str, start: int, stop: int) -> Bytes:
        return moment.read(read, path, start, stop) if start < stop else read(path, start, stop)

    return files, read_then, moment.log_stop


def _disk_of(listing: Listing, read: Read) -> Disk:
    """Return a store's files as a broker finds them."""
    disk = Disk(listing.files, read)
    add_links(disk, listing.root, [path for path, _ in listing.unreadable if not is_remote(listing.root)])
    return disk


def not_simulated(listing: Listing, config: StoreConfig) -> tuple[str, ...]:
    """Return what of the store's layout and settings a simulated start does not follow, in words."""
    found = [
        f"{entry.path}: {foreign}{AS_FILES if foreign.startswith(ROCKSDB_QUEUES) else ''}"
        for entry, foreign in foreign_layouts(listing.files)
    ]
    if listing.get(EPOCHS) is not None:
        found.append(f"{EPOCHS}: of controller mode, in which a broker is told what it is, and may cut its log, later")
    if place := log_elsewhere(listing.root, config.settings):
        found.append(not_read(place))
    given = {setting.name: setting.value for setting in config.settings}
    has_ext = given.get("enableConsumeQueueExt") == "true" or any(f.kind == QUEUE_EXT for f in listing.files)
    settings = [setting for setting in config.settings if has_ext or setting.name != OF_EXT_FILES]
    return (*found, *not_followed(settings))


def held_something(file: StoreFile, read: Read) -> bool:
    """Tell whether a file of the log or of a queue has a byte that is not zero."""
    if file.kind not in (COMMITLOG, CONSUMEQUEUE, BATCHQUEUE):
        return False
    for at in range(0, file.size, TAIL_BYTES):
        stop = min(at + TAIL_BYTES, file.size)
        if first_nonzero(read(file.path, at, stop), 0, stop - at) < stop - at:
            return True
    return False


def cuts(broker: Broker) -> bool:
    """Tell whether a start has deleted files, or left bytes behind the end of the log or of a queue."""
    if broker.disk.deleted:
        return True
    for files in (broker.log, *(queue.files for queue in broker.queues.values())):
        for file in files.files[-1:]:
            for at in range(max(file.wrote, 0), file.size, TAIL_BYTES):
                stop = min(at + TAIL_BYTES, file.size)
                if first_nonzero(files.read(file, at, stop), 0, stop - at) < stop - at:
                    return True
    return False


def setup_of(listing: Listing, config: StoreConfig, shape: tuple[int, int] | None, heap_bytes: int) -> Setup:
    """Return what a start depends on besides the files' bytes; ``shape`` is what ``index_shape_of`` gave."""
    slots, units = shape or config.likely_index
    light = any(f.topic is not None and f.topic.startswith("%LMQ%") for f in listing.files if f.kind == CONSUMEQUEUE)
    values = {s.name: s.value for s in config.settings}
    ext = values.get("enableConsumeQueueExt")
    return Setup(
        commitlog_file_bytes=config.commitlog_file_bytes,
        queue_file_bytes=config.queue_file_bytes,
        index_slots=slots,
        index_units=units,
        delays_ms=config.delays_ms,
        batch_file_bytes=config.batch_file_bytes,
        ext_file_bytes=config.ext_file_bytes,
        heap_bytes=heap_bytes,
        index_enabled=config.index_enabled,
        multi_dispatch=light if config.multi_dispatch is None else config.multi_dispatch,
        lmq=light if config.lmq is None else config.lmq,
        ext_enabled=None if ext is None else ext == "true",
        most_recovered=int(values.get("commitLogRecoverMaxNum", "0")),
    )
