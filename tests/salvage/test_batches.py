"""Inner batches without a property CRC, as brokers write them by default: their number stands in them twice."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import golden_data as golden
import pytest
from implied import Settings
from salvages import bytes_of, change_byte, changed_in
from sampled import seeds
from storebuilder import StoreBuilder, inner_body

from storeio import audit
from storeio.format import commitlog as log
from storeio.rebuild.node import rebuild
from storeio.salvage.node import salvage

SEGMENT = 1 << 14
GIVEN = {
    "mappedFileSizeCommitLog": str(SEGMENT),
    "mappedFileSizeConsumeQueue": "20000",
    "mapperFileSizeBatchConsumeQueue": "46000",
}
BASE = b"INNER_BASE\1"
Records = dict[int, bytes]


def made(root: Path, chance: random.Random, *, with_queues: bool, real: bool = False) -> Records:
    """Make a store with two batch queues and two others; return its records by physical offset.

    Bodies of batches are as clients write them if they are to be ``real``, else no broker tells how many messages they
    hold.
    """
    builder = StoreBuilder(root, segment_bytes=SEGMENT)
    for _ in range(chance.choice((40, 60, 120))):
        body = chance.randbytes(chance.randrange(1, 80))
        inner = chance.randrange(1, 6) if chance.random() < 0.5 else None
        if real and inner is not None:
            body = inner_body(body for _ in range(inner))
        builder.message("T" if inner is None else "B", chance.randrange(2), body=body, inner=inner)
    builder.close()
    golden.declare(root, {"B": "BatchCQ", "T": None})
    for name in ("consumequeue", "batchconsumequeue", "index"):
        shutil.rmtree(root / name, ignore_errors=True)
    if with_queues:
        built = root.with_name("built")
        rebuild(root, built, jobs=1, given=GIVEN)
        for name in ("consumequeue", "batchconsumequeue"):
            (built / name).rename(root / name)
        assert (root / "batchconsumequeue/B").is_dir()
    return bytes_of(root, SEGMENT)


@pytest.mark.parametrize("seed", seeds(4, 40))
@pytest.mark.parametrize("with_queues", [True, False])
def test_one_of_two_numbers_is_told_and_restored(with_queues: bool, seed: int, tmp_path: Path) -> None:
    """Between others of its queue, or with its unit; a digit of the properties' number stays one."""
    chance = random.Random(seed)
    records = made(tmp_path / "store", chance, with_queues=with_queues)
    queue = [at for at, raw in records.items() if BASE in raw and not log.decode_record(raw).queue_id]
    place = chance.choice(queue if with_queues else queue[1:-1])
    raw = records[place]
    digit = raw.index(BASE) + len(BASE)
    byte, flipped = chance.choice([(log.QUEUE_OFFSET_AT + chance.randrange(8), 1 << chance.randrange(7)), (digit, 1)])
    change_byte(tmp_path / "store", place + byte, flipped, SEGMENT)
    found = audit.check(tmp_path / "store", given=GIVEN, jobs=1)
    assert "LOG_FIELD" in {one.code for one in found.findings if one.physical_offset == place}
    result = salvage(tmp_path / "store", tmp_path / "new", given=GIVEN, jobs=1)
    assert not result.lost and not result.dropped
    assert changed_in(tmp_path / "new", records, SEGMENT) == []
    assert audit.check(tmp_path / "new", given=GIVEN, jobs=1).verdict == "sound"


@pytest.mark.parametrize("seed", seeds(2, 40))
@pytest.mark.parametrize("flipped", [1, 64])
@pytest.mark.parametrize("name", [b"INNER_NUM\1", BASE])
@pytest.mark.parametrize("with_queues", [True, False])
def test_numbers_in_properties_are_restored(
    with_queues: bool, name: bytes, flipped: int, seed: int, tmp_path: Path
) -> None:
    """From the head, the body, or the unit and who follows: another digit, which brokers take, or no digit any more."""
    chance = random.Random(seed)
    real = not with_queues or chance.random() < 0.5
    records = made(tmp_path / "store", chance, with_queues=with_queues, real=real)
    queue = [at for at, raw in records.items() if name in raw and not log.decode_record(raw).queue_id]
    if not real:  # a unit of one message may be that of a queue of other units
        several = [at for at in queue[:-1] if b"INNER_NUM\0011\2" not in records[at]]
        queue = [queue[0], *several, queue[-1]]
    place = chance.choice(queue[1:-1])
    change_byte(tmp_path / "store", place + records[place].index(name) + len(name), flipped, SEGMENT)
    assert audit.check(tmp_path / "store", given=GIVEN, jobs=1).verdict == "damaged"
    result = salvage(tmp_path / "store", tmp_path / "new", given=GIVEN, jobs=1)
    assert not result.lost and not result.dropped
    assert changed_in(tmp_path / "new", records, SEGMENT) == []
    assert audit.check(tmp_path / "new", given=GIVEN, jobs=1).verdict == "sound"


