"""Seeded damage of logs for the tests of salvage, and what is truly lost by it, known from the undamaged store."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import golden_data as golden
import slow
from storebuilder import forged

from storeio.format import commitlog as log
from storeio.salvaged import Salvaged

SEGMENT: Final = 32768  # of the golden stores of short names
TRANSACTION: Final = 0xC
NO_NUMBER: Final = (0x4, 0xC)  # prepared, rolled back
UNPROTECTED: Final = ((log.FLAG_AT, log.QUEUE_OFFSET_AT),)
UNPROTECTED_FLAGS: Final = 0x70B  # compressed, and how; several tags; committed


@dataclass(frozen=True)
class Original:
    """One record of the undamaged log."""

    head: slow.Head
    raw: bytes

    @property
    def name(self) -> tuple[str, int]:
        """Topic and queue id."""
        return slow.java_text(self.head.topic), self.head.queue_id

    @property
    def numbers(self) -> range:
        """The queue offsets that it takes."""
        if self.head.sys_flag & TRANSACTION in NO_NUMBER:
            return range(0)
        return range(self.head.batch_base, self.head.batch_base + self.head.batch_size)


Originals = dict[int, Original]
Bytes = dict[str, bytes]


def log_of(root: Path, segment_bytes: int) -> Bytes:
    """Return the segments of a log; what a file has on top of a segment belongs to none."""
    return {path.name: path.read_bytes()[:segment_bytes] for path in sorted((root / "commitlog").iterdir())}


def records_of(root: Path, segment_bytes: int) -> Originals:
    """Return the records of a sound log by physical offset, as the slow decoder reads them."""
    found: Originals = {}
    for path in sorted((root / "commitlog").iterdir()):
        base, data = int(path.name), path.read_bytes()[:segment_bytes]
        for head in slow.SlowWalk(data, base).records:
            found[base + head.position] = Original(head, data[head.position : head.position + head.size])
    return found


def bytes_of(root: Path, segment_bytes: int) -> dict[int, bytes]:
    """Return the bytes of the records of a sound log by physical offset."""
    return {at: record.raw for at, record in records_of(root, segment_bytes).items()}


def changed_in(root: Path, records: dict[int, bytes], segment_bytes: int) -> list[int]:
    """Return the physical offsets of those records that a log does not have as they were."""
    files = log_of(root, segment_bytes)
    return [at for at, raw in records.items() if _in_log(files, at, len(raw), segment_bytes) != raw]


def _in_log(files: Bytes, at: int, size: int, segment_bytes: int) -> bytes:
    inside = at % segment_bytes
    return files.get(f"{at - inside:020d}", b"")[inside : inside + size]


def change_byte(root: Path, at: int, bits: int, segment_bytes: int) -> None:
    """Flip bits of the byte at a physical offset of a log."""
    path = root / f"commitlog/{at - at % segment_bytes:020d}"
    data = bytearray(path.read_bytes())
    data[at % segment_bytes] ^= bits
    path.write_bytes(data)


@dataclass
class Damage:
    """A store that is being damaged, and the chances of it."""

    root: Path
    chance: random.Random
    segment_bytes: int
    originals: Originals
    kinds: list[str] = field(default_factory=list)
    overwritten: dict[Path, bytes] = field(default_factory=dict)
    """What queue files held before they were overwritten."""

    def __post_init__(self) -> None:
        self.pick()

    @property
    def given(self) -> dict[str, str]:
        """The broker setting that its files alone may not tell any more."""
        return {"mappedFileSizeCommitLog": str(self.segment_bytes)}

    def pick(self) -> None:
        """Choose the record that the next damage hits."""
        self.at = self.chance.choice(sorted(self.originals))
        self.record = self.originals[self.at]
        self.inside = self.at % self.segment_bytes
        self.path = self.root / "commitlog" / f"{self.at - self.inside:020d}"

    def put(self, position: int, data: bytes) -> None:
        """Write into the chosen record's segment, as far as it reaches."""
        with self.path.open("r+b") as file:
            file.seek(position)
            file.write(data[: max(self.segment_bytes - position, 0)])

    def flip(self, position: int) -> None:
        """Flip a bit of the segment."""
        data = self.path.read_bytes()
        if position < len(data):
            self.put(position, bytes((data[position] ^ 1 << self.chance.randrange(8),)))

    def field(self, at: int, form: str, *values: int) -> None:
        """Give a field of the chosen record one of some values."""
        self.put(self.inside + at, struct.pack(form, self.chance.choice(values)))

    def somewhere(self) -> int:
        """Return a position in a segment."""
        return self.chance.randrange(self.segment_bytes)

    def resize(self, change: Callable[[bytes], bytes]) -> None:
        """Replace all of the segment's bytes."""
        self.path.write_bytes(change(self.path.read_bytes()))

    def rename(self, name: str) -> None:
        """Give the segment another name, if that is free."""
        if not self.path.with_name(name).exists():
            self.path.rename(self.path.with_name(name))

    def last_stop(self) -> int:
        """Return where the last record of the chosen segment ends, in the segment."""
        base = self.at - self.inside
        last = max(at for at in self.originals if base <= at < base + self.segment_bytes)
        return last - base + len(self.originals[last].raw)


