"""What the tests of ``rebuild`` share: settings of known stores, trees of bytes, the obvious placement of numbers."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import slow
from implied import COMMIT, PREPARED, ROLLBACK, SCHEDULE, Settings
from storebuilder import StoreBuilder, forged

from storeio.rebuild.node import rebuild
from storeio.rebuilt import Rebuilt

QUEUES = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
BLANK = struct.pack(">qiq", 0, 2**31 - 1, 0)
Tree = dict[str, bytes]


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing flushed: on a busy disk that takes longer than all the rest; one test sees that it is done."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda handle: None)


def tree(root: Path, *tops: str) -> Tree:
    """Return the content of all files below a directory, or below some of its directories."""
    places = [root / top for top in tops] if tops else [root]
    return {p.relative_to(root).as_posix(): p.read_bytes() for place in places for p in place.rglob("*") if p.is_file()}


def contents(files: Mapping[str, bytes], top: str) -> list[bytes]:
    """Return the content of a directory's files in order of their names, which are times."""
    return [data for path, data in sorted(files.items()) if path.startswith(f"{top}/")]


def settings_of(settings: Settings) -> dict[str, str]:
    """Return what a rebuild is to be told of a built store."""
    return {
        "mappedFileSizeCommitLog": str(settings.segment_bytes),
        "mappedFileSizeConsumeQueue": str(20 * settings.units_per_file),
        "mappedFileSizeConsumeQueueExt": str(settings.ext_bytes),
        "enableConsumeQueueExt": str(settings.ext).lower(),
        "enableMultiDispatch": str(settings.multi_dispatch).lower(),
        "maxHashSlotNum": str(settings.index_slots),
        "maxIndexNum": str(settings.index_units),
    }


def built(builder: StoreBuilder, into: Path, **options: Any) -> Rebuilt:
    """Write the log of a builder, rebuild it, and return the result."""
    assert builder.root is not None
    (builder.root / "commitlog").mkdir(parents=True, exist_ok=True)
    for base, data in builder.segment_files():
        (builder.root / "commitlog" / f"{base:020d}").write_bytes(data)
    return rebuild(builder.root, into, given=settings_of(builder.settings), **options)


def random_log(root: Path, seed: int, **sizes: Any) -> StoreBuilder:
    """Return a log with everything that brokers write: transactions, delays, light queues, batches, many keys."""
    chance = random.Random(seed)
    base = chance.choice((0, 16384 * 7))
    builder = StoreBuilder(root, base=base, settings=Settings(**sizes), start_ms=1_700_000_000_000 + seed)
    topics = ["a", "orders", "%RETRY%group", "x" * 130, *builder.settings.batch_topics]
    if base:  # retention deleted what was before
        builder.next_offsets = {(t, q): chance.randrange(200) for t in topics[:4] for q in range(3)}
    for _ in range(chance.randrange(120, 260)):
        topic, queue_id = chance.choice(topics), chance.randrange(3)
        keys = " ".join(f"k{chance.randrange(30)}" for _ in range(chance.randrange(3)))
        common: dict[str, Any] = {
            "tags": chance.choice((None, "t1", "t2")),
            "keys": keys or None,
            "unique_key": chance.choice((None, f"u{chance.randrange(1000)}")),
        }
        body = chance.randbytes(chance.randrange(1, 120))
        kind = chance.randrange(10)
        if topic in builder.settings.batch_topics:
            builder.message(topic, queue_id, body, inner=chance.randrange(1, 5), **common)
        elif kind == 0:
            builder.message(topic, queue_id, body, transaction=chance.choice((PREPARED, COMMIT, ROLLBACK)), **common)
        elif kind == 1:
            builder.message(topic, queue_id, body, delay=chance.randrange(1, 19), **common)
        elif kind == 2 and builder.settings.multi_dispatch:
            builder.message(topic, queue_id, body, lmq=("%LMQ%one", f"%LMQ%{chance.randrange(3)}"), **common)
        elif kind == 3 and len(topic) < 128:
            builder.batch(topic, queue_id, [body] * chance.randrange(1, 5))
        else:
            builder.message(topic, queue_id, body, **common)
    return builder


