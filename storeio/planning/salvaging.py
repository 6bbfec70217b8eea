"""Actions that make a damaged log whole in place: what a salvage writes into a new store, written into this one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np

from storeio.audit import Concluded
from storeio.checks.places import is_segment
from storeio.checks.ranges import merged, near_ranges, subtract
from storeio.errors import UnreadableError
from storeio.linked import LinkedStore, linked
from storeio.paths import COMMITLOG, file_name
from storeio.plan import model
from storeio.planning.draft import Draft, Why
from storeio.planning.limits import RefusedError
from storeio.planning.obstacles import make_way
from storeio.salvage import holes
from storeio.salvage.arrange import arranged
from storeio.salvage.decide import Decision, decide
from storeio.salvage.doubts import Doubts
from storeio.salvage.survey import survey
from storeio.scan import Listing, list_store

AT_ONCE: Final = 1 << 20
NOT_SALVAGED: Final = -1  # as the number of lost messages: there is no log
ZEROS_BYTES: Final = 64 << 20  # of one action
NEAR: Final = 64  # bytes between differences that are written as one
PLACED: Final = Why(model.LOG, "records say that they belong here")
LENGTH: Final = Why(model.LOG, "a segment of the log, without which brokers refuse to start")
EMPTIED: Final = Why(model.LOG, "all that it held was put where its records say")
BESIDE: Final = Why(model.LOG, "its name is none of a segment, and what the log had room for was put where it belongs")
REASONS: Final = {
    holes.RESTORED: "one field of this record was damaged, and what stood there has one answer",
    holes.TOMBSTONE: "a record without content takes the number of a lost message, so that its queue has no gap",
    holes.FILLER: "a record that brokers read over, where nothing can be saved",
    holes.BLANK: "closes the segment where its last record ends",
    holes.ZEROS: "lies behind the end of the log; a later recovery could take it for live",
}


@dataclass(frozen=True, slots=True)
class InPlace:
    """What is to be said of a salvage in place: what could not be planned, how many messages are lost, notes."""

    problems: list[str] = field(default_factory=list)
    lost: int = NOT_SALVAGED
    notes: list[str] = field(default_factory=list)


def plan_salvage(
    draft: Draft, scratch: Path, look: Callable[[Path], Concluded], donors: Sequence[Concluded]
) -> InPlace:
    """Add the actions of a salvage in place, and return what else there is to say of it.

    Everything is put into its place in links to the store first: no byte of a plan is written twice.

    Args:
        draft: The plan so far; misnamed segments have their names already.
        scratch: Directory that can be made.
        look: Audits a store.
        donors: Audits of other copies of its log.

    Raises:
        RefusedError: An apply would not touch all segments, or what is there is no log; nothing was added.
    """
    listing = list_store(draft.store.root)
    others = (scratch.with_name(f"{scratch.name}-donor-{number}") for number in count())

    def begin(found: Concluded) -> LinkedStore:
        is_own = found.plan.root == os.fspath(draft.store.root)
        return LinkedStore(listing, scratch) if is_own else linked(found.plan.listing, next(others))

    try:
        placed = arranged(look(draft.store.root), donors, begin, look)
        found, decision = placed.found, decide(survey(placed.found))
    except UnreadableError as error:
        raise RefusedError(str(error)) from None
    if not found.plan.segments:
        if listing.of_kind(COMMITLOG):
            raise RefusedError("none of its files is a segment, or holds a record of one")
        return InPlace()
    size = found.plan.segment_bytes
    segments = [f"{COMMITLOG}/{file_name(base)}" for base in decision.segments]
    patched = merged((patch.physical_offset, patch.stop) for patch in decision.patches)
    make_way(draft, [*segments, *(file.path for file in listing.of_kind(COMMITLOG))], LENGTH)
    _move_strays(draft, listing, found)
    for base, path in zip(decision.segments, segments, strict=True):
        if not draft.store.exists(path):
            draft.create(path, size, LENGTH)
        elif draft.store.length(path) != size:
            draft.resize(path, size, LENGTH)
        if scratch.exists():
            _write_placed(draft, scratch / path, base, size, patched)
    _write_patches(draft, decision, size)
    lost = sum(part.stop - part.first for part in decision.missing)
    return InPlace(list(decision.tight), lost, [each.sentence for each in placed.otherwise])


def with_true_heads(root: Path, scratch: Path, look: Callable[[Path], Concluded]) -> tuple[Path, list[int]]:
    """Return a store whose log says what its damaged records said: links and copies below ``scratch``, or ``root``.

    And the physical offsets, ascending, of those of which nothing tells what they said.

    Queues and index are to be what they were before a record's topic, queue or number was damaged. What the log says
    would take the message from its queue, for which nothing but the queue unit speaks any more.

    Args:
        root: The store, which is only read.
        scratch: Directory that can be made.
        look: Audits a store.

    Raises:
        UnreadableError: A file could not be read.
    """
    found = survey(look(root))
    answers = list(Doubts(found).answers())
    records = [answer.fixed for _, answer in answers if answer.fixed is not None]
    told = {place for place, answer in answers if answer.fixed is not None}
    untold = sorted({*found.without_keys, *(place for place, _ in answers)} - told)
    if not records:
        return root, untold
    store = LinkedStore(list_store(root), scratch)
    for record in records:
        base = record.start - record.start % found.segment_bytes
        store.write(found.files[base].path, record.start - base, record.restored.raw)
    return store.root, untold


def _move_strays(draft: Draft, listing: Listing, found: Concluded) -> None:
    """Move the files of the log that are none of it once everything is in its place."""
    there = {file.path for file in found.plan.listing.files}
    for file in listing.of_kind(COMMITLOG):
        if file.path not in there:
            draft.move(file.path, EMPTIED if is_segment(file.path, found.plan.segment_bytes) else BESIDE)
            draft.left_out.forget(file.path)


def _write_placed(draft: Draft, made: Path, base: int, size: int, patched: Sequence[tuple[int, int]]) -> None:
    """Write what was put into a segment; what a patch writes is left to it."""
    path = f"{COMMITLOG}/{made.name}"
    for low, high in _differing(draft, made, path, size):
        for start, stop in subtract((base + low, base + high), patched):
            with made.open("rb") as file:
                file.seek(start - base)
                draft.write(path, start - base, file.read(stop - start), PLACED)


def _differing(draft: Draft, made: Path, path: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield where a segment that was put into place differs from what the draft has, in pieces of bounded size."""
    if made.is_symlink() or not made.exists():
        return
    with made.open("rb") as file:
        for low in range(0, size, AT_ONCE):
            high = min(low + AT_ONCE, size)
            new = np.frombuffer(file.read(high - low).ljust(high - low, b"\0"), np.uint8)
            old = np.frombuffer(b"".join(draft.store.pieces(path, low, high)), np.uint8)
            yield from near_ranges(np.flatnonzero(new != old) + low, NEAR)


