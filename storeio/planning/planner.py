"""One plan while it is made: layout of the log, then what is derived from it, until nothing is left to cure."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from storeio import audit
from storeio.codes import DOUBT_CODES, ERROR, WARNING
from storeio.config import infer_config
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.linked import LinkedStore
from storeio.paths import BATCHQUEUE, CHECKPOINT, COMMITLOG, CONSUMEQUEUE, INDEX, QUEUE_EXT
from storeio.plan import model
from storeio.planning.derived import make_way_for, plan_checkpoint, plan_index, plan_queue
from storeio.planning.draft import Draft, Why
from storeio.planning.layout import OF_NAMES, is_of_log, look_at_lock, plan_layout
from storeio.planning.limits import RefusedError, RewrittenError
from storeio.planning.misplaced import index_points_at, misplaced, queues_pointing_at
from storeio.planning.read_on import READ_ON, TAILS, may_be_read, read_on
from storeio.planning.reasons import CONTRADICTED, require_clear, require_index_clear, require_placed
from storeio.planning.salvaging import InPlace, plan_salvage, with_true_heads
from storeio.planning.selection import Selection
from storeio.planning.summary import (
    asks_for_index,
    by_names,
    codes_of,
    into_damage,
    queues_of,
    units_of,
)
from storeio.planning.target import Built, Target, has_ext
from storeio.planning.undecided import last_pointers
from storeio.rebuild.node import rebuild
from storeio.results import Audit, Progress, Tell
from storeio.scan import list_store, naming_store

EVERYTHING: Final = "everything"
ROUNDS: Final = 3  # an action may bring to light what another finding hid
LOOKS: Final = 8  # at the log in each: of records that name other places one hides those in front of it
AGAIN: Final = "there may be more: apply this plan, and make another"


def _is_damaged(findings: Sequence[Finding], part: str) -> bool:
    return any(f.severity in (ERROR, WARNING) and f.path.split("/")[0] == part for f in findings)


class Planner:
    """One plan while it is made."""

    def __init__(
        self, root: Path, scratch: Path, settings: dict[str, str], jobs: int | None, withheld: frozenset[str],
        progress: Tell | None = None, former: Planner | None = None,
    ) -> None:  # fmt: skip
        """Begin anew; after one that contradicted itself, of what it saw when its first actions were done.

        Units that spoke against records, and were believed, may have gone with those actions. What is contradicted
        again is left as it is.
        """
        self.settings, self.jobs, self.withheld = settings, jobs, withheld
        self.work = work = Path(tempfile.mkdtemp(dir=scratch))
        listing = list_store(root)
        self.config = infer_config(listing, settings)
        self._sizes = {CONSUMEQUEUE: self.config.queue_file_bytes, BATCHQUEUE: self.config.batch_file_bytes}
        self.store = LinkedStore(listing, work / "store")
        self.draft = Draft(self.store, work / "bytes")
        self._rebuilds, self.progress = 0, progress
        self.donors: Sequence[str | os.PathLike[str]] | None = None  # of a salvage
        self.broker: str | None = None  # whose index it is, where nothing else tells
        self.read_to: Callable[[], int] | None = None  # where brokers find the log's end, if they start
        self.read_so_far = 0  # where they find it in the store as it is
        self.gives_up_units = False  # whether they then cut units off that they keep now
        self.kept: list[Finding] = []  # of units and keys that brokers keep, although they point behind our end
        self.keeps_keys = False  # whether the next start would delete index files for what the checkpoint says of them
        self.in_place = InPlace()
        self.rewritten: set[str] = set()  # what was planned of one rebuild, and is otherwise in a later one
        self.later: Built | None = None
        self.basis: Built | None = (former.basis or former.later) if former is not None else None
        self.barred: frozenset[str] = frozenset()
        if former is not None and former.basis is not None:
            self.barred = former.barred | former.rewritten

    def changes(self, parts: Iterable[str]) -> bool:
        """Tell whether the plan changes each of some parts of the store; a salvage is not made without the log."""
        changed = {action.path.split("/")[0] for action in self.draft.actions}
        return changed.issuperset(parts) and (self.donors is None or COMMITLOG not in parts)

    @property
    def changes_log(self) -> bool:
        """Whether the plan changes what brokers read as the log."""
        return any(action.risk == model.LOG for action in self.draft.actions)

    @property
    def untold(self) -> Sequence[int]:
        """Physical offsets of damaged records of which nothing tells what they were, as the last rebuild saw it."""
        made = self.later or self.basis
        return made.untold if made is not None else ()

    def audited(self) -> Audit:
        """Return the audit of the store as the plan would leave it, with the settings of the first one."""
        return audit.check(self.store.root, given=self.settings, jobs=self.jobs, progress=self._tell)

    def _tell(self, progress: Progress) -> None:
        if self.progress is not None:
            self.progress(replace(progress, phase=f"the result: {progress.phase}"))

    def run(self, found: Audit, select: Selection, *, allow_log: bool) -> Audit:
        """Plan until nothing is left that an action could cure; return the audit of what comes out."""
        self.draft.allow_log, self.draft.may_move = allow_log, select.takes_risk(model.METADATA)
        if EVERYTHING not in self.withheld:
            found = self._rounds(found, select)
        look_at_lock(self.draft)
        return found

    def _rounds(self, found: Audit, select: Selection) -> Audit:
        for number in range(ROUNDS):
            count = self.draft.steps
            wanted = self._wanted(found, select)
            if self.donors is not None and not number:
                named = [finding for finding in wanted if finding.code in OF_NAMES]
                self._layout(found, named, select)
                self._salvage(self.donors)
                found = self.audited()
                wanted = self._wanted(found, select)
            if any(f.code == "LOG_MISSING" for f in found.findings):
                break  # nothing follows from a log that is not there, and what starts without it deletes all queues
            found, wanted = self._log(found, wanted, select)
            middle = self.draft.steps
            self._derived(found, wanted, select)
            if self.rewritten:
                break
            if self.draft.steps > middle:
                found = self.audited()
            if self.draft.steps == count:
                break
        else:
            if any(finding.severity in (ERROR, WARNING) for finding in found.findings):
                self.draft.left_out.add(AGAIN, "what these actions bring to light")
        return found

    def _log(self, found: Audit, wanted: list[Finding], select: Selection) -> tuple[Audit, list[Finding]]:
        """Plan the layout until nothing more of it comes to light; return the audit then, and what is wanted of it."""
        for _ in range(LOOKS):
            count = self.draft.steps
            self._layout(found, wanted, select)
            if self.draft.steps == count:
                break
            found = self.audited()
            wanted = self._wanted(found, select)
        return found, wanted

    def _wanted(self, found: Audit, select: Selection) -> list[Finding]:
        """Return the findings that are to be cured, without those of units that brokers keep: remember these."""
        self.kept, end = [], found.log.max_physical_offset
        if self.read_to is not None and any(map(may_be_read, found.findings)) and (stop := self.read_to()) > end:
            self.kept = read_on(self.draft, found.findings, stop)
        if self.in_place.lost < 0 and self.changes_log:  # the log that it leaves may end before the one that is there
            self.gives_up_units |= bool(read_on(self.draft, found.findings, self.read_so_far)) and not self.kept
        kept = set(self.kept)
        return [f for f in found.findings if f.severity in (ERROR, WARNING) and select.takes(f) and f not in kept]

    def _salvage(self, donors: Sequence[str | os.PathLike[str]]) -> None:
        """Make the log whole."""
        others = []
        for donor in donors:
            with naming_store(donor):
                others.append(self._look(donor))
        with self._left_out("the damaged log"):
            self.in_place = plan_salvage(self.draft, self.work / "arranged", self._look, others)

    def _look(self, root: str | os.PathLike[str]) -> audit.Concluded:
        return audit.look_at_store(root, given=self.settings, jobs=self.jobs, kept=DOUBT_CODES)

    def _layout(self, found: Audit, wanted: Iterable[Finding], select: Selection) -> None:
        risky = self.draft.allow_log and select.takes_risk(model.LOG) and COMMITLOG not in self.withheld
        tame, size = select.takes_risk(model.METADATA), self.config.commitlog_file_bytes
        chosen = [f for f in wanted if (risky if is_of_log(f, size) else tame)]
        for finding in [f for f in chosen if self.kept and f.code in TAILS]:
            self.draft.left_out.add(READ_ON, finding.path)
            chosen.remove(finding)
        plan_layout(self.draft, found, chosen, segment_bytes=size, salvaged=self.in_place.lost >= 0)

    def _derived(self, found: Audit, wanted: list[Finding], select: Selection) -> None:
        queues = queues_of(wanted) if select.takes_risk(model.DERIVED) else {}
        index = codes_of(filter(asks_for_index, wanted)) if select.takes_risk(model.DERIVED) else ()
        point = codes_of(f for f in wanted if f.code.startswith("CHECKPOINT_"))
        is_sound = not any(map(asks_for_index, found.findings))
        if (
            self.keeps_keys
            and is_sound
            and not _is_damaged(found.findings, COMMITLOG)
            and select.takes(Finding("ABORT_PRESENT", CHECKPOINT, 0, 0))
        ):
            point = (*point, "ABORT_PRESENT")
        index = index if INDEX not in self.withheld else ()
        may_point = select.takes_risk(model.METADATA) and CHECKPOINT not in self.withheld
        point = point if may_point else ()
        if not (queues or index or point):
            return
        try:
            made = self._built(found)
        except UnreadableError as error:
            self.draft.left_out.add(str(error), "all that is derived from the log")
            return
        place, built = made.place, made.rebuilt
        elsewhere = misplaced(self.draft, found.findings, self.config.commitlog_file_bytes)
        pointing = queues_pointing_at(self.draft, found.findings, elsewhere)
        is_ahead = bool(pointing) or index_points_at(found.findings, elsewhere)  # of what the log is as it lies there
        by_queue = {(queue.kind, queue.topic, queue.queue_id): queue for queue in built.queues}
        about, kept = by_names(found.findings), by_names(self.kept)
        last = last_pointers(self.draft, found.findings, {key: queue.units for key, queue in by_queue.items()})
        for key, codes in sorted(queues.items()):
            name = f"queue {key[1]}/{key[2]}"
            with self._derived_part(name):
                self._require_agreed(name)
                require_placed(is_ahead=key[1:] in pointing)
                require_clear(self.draft, about[key[1:]], key, last, made.untold)
                why = Why(model.DERIVED, "as the commitlog says", codes, *key[1:])
                target = Target(*key, by_queue.get(key), self._sizes[key[0]], why)
                held = [*into_damage(about[key[1:]], key), *units_of(kept.get(key[1:], ()), key)]
                self._queue(place, target, held, built.min_physical_offset)
        if index:
            with self._derived_part("the index"):
                self._require_agreed("the index")
                require_placed(is_ahead=is_ahead)
                require_index_clear(found, last, made.untold, self.kept)
                plan_index(self.draft, place, Why(model.DERIVED, "built anew from the commitlog", index))
                is_sound = True
        if point or (index and may_point and select.takes_path(CHECKPOINT)):  # it names the end of an index file
            why = Why(model.METADATA, "what is true of the log and the index", point)
            with self._derived_part("the checkpoint"):
                self._require_agreed("the checkpoint")
                require_placed(is_ahead=is_ahead)
                plan_checkpoint(self.draft, place, self.settings, why, vouches=is_sound)
                self.keeps_keys = False

    def _built(self, found: Audit) -> Built:
        """Return a rebuild of the store as it is planned so far; the basis comes first, if there is one.

        Raises:
            UnreadableError: A segment could not be read.
        """
        number, self._rebuilds = self._rebuilds, self._rebuilds + 1
        if self.basis is not None and not number:
            return self.basis
        place, source = self.work / f"rebuilt-{number}", self.store.root
        untold: Sequence[int] = ()
        if any(finding.code in DOUBT_CODES for finding in found.findings):
            source, untold = with_true_heads(source, self.work / f"{place.name}-from", self._look)
        made = rebuild(source, place, given=self.settings, broker=self.broker, jobs=self.jobs)
        self.later = Built(place, made, untold)
        return self.later

    @contextmanager
    def _left_out(self, what: str) -> Iterator[None]:
        """Go on without what an apply would refuse, and remember that."""
        try:
            yield
        except RefusedError as error:
            self.draft.left_out.add(str(error), what)

    @contextmanager
    def _derived_part(self, what: str) -> Iterator[None]:
        """Go on likewise, and remember if it was planned of an earlier rebuild, too, and otherwise."""
        with self._left_out(what):
            try:
                yield
            except RewrittenError:
                self.rewritten.add(what)
                raise

    def _require_agreed(self, what: str) -> None:
        if what in self.barred:
            raise RefusedError(CONTRADICTED)

    def _queue(self, place: Path, target: Target, held: Sequence[range], log_min: int) -> None:
        """Plan one queue and its ext files; ``held`` are units into damage of the log, which stay where they are."""
        targets = [target]
        if target.kind == CONSUMEQUEUE and has_ext(place, target):
            targets.append(replace(target, kind=QUEUE_EXT, file_bytes=self.config.ext_file_bytes))
        if held:
            # Units in log order would all move, and ext files are numbered in it, too.
            in_order = target.kind == BATCHQUEUE or target.topic.startswith(log.LMQ_PREFIX)
            if target.built is None or len(targets) > 1 or in_order:
                raise RefusedError("units point into damage of the log: salvage it first")
            first, stop = target.built.first, target.built.stop
            front, tail = any(part.start < first for part in held), any(part.stop > stop for part in held)
            targets = [replace(target, keeps_front=front, keeps_tail=tail)]
        for each in targets:  # both or none: units of the one hold addresses in the other
            make_way_for(self.draft, place, each)
        for each in targets:
            plan_queue(self.draft, place, each, log_min=log_min, delays_ms=self.config.delays_ms)