def log_with_lists(root: Path, seed: int, *, ordinary: bool, **sizes: Any) -> StoreBuilder:
    """Return a log of messages that list queues, and of others that were sent to these themselves.

    With ``ordinary`` queues that are not light ones are listed, too, which 4.9 alone gives numbers.
    """
    chance = random.Random(seed)
    builder = StoreBuilder(root, multi_dispatch=True, trailing_separator=not ordinary, units_per_file=7, **sizes)
    names = ["%LMQ%a", "%LMQ%b", "%LMQ%c", *(["orders", "listed"] if ordinary else [])]
    for _ in range(chance.randrange(90, 180)):
        topic, own = chance.choice(["orders", "a", "%LMQ%a", "%LMQ%b"]), chance.randrange(2)
        own = 0 if topic.startswith("%LMQ%") else own
        properties = {"TAGS": chance.choice(("", "t1", "Aa"))}
        if chance.random() < 0.5:
            listed = chance.sample(names, chance.randrange(1, 4))
            keys = [(name, 0 if name.startswith("%LMQ%") else own) for name in listed]
            offsets = [builder.next_offsets.get(key, 0) for key in keys]
            for key, offset in zip(keys, offsets, strict=True):
                if key != (topic, own):  # else the message itself counts it up
                    builder.next_offsets[key] = offset + 1
            properties["INNER_MULTI_DISPATCH"] = ",".join(listed)
            properties["INNER_MULTI_QUEUE_OFFSET"] = ",".join(map(str, offsets))
        builder.message(topic, own, b"x" * chance.randrange(1, 90), properties=properties)
    if chance.random() < 0.5:  # a message to a light queue comes last, of which the checkpoint has to know
        builder.message("%LMQ%b", 0, b"last")
    return builder


# ---- Where units stand, said once more, a record at a time


