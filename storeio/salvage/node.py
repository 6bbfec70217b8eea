"""``storeio salvage`` on one node: audit, decide, write the log anew, build everything else from it."""

from __future__ import annotations

import os
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan, Concluded, Progress, look_at_store, prepare
from storeio.codes import ERROR, WARNING
from storeio.config import SIZES, Given
from storeio.errors import UnreadableError
from storeio.linked import LinkedStore, copied
from storeio.paths import ABORT, CHECKPOINT, COMMITLOG, INDEX, LOCK, QUEUE_KINDS, file_name
from storeio.prediction import simulate
from storeio.publishing import begun, target_of
from storeio.rebuild.node import Build, in_order
from storeio.rebuild.tally import wanted_of
from storeio.rebuilt import PARTS
from storeio.report import to_json
from storeio.report.salvaging import MARK, mark_of
from storeio.results import Audit, Setting
from storeio.salvage import holes
from storeio.salvage.arrange import arranged
from storeio.salvage.chosen import Choice, Kept, covered, kept_of
from storeio.salvage.decide import Decision, decide
from storeio.salvage.survey import LEAP, Survey, survey
from storeio.salvage.telling import report
from storeio.salvage.topics import topics_of
from storeio.salvaged import GAPS, TOMBSTONES, LostMessages, Salvaged
from storeio.scan import Listing, data_stretches, kept_open
from storeio.simulate.ends import STARTS
from storeio.simulate.rules import NEWEST
from storeio.staging import Staging
from storeio.uris import is_remote, shown

AT_ONCE: Final = 16 << 20
TOLD: Final = (*SIZES, "maxHashSlotNum", "maxIndexNum")
BUILT: Final = (COMMITLOG, INDEX, *QUEUE_KINDS)
OF_GAPS: Final = ("LOG_QUEUE_OFFSET_GAP", "CQ_UNIT_ORPHAN")
LEFT: Final = (ABORT, LOCK, CHECKPOINT, MARK)
ALL: Final = Choice()


