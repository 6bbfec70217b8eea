"""``storeio salvage`` on one node: audit, decide, write the log anew, build everything else from it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.audit import AuditPlan, Concluded, Progress, look_at_store, prepare
from storeio.audit.named import require_known
from storeio.codes import DOUBT_CODES, ERROR, WARNING
from storeio.config import SIZES, Given
from storeio.errors import UnreadableError, UsageError
from storeio.linked import linked
from storeio.output.publishing import begun, target_of
from storeio.output.staging import Staging
from storeio.output.targets import refuse_itself
from storeio.paths import COMMITLOG, file_name
from storeio.predict.start import simulate
from storeio.rebuild.derive import Wanted
from storeio.rebuild.node import Build, in_order
from storeio.rebuild.tally import notes_of_database, wanted_of
from storeio.rebuilt import PARTS
from storeio.report import to_json
from storeio.report.salvaging import MARK, mark_of
from storeio.results import INDEX_SHAPE, Audit, Setting
from storeio.salvage import holes
from storeio.salvage.arrange import Arranged, arranged
from storeio.salvage.chosen import Choice, Kept, covered, kept_of
from storeio.salvage.decide import Decision, decide
from storeio.salvage.readable import readable, unread_nameless
from storeio.salvage.survey import LEAP, survey
from storeio.salvage.telling import report
from storeio.salvage.topics import topics_of
from storeio.salvage.unread import unread, unread_since
from storeio.salvage.writing import copy_others, write_log
from storeio.salvaged import GAPS, LOSSES, TOMBSTONES, LostMessages, Moved, Salvaged
from storeio.scan import kept_open, naming_store, several
from storeio.simulate.ends import STARTS
from storeio.simulate.rules import NEWEST
from storeio.turns import thread_count
from storeio.uris import below, is_remote, shown

OF_GAPS: Final = ("LOG_QUEUE_OFFSET_GAP", "CQ_UNIT_ORPHAN")
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
    donors: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
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
        UsageError: A bad setting, no such ``losses``, a choice that the store has not, or ``into`` is not free.
        UnreadableError: A file could not be read.
        WriteError: A file could not be written.
    """
    if losses not in LOSSES:
        raise UsageError(f"losses {losses!r}: there are {', '.join(LOSSES)}")
    donors = several(donors)
    for donor in donors:
        refuse_itself("--donor", donor, root)
    for read in (root, *donors):
        place = target_of(into, read)

    def look(at: str | os.PathLike[str], settings: Mapping[str, str] | None) -> Concluded:
        return look_at_store(
            at, given=settings, jobs=jobs, split_bytes=split_bytes, progress=progress, kept=DOUBT_CODES
        )

    first = look(root, given)
    settings = Given(given).over(told_by(first.audit.settings))
    others = []
    for donor in donors:
        with naming_store(donor):
            others.append(look(donor, settings))
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
    root, threads = first.plan.root, thread_count(jobs)
    require_known(() if others else choice.queues or (), first.audit)  # a donor may have what the store has not
    with tempfile.TemporaryDirectory(prefix="storeio-") as scratch, begun(place) as staging:
        besides = unread_nameless(first.plan)
        placed, seen = _placed(first, others, besides, Path(scratch), lambda at: look(at, settings))
        looked = placed.found
        wanted = wanted_of(looked.plan, None, PARTS, broker)
        known = survey(looked)
        decision = decide(known, losses=losses)
        write_log(known, decision, staging)
        not_copied = copy_others(known, staging)
        result = report(known, decision, placed.moved, first.plan.started_ms, shown(os.fspath(place)))
        result.store, result.broker = first.audit.store, broker or NEWEST
        result.settings = tuple(first.audit.settings)
        result.notes = [*notes_of_database(first.plan), *staging.notes, *(each.sentence for each in placed.otherwise)]
        result.problems.extend(unread(first, others, looked, (*besides, *not_copied)))
        result.problems.extend(_barren(first.audit, known.audit, result))
        result.topics = topics_of(seen.plan, known.audit)
        tell_saved(result, root, known.audit.log.records, settings)
        if choice != ALL:
            leave_out(choice, result, decision, prepare(str(staging.partial), given=settings), staging)

        def looked_at() -> None:
            # A store time that leaps and has no one answer is kept, and says so again in the new store.
            result.problems.extend(_unsound(look(staging.partial, settings), losses, known.leaping))
            result.problems.extend(text for text in unread_since(first, others) if text not in result.problems)
            mark = to_json(mark_of(result)).encode() + b"\n"
            staging.write(MARK, 0, mark, size=len(mark))

        own = looked.plan if choice == ALL else None  # of chosen messages the rest is not missed
        _build(result, wanted, prepare(str(staging.partial), given=settings), staging, threads, looked_at, own)
    result.seconds = (time.time_ns() // 1_000_000 - result.started_ms) / 1000
    return result


def _build(
    result: Salvaged, wanted: Wanted, plan: AuditPlan, staging: Staging, threads: int, looked_at: Callable[[], None],
    own: AuditPlan | None,
) -> None:  # fmt: skip
    """Build queues, index and checkpoint of a new log; what came of it goes into the result once it was looked at.

    Queues without a message in the log are those of the store that is its ``own``, if one is given.
    """
    build, records = Build(plan, wanted, frozenset(PARTS), staging, own), 0
    for derived in in_order(plan, wanted, threads):
        build.add(derived)
        records += derived.records
    result.records = records - result.tombstones - result.fillers
    built = build.finish(threads, looked_at)
    result.queues, result.files, result.written_bytes = built.queues, built.files, built.written_bytes


def leave_out(choice: Choice, result: Salvaged, decision: Decision, plan: AuditPlan, staging: Staging) -> None:
    """Put fillers over what is not chosen of the new log, and tell so."""
    if choice.deleted:
        deleted = {topic.topic for topic in result.topics if topic.deleted}
        named = {(topic, None) for topic in deleted} if choice.queues is None else choice.queues
        choice = replace(choice, queues=frozenset(queue for queue in named if queue[0] in deleted))
    kept = kept_of(plan, choice)
    places = {kind: _places(decision, kind) for kind in (holes.TOMBSTONE, holes.FILLER)}
    size = plan.segment_bytes
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


def _placed(
    first: Concluded, others: Sequence[Concluded], besides: Sequence[str], scratch: Path,
    look: Callable[[Path], Concluded],
) -> tuple[Arranged, Concluded]:  # fmt: skip
    """Return the store with everything in its place, and its audit before that.

    Both are of what can be read of it; ``besides`` tells what of files cannot that no audit looks at.
    """
    seen = readable(first, scratch / "readable", look, {text.partition(": ")[0] for text in besides})
    donors = []
    for number, one in enumerate(others):
        with naming_store(one.plan.root):
            donors.append(readable(one, scratch / f"donor-{number}", look))
    places = (scratch / f"placed-{number}" for number in count())
    placed = arranged(seen, donors, lambda one: linked(one.plan.listing, next(places)), look)
    origins = dict(zip((each.plan.root for each in (seen, *donors)), (first, *others), strict=True))
    otherwise = [replace(each, copy=origins[each.copy].audit.store) for each in placed.otherwise]
    return Arranged(placed.found, [_from(origins, piece) for piece in placed.moved], otherwise), seen


def _from(origins: Mapping[str, Concluded], piece: Moved) -> Moved:
    """Return what was moved with the name that its source has, and not the one that it was given for a moment."""
    for root, one in origins.items():
        if piece.source.startswith(f"{root}/"):
            own, path = one.plan.root, piece.source.removeprefix(f"{root}/")
            return replace(piece, source=shown(below(own, path) if is_remote(own) else f"{own}/{path}"))
    return replace(piece, source=shown(piece.source))


def _barren(first: Audit, placed: Audit, result: Salvaged) -> list[str]:
    """Return a sentence where a log has bytes and not one message of it is known: it may be something else."""
    kept = first.bytes_by_kind().get(COMMITLOG, {})
    count = sum(kept.get(name, 0) for name in ("stale", "torn", "garbage"))
    if not count or placed.log.records or result.restored:
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


def tell_saved(result: Salvaged, root: str | os.PathLike[str], records: int, settings: Mapping[str, str]) -> None:
    """Tell how many intact messages the broker's next start would have given up: all, if the log or queues end it.

    That is not known of a store that cannot be read as a whole. Tables of ``config`` and timers' files that end a start
    are copied as they are: they give up no message, and end the new store's, too.
    """
    try:
        start = simulate(root, broker=result.broker, given=settings, consumers=False, digests=False)
    except UnreadableError:
        return
    if start.unread:
        return
    if start.once_mended is not None:
        result.notes.append(f"broker {result.broker} refuses the new store, too: {start.outcome.reason}")
        start = start.once_mended
    if start.outcome.outcome != STARTS:
        result.saved = records
    elif start.given_up is not None:
        result.saved = start.given_up.messages


def told_by(settings: Sequence[Setting]) -> dict[str, str]:
    """Return the sizes that a store's files tell: those that are written must tell the same.

    What only defaults tell of index files is left open: some that nobody can read may be there.
    """
    told = (s for s in settings if s.name in SIZES or (s.name in INDEX_SHAPE and not s.is_default))
    return {s.name: s.value for s in told}
