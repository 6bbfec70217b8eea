"""``storeio plan``: audit, decide, rebuild what is derived, and prove the result on an overlay of the store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from storeio import audit
from storeio.audit.named import require_known
from storeio.config import Given
from storeio.errors import UnreadableError, UsageError
from storeio.linked import copied
from storeio.output.targets import refuse_itself
from storeio.paths import CHECKPOINT, COMMITLOG, INDEX
from storeio.plan.results import GOALS, REPAIR, SALVAGE, Planned
from storeio.planning.finished import finished
from storeio.planning.harm import is_worse, takes_more
from storeio.planning.output import output_for
from storeio.planning.planner import EVERYTHING, Planner
from storeio.planning.selection import Selection
from storeio.predict.start import simulate
from storeio.results import Audit, Tell, messages_in
from storeio.salvage.node import told_by
from storeio.scan import kept_open, several
from storeio.simulate.ends import STARTS
from storeio.simulate.predicted import Prediction
from storeio.simulate.rules import NEWEST, rules_of
from storeio.uris import is_remote, place_of, shown

# What is left out where a plan would lead to a start that does more harm than before. A true checkpoint may do so, or
# a segment under its own name: recovery then begins earlier, comes to damage in the log that it would have passed over,
# and cuts there.
WITHHELD: Final = (
    (CHECKPOINT,), (CHECKPOINT, INDEX), (COMMITLOG,), (COMMITLOG, CHECKPOINT), (COMMITLOG, CHECKPOINT, INDEX)
)  # fmt: skip
OF_RECOVERY: Final = frozenset((CHECKPOINT, INDEX))  # what tells recovery where to begin


@kept_open()
def plan_store(
    root: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    broker: str | None = None,
    given: Mapping[str, str] | None = None,
    select: Selection | None = None,
    allow_log: bool = False,
    goal: str = REPAIR,
    donors: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    jobs: int | None = None,
    progress: Tell | None = None,
) -> Planned:
    """Return the plan for the store at ``root``, which is only read; kept in ``out`` and ``out`` + ".bytes", if given.

    Args:
        root: The store directory, or its URI: then it is copied beside ``out`` while the plan is made.
        out: File for the plan, in no store; without, nothing is kept, and there is nothing to apply.
        broker: Version that is to start afterwards, and as which tags are indexed where the store does not tell;
            the newest if not given, which tells nothing of tags.
        given: Broker settings by name; what is not given is told from the files.
        select: Which actions are wanted, by default all.
        allow_log: Whether actions may touch the commitlog.
        goal: ``repair``, or ``salvage`` to make a damaged log whole in place, too, which needs ``allow_log``.
        donors: Other copies of the log, for ``salvage``.
        jobs: Threads, by default one a core.
        progress: Called while the store is audited, and again each time the result of the plan is.

    Raises:
        NotAStoreError: ``root`` is no store.
        UsageError: A bad setting or version, a selection that the store has not, or ``out`` lies in the store.
        UnreadableError, WriteError: A file could not be read, or written.
    """
    started, starting = time.monotonic(), rules_of(broker or NEWEST).version
    store, donors = place_of(os.fspath(root)), several(donors)
    _require_goal(goal, donors, store, allow_log=allow_log)
    copies = [place_of(os.fspath(donor)) for donor in donors]
    with output_for(out, store, *copies) as output, output.scratch() as scratch:
        root = copied(store, scratch / "copy").root if is_remote(store) else store
        before = replace(audit.check(root, given=given, jobs=jobs, progress=progress), store=shown(store))
        _require_seen(before, (select := select or Selection()))
        settings = Given(given).over(told_by(before.settings))
        starts = _Starts(root, starting, settings, partial(_mended, Path(root), scratch, settings, jobs, before))
        donors_of_log = donors if goal == SALVAGE else None
        make = partial(Planner, Path(root), scratch, settings, jobs, progress=progress)
        attempts = _Attempts(make, starts, before, select, donors_of_log, broker, allow_log)
        best = _with_most_keys(_least_harmful(attempts.plan, starts), attempts.plan, starts)
        first, then = replace(starts.first, store=shown(store)), starts.after(best)
        audits, bytes_name = (before, best.after), output.bytes.name
        plan = finished(
            best.planner, shown(store), starting, bytes_name, audits, (first, then), allow_log=allow_log
        )  # fmt: skip
        output.keep(plan, scratch, best.planner.draft.bytes_path)
        found = Planned(plan, before, best.after, first, then, time.monotonic() - started, goal, allow_log)
        notes = (*output.notes, *best.planner.in_place.notes)
        return replace(found, lost=_lost(before, best), notes=notes, chosen=select != Selection())


def _lost(before: Audit, best: _Attempt) -> int:
    """Return how many messages are lost; without a salvage, not those that the log has again once it is mended.

    What units told before they were cleared is lost all the same, and so is a message half of which was cut off: once
    its segment is padded with zeros, brokers take what is left for a record.
    """
    if best.planner.in_place.lost >= 0:
        return best.planner.in_place.lost
    after = best.after
    parts = [(part.physical_start, part.physical_stop) for part in before.lost]
    torn = sum(any(low <= at < high for low, high in parts) for at in best.planner.untold)
    again = after.log.records - before.log.records - torn + messages_in(after.misplaced)
    return max(messages_in([*before.lost, *before.misplaced]) - max(again, 0), messages_in(after.lost))


def _require_seen(before: Audit, select: Selection) -> None:
    """Raise if the commitlog's directory could not be listed: nothing would be known of any message.

    Raises:
        UnreadableError: It could not.
        UsageError: A selected topic or queue is nowhere in the store.
    """
    require_known(select.queues, before)
    for finding in before.findings:
        if finding.code == "UNREADABLE" and finding.path == COMMITLOG:
            raise UnreadableError(f"{finding.path}: {finding.detail}")


def _require_goal(goal: str, donors: Sequence[str | os.PathLike[str]], store: str, *, allow_log: bool) -> None:
    for donor in donors:
        refuse_itself("--donor", donor, store)
    if goal not in GOALS:
        raise UsageError(f"--goal {goal}: {' or '.join(GOALS)} is needed")
    if donors and goal != SALVAGE:
        raise UsageError("--donor needs --goal salvage: only that takes messages from other copies")
    if goal == SALVAGE and not allow_log:
        raise UsageError("--goal salvage changes the commitlog: it needs --allow-log")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A plan, the audit of what comes out of it, and what a broker's start then does."""

    planner: Planner
    after: Audit
    start: Prediction