@kept_open()
def salvage(
    root: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    given: Mapping[str, str] | None = None,
    broker: str | None = None,
    losses: str = TOMBSTONES,
    choice: Choice = ALL,
    donors: Sequence[str | os.PathLike[str]] = (),
    jobs: int | None = None,
    split_bytes: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Salvaged:
    """Return what was saved of the store at ``root``, which is only read, into the new directory ``into``.

    Args:
        root: The store directory, or its URI.
        into: A directory or URI that is new or empty; it appears whole or not at all.
        given: Broker settings by name; what is not given is told from the files.
        donors: Other copies of the same log, the best one first; they are only read.
        broker: Version whose own recovery the result is compared with, and as which tags are indexed where the
            store does not tell; the newest if not given, which tells nothing of tags.
        losses: ``tombstones`` or ``gaps``, see ``storeio.salvage.decide``.
        choice: Which messages are wanted.
        jobs: Threads, by default one a core.
        split_bytes: Bytes of the log that one task walks.
        progress: Called after each task.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: A bad setting, or ``into`` is not free.
        UnreadableError: A file could not be read.
        WriteError: A file could not be written.
    """
    for read in (root, *donors):
        place = target_of(into, read)

    def look(at: str | os.PathLike[str], settings: Mapping[str, str] | None) -> Concluded:
        return look_at_store(at, given=settings, jobs=jobs, split_bytes=split_bytes, progress=progress)

    first = look(root, given)
    settings = Given(given).over(told_by(first.audit.settings))
    others = [look(donor, settings) for donor in donors]
    return saved(first, others, place, settings, look, broker=broker, losses=losses, choice=choice, jobs=jobs)


def saved(
    first: Concluded,
    others: Sequence[Concluded],
    place: Path | str,
    settings: Mapping[str, str],
    look: Callable[[str | os.PathLike[str], Mapping[str, str] | None], Concluded],
    *,
    broker: str | None = None,
    losses: str = TOMBSTONES,
    choice: Choice = ALL,
    jobs: int | None = None,
) -> Salvaged:
    """Return what was saved of a store whose audit is at hand, as ``salvage`` does.

    Args:
        first: The store's audit.
        others: Those of its donors.
        place: What ``publishing.target_of`` gave.
        settings: Given ones, and the sizes that the store's files tell.
        look: Audits a store with settings: what is put into place on the way, and the result.
        broker: As of ``salvage``, like ``losses``, ``choice`` and ``jobs``.
    """
    root, threads = first.plan.root, jobs or os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="storeio-") as scratch, begun(place) as staging:
        links = partial(linked, first.plan.listing, Path(scratch))
        looked, moved = arranged(first, others, links, lambda at: look(at, settings))
        wanted = wanted_of(looked.plan, None, PARTS, broker)
        known = survey(looked)
        decision = decide(known, losses=losses)
        write_log(known, decision, staging)
        copy_others(known, staging)
        result = report(known, decision, moved, first.plan.started_ms, shown(os.fspath(place)))
        result.store, result.broker = first.audit.store, broker or NEWEST
        result.problems.extend([*_unread(first, others, looked), *_barren(first.audit, known.audit, result)])
        result.topics = topics_of(first.plan, known.audit)
        result.saved = saved_from(root, known.audit.log.records, result.broker, settings)
        if choice != ALL:
            leave_out(choice, result, decision, prepare(str(staging.partial), given=settings), staging)
        plan = prepare(str(staging.partial), given=settings)
        build = Build(plan, wanted, frozenset(PARTS), staging)
        records = 0
        for derived in in_order(plan, wanted, threads):
            build.add(derived)
            records += derived.records
        result.records = records - result.tombstones - result.fillers

        # A store time that leaps and has no one answer is kept, and says so again in the new store.
        untold = known.leaping

        def looked_at() -> None:
            result.problems.extend(_unsound(look(staging.partial, settings), losses, untold))
            mark = to_json(mark_of(result)).encode() + b"\n"
            staging.write(MARK, 0, mark, size=len(mark))

        built = build.finish(threads, looked_at)
    result.queues, result.files, result.written_bytes = built.queues, built.files, built.written_bytes
    result.seconds = (time.time_ns() // 1_000_000 - result.started_ms) / 1000
    return result


def leave_out(choice: Choice, result: Salvaged, decision: Decision, plan: AuditPlan, staging: Staging) -> None:
    """Put fillers over what is not chosen of the new log, and tell so."""
    if choice.deleted:
        deleted = {topic.topic for topic in result.topics if topic.deleted}
        named = {(topic, None) for topic in deleted} if choice.queues is None else choice.queues
        choice = replace(choice, queues=frozenset(queue for queue in named if queue[0] in deleted))
    kept = kept_of(plan, choice)
    places = {kind: _places(decision, kind) for kind in (holes.TOMBSTONE, holes.FILLER)}
    size = plan.config.commitlog_file_bytes
    for patch, offsets in covered(plan, choice, kept):
        base = patch.physical_offset - patch.physical_offset % size
        staging.write(f"{COMMITLOG}/{file_name(base)}", patch.physical_offset - base, patch.bytes.whole(), size=size)
        tombstones, fillers = (int(np.isin(offsets, at).sum()) for at in places.values())
        result.tombstones -= tombstones
        result.fillers += 1 - fillers
        result.left_out += len(offsets) - tombstones - fillers
    result.chosen, result.saved = choice.sentence(), None
    result.lost = [part for part in result.lost if _is_kept(part, kept)]


def _places(decision: Decision, kind: str) -> npt.NDArray[np.int64]:
    return np.array([patch.physical_offset for patch in decision.patches if patch.kind == kind], np.int64)


def _is_kept(part: LostMessages, kept: Kept) -> bool:
    low, high = kept.get((part.topic, part.queue_id), (0, 0))
    return part.first_queue_offset < high and part.stop_queue_offset > low


def _unread(first: Concluded, others: Sequence[Concluded], looked: Concluded) -> list[str]:
    """Return sentences on what could not be read: of the store, its donors, and the store with all in its place.

    Links to the store lack what its listing could not tell, so the store's own audit counts.
    """
    found = [f"could not be read: {text}" for text in (*first.audit.failed, *looked.audit.failed)]
    found += [f"could not be read: {one.audit.store}: {text}" for one in others for text in one.audit.failed]
    return list(dict.fromkeys(found))


def _barren(first: Audit, placed: Audit, result: Salvaged) -> list[str]:
    """Return a sentence where a log has bytes and not one message is known, saved or lost: it may be something else."""
    kept = first.bytes_by_kind().get(COMMITLOG, {})
    count = sum(kept.get(name, 0) for name in ("stale", "torn", "garbage"))
    if not count or placed.log.records or result.restored or result.lost:
        return []
    return [f"no record was found in the log, and {count} of its bytes are no free space"]


def _unsound(made: Concluded, losses: str, untold: Collection[int | None]) -> list[str]:
    """Return sentences on what an audit of the new store finds: nothing, but for gaps that were asked for.

    ``untold`` are the physical offsets of records whose store time is as odd as it was.
    """
    findings = [f for f in made.audit.findings if f.severity in (ERROR, WARNING)]
    findings = [f for f in findings if f.code != LEAP or f.physical_offset not in untold]
    if losses == GAPS:
        findings = [f for f in findings if f.code not in OF_GAPS]
    return [f"the new store: {f.code} {f.path} at {f.position}: {f.detail}" for f in findings]


def linked(listing: Listing, scratch: Path) -> LinkedStore:
    """Return a store whose files may be put into place; a remote one is copied for that."""
    if is_remote(listing.root):
        listing = copied(listing.root, scratch / "copy")
    return LinkedStore(listing, scratch / "store")


def saved_from(root: str | os.PathLike[str], records: int, broker: str, settings: Mapping[str, str]) -> int | None:
    """Return how many intact messages a broker's next start would have given up; all, if it refuses to start.

    None where that is not known, as of a store that cannot be read as a whole.
    """
    try:
        start = simulate(root, broker=broker, given=settings, consumers=False, digests=False)
    except UnreadableError:
        return None
    if start.outcome.outcome != STARTS:
        return records
    return start.given_up.messages if start.given_up is not None else None


def told_by(settings: Sequence[Setting]) -> dict[str, str]:
    """Return the sizes that a store's files tell: those that are written must tell the same."""
    return {setting.name: setting.value for setting in settings if setting.name in TOLD}


def write_log(known: Survey, decision: Decision, staging: Staging) -> None:
    """Write the segments: what stays as it is, and what is new; zeros are not written."""
    size = known.segment_bytes
    staging.make_directory(COMMITLOG)  # nothing may be left of it, and what is made then is a store all the same
    for base in decision.segments:
        path = f"{COMMITLOG}/{file_name(base)}"
        staging.write(path, 0, b"", size=size)
        low, high = (
            bisect_left(decision.patches, at, key=lambda patch: patch.physical_offset) for at in (base, base + size)
        )
        inside = decision.patches[low:high]
        for start, stop in _between(base, min(base + size, _zero_from(known, decision, base)), inside):
            for low in range(start, stop, AT_ONCE):
                data = known.read(low, min(low + AT_ONCE, stop))
                if data.strip(b"\0"):
                    staging.write(path, low - base, data, size=size)
        for patch in inside:
            at = patch.physical_offset - base
            staging.write(path, at, patch.bytes.head, size=size)
            staging.write(path, at + len(patch.bytes) - len(patch.bytes.tail), patch.bytes.tail, size=size)


def _zero_from(known: Survey, decision: Decision, base: int) -> int:
    """Return where what stays of a segment ends: behind the log's end there are only zeros."""
    return decision.stop if base <= decision.stop <= base + known.segment_bytes else base + known.segment_bytes


def _between(start: int, stop: int, patches: Sequence[holes.Patch]) -> Iterator[tuple[int, int]]:
    """Yield what of a range no patch covers."""
    at = start
    for patch in patches:
        if patch.physical_offset > at:
            yield at, min(patch.physical_offset, stop)
        at = max(at, patch.stop)
    if at < stop:
        yield at, stop


def copy_others(known: Survey, staging: Staging) -> None:
    """Copy what is neither log nor derived from it: configuration, consumers' offsets, timers."""
    for file in known.plan.listing.files:
        if file.path.split("/")[0] in BUILT or file.path in LEFT:
            continue
        if file.is_dir:
            staging.make_directory(file.path)
            continue
        staging.write(file.path, 0, b"", size=file.size)
        for start, stop in data_stretches(known.plan.root, file.path, 0, file.size):  # not what holes hold
            for low in range(start, stop, AT_ONCE):
                data = known.plan.read(file.path, low, min(low + AT_ONCE, stop)).tobytes()
                staging.write(file.path, low, data, size=file.size)