@pytest.mark.parametrize("held", [1, 2, 3, 11])
def test_a_count_that_is_not_that_of_the_body_is_told(held: int, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, segment_bytes=SEGMENT)
    body = inner_body([b"", *[b"message"] * (held - 1)])
    bodies = [(body, False), (body[:-1], False), (b"0" + body, False), (body, True)]
    placed = [builder.message("B", body=body, inner=2, compressed=compressed) for body, compressed in bodies]
    ((_, data),) = builder.segment_files()
    builder.close()
    golden.declare(tmp_path, {"B": "BatchCQ"})
    told = [f for f in audit.check(tmp_path, jobs=1).findings if f.code == "LOG_FIELD"]
    assert [f.physical_offset for f in told] == ([] if held == 2 else [placed[0].physical_offset])
    for finding in told:
        assert f"holds {held} messages" in finding.detail
        assert data[finding.position : finding.position + finding.length] == b"2"


@pytest.mark.parametrize("seed", seeds(2, 12))
@pytest.mark.parametrize("is_batch", [True, False])
def test_one_bit_outside_the_body_loses_no_message(is_batch: bool, seed: int, tmp_path: Path) -> None:
    """What is told of is as it was; what nothing tells of, as a flag or an address, stays."""
    chance = random.Random(seed)
    records = made(tmp_path / "made", chance, with_queues=chance.random() < 0.5, real=True)
    queue = [at for at, raw in records.items() if (BASE in raw) == is_batch and not log.decode_record(raw).queue_id]
    place = chance.choice(queue[1:-1])
    raw = records[place]
    body = log.decode_record(raw).body
    head = raw.index(body, log.BORN_HOST_AT)
    bytes_outside = [*range(head), *range(head + len(body), len(raw))]
    for byte in chance.sample(bytes_outside, 12):
        root = shutil.copytree(tmp_path / "made", tmp_path / f"store{byte}")
        change_byte(root, place + byte, 1 << chance.randrange(8), SEGMENT)
        findings = audit.check(root, given=GIVEN, jobs=1).findings
        is_told = any(one.severity == "error" and one.physical_offset == place for one in findings)
        result = salvage(root, tmp_path / f"new{byte}", given=GIVEN, jobs=1)
        assert not result.lost and not result.dropped, byte
        assert changed_in(tmp_path / f"new{byte}", records, SEGMENT) in ([], [] if is_told else [place]), byte
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / f"new{byte}")


@pytest.mark.parametrize("seed", seeds(8, 150))
def test_damaged_batches_leave_their_neighbours_as_they_were(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    records = made(tmp_path / "store", chance, with_queues=chance.random() < 0.6)
    batches = [at for at, raw in records.items() if BASE in raw]
    hit = set()
    for _ in range(chance.randrange(1, 4)):
        place = chance.choice(batches)
        raw = records[place]
        count = raw.index(b"INNER_NUM\1") + 10
        byte = chance.choice([chance.randrange(48), chance.randrange(20, 28), count, chance.randrange(len(raw))])
        bits = chance.choice((1, 2, 4, 8, 128, chance.randrange(1, 256)))
        change_byte(tmp_path / "store", place + byte, bits, SEGMENT)
        hit.add(place)
    salvage(tmp_path / "store", tmp_path / "new", given=GIVEN, jobs=1)
    assert hit.issuperset(changed_in(tmp_path / "new", records, SEGMENT))


@pytest.mark.parametrize("back", [2, 20, 32, 44, 56])
def test_a_segment_cut_in_the_properties_of_a_batch_makes_no_single_message_of_it(back: int, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store", settings=Settings(batch_topics=frozenset({"B"})))
    placed = []
    while len(builder.segments) < 3:
        placed.append(builder.message("B", 0, b"x" * 300, inner=3, keys=f"key-{len(placed)}", tags="a"))
    builder.close()
    cut = placed[20]
    os.truncate(tmp_path / f"store/commitlog/{0:020d}", cut.physical_offset + len(cut.raw) - back)
    result = salvage(tmp_path / "store", tmp_path / "new", given={"mappedFileSizeCommitLog": "16384"}, jobs=1)
    assert not result.restored
    assert [part.first_queue_offset for part in result.lost] == [60]
    assert audit.check(tmp_path / "new", jobs=1).verdict == "sound"
