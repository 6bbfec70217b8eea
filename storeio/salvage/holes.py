"""What is written where records were lost: tombstones and fillers that cover a hole exactly, or close its segment.

Pure. A hole is a run of free bytes and of slots, places of which a queue unit tells exactly what lay there. Tombstones
go where their slots are, others into the free bytes; what is left over becomes fillers, the end of a segment a blank
record.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from storeio.format import commitlog as log
from storeio.salvage.fillers import (
    LEAST_BYTES,
    MOST_BYTES,
    Bytes,
    Lost,
    Setting,
    filler,
    least_tombstone,
    tombstone,
    usual_tombstone,
)  # fmt: skip

FILLER: Final = "filler"
TOMBSTONE: Final = "tombstone"
BLANK: Final = "blank"
RESTORED: Final = "restored"
USUAL_BYTES: Final = 256  # of a filler that may have any size
ZEROS: Final = "zeros"
T = TypeVar("T")
BEHIND_ALL: Final = 2**63 - 1  # behind every place of a log
MOST_TRIED: Final = 16  # tombstones that are too long for a free piece before it is left to fillers


@dataclass(frozen=True, slots=True)
class Patch:
    """New bytes at a place of the log. ``lost`` is the message that a tombstone stands for."""

    physical_offset: int
    kind: str
    bytes: Bytes
    lost: Lost | None = None

    @property
    def stop(self) -> int:
        """Behind the last byte."""
        return self.physical_offset + len(self.bytes)


@dataclass(frozen=True, slots=True)
class Want:
    """A tombstone that is to be written: at ``[place, place + size)``, or, without a place, in ``[low, high)``."""

    lost: Lost
    place: int = -1
    size: int = 0
    low: int = 0
    high: int = BEHIND_ALL

    @property
    def queue(self) -> tuple[bytes, int]:
        """Whose number it takes."""
        return self.lost.topic, self.lost.queue_id


@dataclass(slots=True)
class Hole:
    """Bytes ``[start, stop)`` of one segment that are to be covered.

    ``closes`` says that nothing follows in the segment, which ends at ``segment_stop``: then a blank record may begin
    anywhere. ``unplaced`` are tombstones for which there was no room.
    """

    start: int
    stop: int
    segment_start: int
    segment_stop: int
    closes: bool
    setting: Setting
    wants: Sequence[Want] = ()
    unplaced: list[Want] = field(default_factory=list)


def joined_holes(rows: Iterable[tuple[Hole, list[T]]]) -> Iterator[tuple[Hole, list[T]]]:
    """Yield holes in order, each joined with the one that follows at its end in the same segment; its list grows."""
    last: tuple[Hole, list[T]] | None = None
    for hole, slots in rows:
        if last is not None and last[0].stop == hole.start > hole.segment_start and not last[0].closes:
            joined = replace(last[0], stop=hole.stop, closes=hole.closes, setting=hole.setting)
            last[1].extend(slots)
            last = joined, last[1]
            continue
        if last is not None:
            yield last
        last = hole, slots
    if last is not None:
        yield last


class TooSmallError(ValueError):
    """No record is so small as a hole."""


def filled(hole: Hole) -> Iterator[Patch]:
    """Yield what covers a hole, in order, each byte once.

    Raises:
        TooSmallError: The hole is smaller than any record, and not at the end of its segment.
    """
    rows = _rows(hole)
    for i, ((low, high, want), setting) in enumerate(zip(rows, _settings(rows, hole.setting), strict=True)):
        if want is not None:
            yield Patch(low, TOMBSTONE, tombstone(low, high - low, want.lost, setting), want.lost)
        elif hole.closes and i == len(rows) - 1:
            yield from _closed(low, hole)
            return
        else:
            yield from fillers_over(low, high, setting)
    if hole.closes and (not rows or rows[-1][1] < hole.segment_stop):
        yield _blank(rows[-1][1] if rows else hole.start, hole)


Row = tuple[int, int, Want | None]


def _rows(hole: Hole) -> list[Row]:
    """Return the hole cut into tombstones and free pieces, none of them too small for a record."""
    slots = sorted((want for want in hole.wants if want.place >= 0), key=lambda want: want.place)
    free = [want for want in hole.wants if want.place < 0]
    rows: list[Row] = []
    at = hole.start
    for slot in slots:
        if slot.place < at or slot.place + slot.size > hole.stop or least_tombstone(slot.lost) > slot.size:
            free.append(slot)
            continue
        if slot.place > at:
            rows.append((at, slot.place, None))
        rows.append((slot.place, slot.place + slot.size, slot))
        at = slot.place + slot.size
    if at < hole.stop:
        rows.append((at, hole.stop, None))
    return _joined(list(_with(rows, free, hole)), hole)


def _settings(rows: Sequence[Row], setting: Setting) -> list[Setting]:
    """Return the setting of each row: times never fall, and some tombstones know their own."""
    found = []
    for _, _, want in reversed(rows):
        if want is not None and 0 < want.lost.store_ms < setting.store_ms:
            setting = replace(setting, store_ms=want.lost.store_ms)
        found.append(setting)
    return found[::-1]


def _with(rows: Sequence[Row], free: Iterable[Want], hole: Hole) -> Iterator[Row]:
    """Yield the rows with the tombstones that have no place put into the free ones, those of a queue in their order."""
    waiting = _Waiting(free)
    for low, high, want in rows:
        if want is not None:
            yield low, high, want
            continue
        closing = hole.closes and high == hole.stop
        stop = high - (log.BLANK_HEAD_BYTES if closing else 0)
        spare = stop - low - waiting.least
        while stop - low >= LEAST_BYTES and (one := waiting.take(low, stop)) is not None:
            least, usual = least_tombstone(one.lost), usual_tombstone(one.lost, hole.setting)
            need = usual if usual - least <= spare and usual <= min(stop, one.high) - low else least
            rest = stop - low - need
            size = need + rest if rest < LEAST_BYTES and not closing else need
            yield low, low + size, one
            low, spare = low + size, spare - (size - least)
        if low < high:
            yield low, high, None
    hole.unplaced += waiting.left()


class _Waiting:
    """Tombstones that have no place yet: of each queue the next number, first the one that has to come soonest.

    ``least`` are the bytes that all of them need.
    """

    def __init__(self, wants: Iterable[Want]) -> None:
        self._queues: dict[tuple[bytes, int], deque[Want]] = {}
        for want in sorted(wants, key=lambda want: (want.high, want.lost.queue_offset)):
            self._queues.setdefault(want.queue, deque()).append(want)
        self.least = sum(least_tombstone(want.lost) for queue in self._queues.values() for want in queue)
        self._early: list[tuple[int, int, Want]] = []  # heap by where they may lie at the soonest
        self._ready: list[tuple[int, int, Want]] = []  # heap by where they must end
        self._late: list[Want] = []
        self._serial = itertools.count()
        for name in self._queues:
            self._next(name)

    def _next(self, name: tuple[bytes, int]) -> None:
        if self._queues[name]:
            want = self._queues[name].popleft()
            heapq.heappush(self._early, (want.low, next(self._serial), want))

    def take(self, low: int, stop: int) -> Want | None:
        """Return one that fits between two places, None if those that have to come soonest do not."""
        aside: list[tuple[int, int, Want]] = []
        found = None
        while found is None and len(aside) < MOST_TRIED:
            while self._early and self._early[0][0] <= low:
                _, serial, want = heapq.heappop(self._early)
                heapq.heappush(self._ready, (want.high, serial, want))
            if not self._ready:
                break
            entry = heapq.heappop(self._ready)
            one, least = entry[2], least_tombstone(entry[2].lost)
            if one.high - low >= least > stop - low:
                aside.append(entry)
                continue
            if one.high - low < least:
                self._late.append(one)
            else:
                found = one
            self.least -= least
            self._next(one.queue)
        for entry in aside:
            heapq.heappush(self._ready, entry)
        return found

    def left(self) -> list[Want]:
        """Return those that found no place."""
        heads = [entry[2] for entry in (*self._early, *self._ready)]
        return [*self._late, *heads, *itertools.chain.from_iterable(self._queues.values())]


def _joined(rows: list[Row], hole: Hole) -> list[Row]:
    """Return the rows with free pieces that are too small for a record added to a tombstone beside them.

    Raises:
        TooSmallError: There is none.
    """
    result: list[Row] = []
    for i, (low, high, want) in enumerate(rows):
        last = i == len(rows) - 1
        if want is None and high - low < LEAST_BYTES and not (last and hole.closes):
            if result and result[-1][2] is not None:
                result[-1] = result[-1][0], high, result[-1][2]
                continue
            if last:
                raise TooSmallError(f"{high - low} bytes at {low}")
            rows[i + 1] = low, rows[i + 1][1], rows[i + 1][2]
            continue
        result.append((low, high, want))
    return result


def fillers_over(low: int, high: int, setting: Setting) -> Iterator[Patch]:
    """Yield the fillers that cover a range of one segment."""
    count = -(-(high - low) // MOST_BYTES)
    for k in range(count):
        start, stop = low + (high - low) * k // count, low + (high - low) * (k + 1) // count
        yield Patch(start, FILLER, filler(start, stop - start, setting))


def _closed(low: int, hole: Hole) -> Iterator[Patch]:
    """Close a segment; behind a filler where it would hold nothing, since brokers look at a segment's first record."""
    if low == hole.segment_start and hole.segment_stop - low >= USUAL_BYTES + log.BLANK_HEAD_BYTES:
        yield Patch(low, FILLER, filler(low, USUAL_BYTES, hole.setting))
        low += USUAL_BYTES
    yield _blank(low, hole)


def _blank(low: int, hole: Hole) -> Patch:
    rest = hole.segment_stop - low
    return Patch(low, BLANK, Bytes(log.encode_blank(rest), rest - log.BLANK_HEAD_BYTES, b""))