@dataclass
class Obvious:
    """One queue as the rules place it: number to record, and what is told of it."""

    at: dict[int, slow.Head] = field(default_factory=dict)
    replaced: int = 0
    moved: int = 0

    @property
    def stop(self) -> int:
        """The number behind the last."""
        return max(self.at, default=-1) + 1

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges of numbers that no record has."""
        found: list[tuple[int, int]] = []
        numbers = sorted(self.at)
        for one, other in pairwise(numbers):
            if other > one + 1:
                found.append((one + 1, other))
        return found


def obviously_placed(records: list[slow.Head]) -> Obvious:
    """Return where each record's unit stands.

    A record that says the number behind that of the one before stands behind it. Else a few that do not belong to the
    numbers before and behind them stand where these leave room, nowhere if there is none. Else: one alone whose number
    is far off (of the first two the greater one) or negative follows on; so does one of the last that all stand alone,
    if its number was given out, one that jumps too far, and a few that go back where the numbers then go on above,
    unless fewer have to make room for them;
    any other has its number, which later ones then take from earlier ones; of few as many are left as have room below.
    One or two that would take them from as many or more follow on.
    The log is whole.
    """
    queue = Obvious()
    numbers = [record.queue_offset for record in records]
    astray = False
    i = 0
    while i < len(records):
        follows = i > 0 and numbers[i] == numbers[i - 1] + 1
        stop = queue.stop if queue.at else None
        count, is_wanted = (0, False) if follows else _misnumbered(numbers, i, queue.stop)
        for record in records[i : i + count]:
            queue.replaced += not is_wanted
            if is_wanted:
                queue.moved += record.queue_offset != queue.stop
                queue.at[queue.stop] = record
        i += count
        if count:
            continue
        if follows:
            number = queue.stop
            queue.moved += astray
        else:
            alone = i + 1 == len(records) or numbers[i + 1] != numbers[i] + 1
            number, astray = _first_of_run(queue, records, i, alone, stop)
            own = 1 if alone else _run_length(numbers, i)
            if stop is not None and own <= 2 and len(_replaced(queue, number)) >= own:
                queue.moved += 1
                number, astray = stop, True
        taken = [queue.at[n] for n in sorted(queue.at) if n >= number]
        lost = _replaced(queue, number)
        left = taken[: len(taken) - len(lost)]
        queue.at = {n: record for n, record in queue.at.items() if n < number}
        queue.replaced += len(lost)
        queue.moved += len(left)
        queue.at.update(enumerate(left, queue.stop if queue.at else number - len(left)))
        queue.at[number] = records[i]
        i += 1
    return queue


def _run_length(numbers: list[int], i: int) -> int:
    """Return how many records from one on follow on from each other."""
    own = 1
    while i + own < len(numbers) and numbers[i + own] == numbers[i] + own:
        own += 1
    return own


def _replaced(queue: Obvious, number: int) -> list[slow.Head]:
    """Return what stands at a number and behind it and has no room before it."""
    taken = [queue.at[n] for n in sorted(queue.at) if n >= number]
    room = number - 1 - max((n for n in queue.at if n < number), default=-1)
    return taken[room:] if len(taken) <= 16 else taken


def _misnumbered(numbers: list[int], i: int, stop: int) -> tuple[int, bool]:
    """Return how many records from one on have wrong numbers, at most 16, and whether the queue has numbers for them.

    It has if the next record's number leaves them just the room. If there is no next one, or fewer leave no room, they
    must have just the numbers that are due, in any order; or they are at most twice those that leave none, and
    behind them the numbers go back or leave room.
    """
    none = instead = 0
    if _is_right(numbers, i, stop):
        return 0, False
    for count in range(1, 33):
        behind = numbers[i + count] if i + count < len(numbers) else None
        if numbers[i] == stop or i + count > len(numbers) or (count > 16 and not none):
            break
        if behind is not None and behind == numbers[i + count - 1] + 1:
            continue
        group, due = numbers[i : i + count], list(range(stop, stop + count))
        if none and count > 2 * none and group[none:] == due[: count - none]:
            break  # more go on behind them
        is_sure = not none and behind is not None
        if count <= 16 and behind in (None, stop + count) and (is_sure or sorted(group) == due):
            return count, True
        goes_back = behind is None or behind <= numbers[i + count - 1]
        if count <= 2 * none and (goes_back or behind >= stop + count):
            instead = instead or count
        if behind == stop and not none:
            none = count
    return (instead, True) if instead else (none, False)


def _is_right(numbers: list[int], i: int, stop: int) -> bool:
    """Return whether several records follow on from each other, and the single one before them says the number of the
    first, or the one behind them repeats one of theirs in place of the next, while a number is missing before them."""
    own = _run_length(numbers, i)
    if own == 1:
        return False
    if i > 0 and numbers[i - 1] == numbers[i] and (i == 1 or numbers[i - 2] != numbers[i] - 1):
        return True
    behind = numbers[i + own : i + own + 2]
    in_place = len(behind) == 1 or (len(behind) == 2 and behind[1] == numbers[i] + own + 1)
    return in_place and behind[0] - numbers[i] in range(own) and behind[0] + 1 != [*behind, -1][1] and numbers[i] > stop


def _first_of_run(queue: Obvious, records: list[slow.Head], i: int, alone: bool, stop: int | None) -> tuple[int, bool]:
    number = records[i].queue_offset
    rest = [record.queue_offset for record in records[i:]]
    begins = [k for k in range(len(rest)) if not k or rest[k] != rest[k - 1] + 1]
    count = next((k for k in begins if stop is not None and rest[k] >= stop), 0)
    above = sum(n >= number for n in queue.at)
    has_room = max((n for n in queue.at if n < number), default=-1) + above < number
    is_fewer = 0 < above < count and above <= 16 and has_room
    if stop is not None and 0 < count <= 16 and min(rest[count], 2**55) >= stop + count and not is_fewer:
        queue.moved += 1
        return stop, True
    after = records[i + 1].queue_offset if alone and i + 1 < len(records) else None
    after = after if after is not None and 0 <= after <= 2**55 else None
    only = i == 0 and (i + 1 == len(records) or (not alone and _all_follow(records)))
    if alone and not only:
        known = after if after is not None and after <= 2**40 else 0  # of two that are wild neither says anything
        wild = number - known > 2**40 if stop is None else _is_wild(queue, records[i], number - stop, after)
        is_end = len(rest) <= 16 and all(b != a + 1 for a, b in pairwise(rest))
        back = is_end and stop is not None and number < stop
        if wild or back or number < 0:
            queue.moved += 1
            return (stop if stop is not None else max(known - 1, 0)), False
    if not 0 <= number <= 2**55:
        queue.moved += 1
        return stop or 0, True
    if stop is not None:
        beyond = _beyond(queue.at[stop - 1], records[i], number - stop)
        filled = sum(_beyond(queue.at[a - 1], queue.at[b], b - a) for a, b in queue.gaps()) if beyond else 0
        if filled + beyond > 2**24:
            queue.moved += 1
            return stop, True
    return number, False


def _is_wild(queue: Obvious, record: slow.Head, jump: int, after: int | None) -> bool:
    """Tell whether one record jumps farther than it is believed, alone or with the one behind it."""
    before = queue.at[record.queue_offset - jump - 1]
    room = max(record.physical - before.physical - before.size, 0) // 91
    seconded = after is not None and 0 <= after - record.queue_offset <= 2**16
    return not -(2**40) <= jump <= (2**40 if seconded else min(2**40, 2**16 + room))


def _beyond(before: slow.Head, after: slow.Head, numbers: int) -> int:
    """Return how many more numbers lie between two records than there is room for between them in the log."""
    return max(numbers - (after.physical - before.physical - before.size) // 64, 0)


def _all_follow(records: list[slow.Head]) -> bool:
    return all(b.queue_offset == a.queue_offset + 1 for a, b in pairwise(records))


def unit_of(record: slow.Head) -> bytes:
    return struct.pack(">qiq", record.physical, record.size, record.tags_code)


def obvious_files(topic: str, queue_id: int, queue: Obvious, settings: Settings) -> Tree:
    """Return the queue's files; a gap repeats the unit before it, and the first file is filled from its begin: with
    the first unit where that points into the segment at 0, else with the broker's filler."""
    if not queue.at:
        return {}
    files: dict[str, bytearray] = {}
    first, per_file = min(queue.at), settings.units_per_file
    last = unit_of(queue.at[first]) if queue.at[first].physical < settings.segment_bytes else BLANK
    for number in range(first - first % per_file, queue.stop):
        record = queue.at.get(number)
        if record is not None:
            last = unit_of(record)
        base = number // per_file * per_file * 20
        file = files.setdefault(f"consumequeue/{topic}/{queue_id}/{base:020d}", bytearray(20 * per_file))
        file[number % per_file * 20 : number % per_file * 20 + 20] = last
    return {path: bytes(data) for path, data in files.items()}