class _Starts:
    """Starts of one broker on the store as it is and as plans leave it: what they do, and what they are judged by.

    Where tables or the timer wheel refuse them, which no plan mends, they are judged as if these were mended: whoever
    does that starts the broker then. So it is with what refuses them and is left since it is not wanted: ``mended``
    gives the root of a store in which all is done, but for the parts of a plan that it is given.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        broker: str,
        settings: Mapping[str, str],
        mended: Callable[[frozenset[str]], Path],
    ) -> None:
        self._mended = mended
        self._free: dict[frozenset[str], Prediction] = {}
        self._start = partial(simulate, broker=broker, given=settings, digests=False)
        self.first = self.now = self._start(root)
        self._judged = self._start
        if self.first.once_mended is not None:
            self._judged, self.now = partial(self._start, metadata=False), self.first.once_mended

    def judged(self, planner: Planner) -> Prediction:
        """Return the start by which a plan is judged."""
        return self._judged(planner.store.root) if planner.draft.actions else self.now

    def log_end(self, planner: Planner | None = None) -> int:
        """Return where the log ends for the start by which a plan is judged so far; 0 if it does not come so far.

        Without one, for that on the store as it is.
        """
        state = (self.now if planner is None else self.judged(planner)).outcome.after_load
        return 0 if state is None else state.max_physical_offset

    def loses_keys(self, start: Prediction) -> bool:
        """Tell whether a start deletes index entries for good; where a broker runs, it is not the next thing there."""
        return start.keys_lost > 0 and self.first.running_end is None

    def is_harmful(self, attempt: _Attempt, worse: Callable[[Prediction, Prediction], bool]) -> bool:
        """Tell whether the start on what a plan leaves is worse than that on the store as it is, once it starts."""
        one, other = attempt.start, self.now
        if worse(one, other) or attempt.planner.gives_up_units:
            return True
        changed = {part for part in OF_RECOVERY if attempt.planner.changes((part,))}
        changed |= {COMMITLOG} if attempt.planner.changes_log else set()
        if not changed or STARTS in (one.outcome.outcome, other.outcome.outcome):
            return False
        return worse(self._once_free(OF_RECOVERY - changed), self._once_free(OF_RECOVERY | changed))

    def _once_free(self, left: frozenset[str]) -> Prediction:
        """Return the start by which plans are judged, if all is mended but some of what recovery goes by."""
        if left not in self._free:
            self._free[left] = self._judged(self._mended(left))
        return self._free[left]

    def after(self, attempt: _Attempt) -> Prediction:
        """Return the start on what a plan leaves."""
        if not attempt.planner.draft.actions:
            return self.first
        return attempt.start if self.now is self.first else self._start(attempt.planner.store.root)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """Plans for one store that are tried; ``make`` makes a planner, from what it withholds and a former one."""

    make: Callable[..., Planner]
    starts: _Starts
    before: Audit
    select: Selection
    donors: Sequence[str | os.PathLike[str]] | None
    broker: str | None
    allow_log: bool

    def plan(self, withheld: Iterable[str], former: Planner | None = None, *, keeps_keys: bool = False) -> _Attempt:
        """Return the plan without what is withheld; one that contradicts itself is made again."""
        planner = self.make(frozenset(withheld), former=former)
        planner.donors, planner.broker = self.donors, self.broker
        planner.read_to, planner.read_so_far = lambda: self.starts.log_end(planner), self.starts.log_end()
        planner.keeps_keys = keeps_keys = keeps_keys or self.starts.loses_keys(self.starts.now)
        after = planner.run(self.before, self.select, allow_log=self.allow_log)
        if planner.rewritten:
            return self.plan(withheld, planner, keeps_keys=keeps_keys)
        made = _Attempt(planner, after, self.starts.judged(planner))
        if not keeps_keys and self.starts.loses_keys(made.start):
            return self.plan(withheld, keeps_keys=True)
        return made


def _mended(
    root: Path, scratch: Path, settings: dict[str, str], jobs: int | None, before: Audit, withheld: frozenset[str]
) -> Path:
    """Return the root of a store in which all is done that a plan can do, but for some of its parts."""
    planner = Planner(root, scratch, settings, jobs, withheld)
    planner.run(before, Selection(), allow_log=True)
    return planner.store.root


def _least_harmful(attempt: Callable[[Iterable[str]], _Attempt], starts: _Starts) -> _Attempt:
    """Return the first attempt of which a start takes nothing out of the log that it leaves there now.

    If there is none, the first that gives up no more in all; if there is none, one that does nothing.

    Args:
        attempt: Plans without what it is given.
        starts: Of the broker.
    """
    tried = [attempt(())]
    for withheld in WITHHELD:
        if not starts.is_harmful(tried[-1], takes_more):
            return tried[-1]
        if tried[0].planner.changes(withheld):
            tried.append(attempt(withheld))
    if not starts.is_harmful(tried[-1], takes_more):
        return tried[-1]
    tame = next((each for each in tried if not starts.is_harmful(each, is_worse)), None)
    if tame is None:
        tame = attempt((EVERYTHING,))
        tame.planner.in_place.problems.extend(tried[0].planner.draft.left_out.sentences())
    return tame


def _with_most_keys(best: _Attempt, attempt: Callable[[Iterable[str]], _Attempt], starts: _Starts) -> _Attempt:
    """Return a plan, or the same one without the checkpoint where that has the start delete more of the index for good.

    Behind a crash without a checkpoint, brokers make the index of the whole log; with a true one they delete files that
    it does not vouch for, and begin in the last segments: a pity where the index is left since nobody can make it anew.
    """
    if not best.planner.changes((CHECKPOINT,)) or not starts.loses_keys(best.start):
        return best
    other = attempt((*best.planner.withheld, CHECKPOINT))
    is_better = other.start.keys_lost < best.start.keys_lost and not starts.is_harmful(other, takes_more)
    return other if is_better else best