def _write_patches(draft: Draft, decision: Decision, size: int) -> None:
    """Add what a decision writes and does not stand there: the store may have been salvaged before."""
    for patch in decision.patches:
        base = patch.physical_offset - patch.physical_offset % size
        lost = patch.lost
        topic, queue_id = (lost.topic.decode("utf-8", "replace"), lost.queue_id) if lost else (None, None)
        why = Why(model.LOG, REASONS[patch.kind], topic=topic, queue_id=queue_id)
        path = f"{COMMITLOG}/{file_name(base)}"
        for place, data in _parts(patch):
            if not _stands(draft, path, place - base, data):
                draft.write(path, place - base, data, why)


def _parts(patch: holes.Patch) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a patch and their physical offsets; those that nobody reads apart, and of bounded size."""
    if patch.kind not in (holes.BLANK, holes.ZEROS):
        yield patch.physical_offset, patch.bytes.whole()
        return
    yield patch.physical_offset, patch.bytes.head
    for start in range(patch.physical_offset + len(patch.bytes.head), patch.stop, ZEROS_BYTES):
        yield start, bytes(min(ZEROS_BYTES, patch.stop - start))


def _stands(draft: Draft, path: str, start: int, data: bytes) -> bool:
    """Tell whether these bytes are there already; they may be those of a whole segment."""
    at = 0
    for piece in draft.store.pieces(path, start, start + len(data)):
        if data[at : at + len(piece)] != piece:
            return False
        at += len(piece)
    return True