def irregular_log(root: Path) -> StoreBuilder:
    """Return a log with every trouble: epochs, gaps, wrong numbers, a hole, and bodies that imitate records."""
    builder = StoreBuilder(root, units_per_file=8, index_units=40, index_slots=10)
    for i in range(140):
        body = b"x" * 60
        if i % 11 == 0:  # imitations begin where a split may look for its first record
            at = builder.end + 88 + 3
            body = forged(at, topic="t", body=b"not a message") * 30
        number = {20: 2**45, 40: 5, 41: 6, 70: 90, 71: 91, 100: 110, 101: 111}.get(i)
        builder.message("t", 0, body, queue_offset=number, keys=f"k{i % 9}", unique_key=f"u{i}")
        if number is not None:  # behind the wrong one the queue goes on as if it had its own
            builder.next_offsets["t", 0] = (number if number < 2**40 else i) + 1
        builder.message("other", i % 3, b"y" * 30, tags="tag", keys=None if i % 4 else f"o{i}")
    return builder


def with_hole(builder: StoreBuilder, root: Path) -> None:
    """Write the store with its queues, then lose a stretch of the log near its end; the queues still point there."""
    built(builder, root.parent / "old")
    shutil.copytree(root.parent / "old" / "consumequeue", root / "consumequeue")
    base, at = divmod(builder.end - 5000, builder.settings.segment_bytes)
    segment = root / "commitlog" / f"{base * builder.settings.segment_bytes:020d}"
    data = bytearray(segment.read_bytes())
    data[at : at + 2500] = bytes(2500)
    segment.write_bytes(data[: builder.settings.segment_bytes])


def with_copied_lists(root: Path, *, copies: bool) -> Path:
    """Return a sound store where messages of each topic that 5.x passes over have lists: of others, or their own."""
    builder = StoreBuilder(root, multi_dispatch=True, trailing_separator=copies)
    for number, topic in enumerate(("%RETRY%g", SCHEDULE, "rmq_sys_wheel_timer", "%RETRY%other")):
        builder.message("orders", 0, b"first", lmq=("%LMQ%a",))
        lists = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": str(number)}
        queue_id, delay = (2, {"delay": 3}) if topic == SCHEDULE else (0, {})
        if copies:
            builder.message(topic, queue_id, b"again", properties=lists, **delay)
        else:
            builder.message(topic, queue_id, b"again", lmq=("%LMQ%a",), **delay)
    return builder.close()