def _body_forged(d: Damage) -> None:
    """Destroy a record's head and let its body hold an intact record of its own place."""
    body = d.record.head.body_length
    inside = forged(d.at + 88 + 2, store_ms=d.record.head.store_ms)
    if d.record.head.sys_flag & 0x30 == 0 and body > len(inside) + 4:
        d.put(d.inside + 88, (b".." + inside).ljust(body, b"-"))
        d.put(d.inside, bytes(8))


def _older_copy(d: Damage) -> None:
    """Write another intact record over the chosen one: a record of another place."""
    other = d.originals[d.chance.choice(sorted(d.originals))]
    d.put(d.inside, other.raw)


def _shift(d: Damage) -> None:
    """Take bytes away from the segment's beginning; sometimes its length stays."""
    count = d.chance.choice((1, 512, 4096))
    d.resize(lambda data: data[count:] + (bytes(count) if d.chance.random() < 0.5 else b""))


def _insert(d: Damage) -> None:
    """Put bytes into the segment that move the rest."""
    count, at = d.chance.choice((1, 7, 512)), d.somewhere()
    d.resize(lambda data: (data[:at] + d.chance.randbytes(count) + data[at:])[: d.segment_bytes])


def _remove_queue(d: Damage) -> None:
    """Remove a queue's directory."""
    queues = [path for path in sorted((d.root / "consumequeue").glob("*/*")) if path.is_dir()]
    if queues:
        shutil.rmtree(d.chance.choice(queues))


def _page(d: Damage) -> int:
    size = d.chance.choice((512, 4096))
    return d.somewhere() // size * size


KINDS: Final[dict[str, Callable[[Damage], Any]]] = {
    "bit in a head": lambda d: d.flip(d.inside + d.chance.randrange(88)),
    "bit in a record": lambda d: d.flip(d.inside + d.chance.randrange(len(d.record.raw))),
    "zeroed record": lambda d: d.put(d.inside, bytes(len(d.record.raw))),
    "zeroed range": lambda d: d.put(d.somewhere(), bytes(d.chance.randrange(1, 6000))),
    "zeroed page": lambda d: d.put(_page(d), bytes(512)),
    "random range": lambda d: d.put(d.somewhere(), d.chance.randbytes(d.chance.randrange(1, 3000))),
    "size": lambda d: d.field(0, ">i", 0, -1, 5, 2**31 - 1, len(d.record.raw) + 1, len(d.record.raw) - 1),
    "magic": lambda d: d.put(d.inside + 4, d.chance.randbytes(4)),
    "body CRC": lambda d: d.put(d.inside + 8, d.chance.randbytes(4)),
    "queue id": lambda d: d.field(12, ">i", -1, d.record.head.queue_id + 1, 77),
    "queue offset": lambda d: d.field(20, ">q", 0, -5, 2**39 + 3, d.record.head.queue_offset + 1),
    "physical offset": lambda d: d.put(d.inside + 28, struct.pack(">q", d.chance.getrandbits(40))),
    "host flags": lambda d: d.put(d.inside + 39, bytes((d.record.head.sys_flag & 0xFF ^ d.chance.choice((16, 32)),))),
    "body length": lambda d: d.field(84, ">i", -1, 0, 2**31 - 1, len(d.record.raw), 7),
    "blank over a record": lambda d: d.put(d.inside, log.encode_blank(d.segment_bytes - d.inside)),
    "no closing blank": lambda d: d.put(d.last_stop(), bytes(8)),
    "truncated": lambda d: d.resize(lambda data: data[: d.somewhere()]),
    "padded": lambda d: d.resize(lambda data: data + d.chance.randbytes(d.chance.randrange(1, 5000))),
    "missing segment": lambda d: d.path.unlink(),
    "copied range": lambda d: d.put(d.somewhere(), d.path.read_bytes()[d.somewhere() :][:4096]),
    "record of another place": _older_copy,
    "forged record in a body": _body_forged,
    "wrong name": lambda d: d.rename(f"{d.chance.choice((50, 70, 10**6)) * d.segment_bytes:020d}"),
    "no number for a name": lambda d: d.rename(f"{d.path.name}.bak"),
    "start missing": _shift,
    "bytes inserted": _insert,
    "queue missing": _remove_queue,
    "all queues missing": lambda d: shutil.rmtree(d.root / "consumequeue", ignore_errors=True),
}


def overwrite_units(damage: Damage) -> None:
    """Overwrite parts of three queue files: units that would tell what the log lost are gone, or tell lies."""
    kinds = ("consumequeue", "batchconsumequeue")
    files = sorted(path for kind in kinds for path in (damage.root / kind).rglob("*") if path.is_file())
    chance = damage.chance
    for path in chance.sample(files, min(len(files), 3)):
        data = bytearray(path.read_bytes())
        at = chance.randrange(len(data))
        piece = chance.choice((bytes(20), bytes(60), chance.randbytes(1), chance.randbytes(60), bytes(len(data) // 2)))
        data[at : at + len(piece)] = piece[: len(data) - at]
        damage.overwritten[path] = path.read_bytes()
        path.write_bytes(data)


def units_until(damage: Damage, queue: tuple[str, int], end: int) -> int:
    """Return the number up to which a queue's units tell its messages from ``end`` on.

    That is behind the last unit that is as it was, in front of zeros; of batch queues, whose units no number tells, and
    of a queue that is not there, the end.
    """
    now, before, told = b"", b"", end
    paths = sorted((damage.root / "consumequeue" / queue[0] / str(queue[1])).glob("*"))
    for path in paths:
        data = path.read_bytes()
        now, before = now + data, before + damage.overwritten.get(path, data)
    first = int(paths[0].name) // 20 if paths else end
    for at in range(20 * max(end - first, 0), len(now), 20):
        if not any(now[at : at + 20]):
            break
        if now[at : at + 20] == before[at : at + 20]:
            told = first + at // 20 + 1
    return told


def damaged(name: str, seed: int, target: Path) -> Damage:
    """Return a copy of a golden store with one to three damages, of kinds and places that the seed chooses."""
    chance = random.Random(f"{name}/{seed}")
    size = int(golden.options(name)["clFile"])
    damage = Damage(golden.copy_of(name, target), chance, size, originals_of(name))
    for _ in range(chance.choice((1, 1, 2, 3))):
        damage.pick()
        kind = chance.choice(sorted(KINDS))
        if damage.path.exists():
            KINDS[kind](damage)
            damage.kinds.append(kind)
    return damage


_known: dict[str, Originals] = {}


def originals_of(name: str) -> Originals:
    """Return the records of a golden store."""
    if name not in _known:
        _known[name] = records_of(golden.store(name), int(golden.options(name)["clFile"]))
    return _known[name]


def intact(damage: Damage) -> set[int]:
    """Return where the records lay of which all bytes are still in some file of the log, one behind the other."""
    files = {path.name: path.read_bytes() for path in sorted((damage.root / "commitlog").iterdir())}

    def is_there(at: int, raw: bytes) -> bool:
        inside = at % damage.segment_bytes
        in_place = files.get(f"{at - inside:020}", b"").startswith(raw, inside)
        return in_place or any(raw in data for data in files.values())

    return {at for at, record in damage.originals.items() if is_there(at, record.raw)}


def only_unprotected(now: Original, before: Original) -> bool:
    """Tell whether a record differs only in fields that nothing in a store repeats or checks."""
    if len(now.raw) != len(before.raw) or b"__CRC32#" in before.raw:
        return False
    properties = len(before.raw) - before.head.properties_length
    body_at = 64 + sum(20 if before.head.sys_flag & bit else 8 for bit in (0x10, 0x20)) + 8
    spans: list[tuple[int, int]] = [*UNPROTECTED, (log.BORN_TIMESTAMP_AT, body_at - 4), (properties, len(before.raw))]
    if not before.numbers:  # in no queue: neither a unit nor a neighbour says which one it would be
        spans.append((log.QUEUE_ID_AT, log.QUEUE_ID_AT + 4))
    if (now.head.sys_flag ^ before.head.sys_flag) & ~UNPROTECTED_FLAGS == 0:
        spans.append((log.SYS_FLAG_AT, log.BORN_TIMESTAMP_AT))
    different = [i for i, (a, b) in enumerate(zip(now.raw, before.raw, strict=True)) if a != b]
    return all(any(low <= i < high for low, high in spans) for i in different)


@dataclass
class Compared:
    """What came out of a salvage against what is true."""

    not_saved: list[int]
    changed: list[int]
    false: list[int]
    said_lost: list[tuple[str, int, int]]
    not_said: list[tuple[str, int, int]]

    @property
    def right(self) -> bool:
        """Whether there is no difference."""
        return not (self.not_saved or self.changed or self.false or self.said_lost or self.not_said)


def compared(damage: Damage, into: Path, result: Salvaged) -> Compared:
    """Return the differences of a salvaged store from what its undamaged form says should be left of it."""
    saved = records_of(into, damage.segment_bytes)
    left = {at for at in intact(damage) if at >= result.min_physical_offset}  # retention deletes what was before
    said = {
        (part.topic, part.queue_id, number)
        for part in result.lost
        for number in range(part.first_queue_offset, part.stop_queue_offset)
    }
    ours = {at for at, record in saved.items() if is_new(record, damage.originals.get(at), said)}
    messages = set(saved) - ours
    wrong = {
        at
        for at in messages
        if at not in damage.originals
        or (saved[at].raw != damage.originals[at].raw and not only_unprotected(saved[at], damage.originals[at]))
    }
    ends: dict[tuple[str, int], int] = {}
    for at in messages:
        if saved[at].numbers:
            ends[saved[at].name] = max(ends.get(saved[at].name, 0), saved[at].numbers.stop)
    no_queues = any(kind in ("queue missing", "all queues missing") for kind in damage.kinds)
    lost = {
        (*record.name, number)
        for at, record in damage.originals.items()
        if (at not in messages or at in wrong) and at >= result.min_physical_offset
        for number in record.numbers
    }
    hit = {(path.parts[-3], int(path.parts[-2])) for path in damage.overwritten}
    told: dict[tuple[str, int], int] = {}
    for queue in {row[:2] for row in lost}:
        # Behind the last record of a queue only its units tell of more.
        end = ends.get(queue, 0)
        told[queue] = end if no_queues else units_until(damage, queue, end) if queue in hit else 2**63
    needed = {row for row in lost if row[2] < told[row[:2]]}
    return Compared(
        sorted(left - set(saved)),
        sorted(at for at in left & set(saved) if saved[at].raw != damage.originals[at].raw),
        sorted(wrong),
        sorted(said - lost),
        sorted(needed - said),
    )


def is_new(record: Original, before: Original | None, said: set[tuple[str, int, int]]) -> bool:
    """Tell whether a record is a filler or a tombstone."""
    if before is not None and before.raw == record.raw:
        return False
    if record.head.topic and b"storeio_filler".startswith(record.head.topic):
        return True
    if record.head.topic == b"storeio_tombstones":  # of a message of which only light queues have units
        return True
    body = record.raw[88 : 88 + max(record.head.body_length, 0)]
    return not body.strip(b"\0") and any((*record.name, number) in said for number in record.numbers)


def in_record(place: int, at: int, data: bytes) -> list[Any]:
    """Return the edit of some bytes of the record at a place of a log in segments of ``SEGMENT``."""
    return ["write", f"commitlog/{place - place % SEGMENT:020d}", place % SEGMENT + at, data.hex()]


def numbers_of(lost: list[Any]) -> list[tuple[str, int, int]]:
    """Return the lost messages by topic, queue id and number."""
    return [
        (part.topic, part.queue_id, number)
        for part in lost
        for number in range(part.first_queue_offset, part.stop_queue_offset)
    ]
