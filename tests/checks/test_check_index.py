"""The index audit: silent on what brokers wrote, exact on what was damaged, unharmed by any bytes."""

from __future__ import annotations

import itertools
import pickle
import random
import shutil
import struct
from pathlib import Path
from typing import Final

import golden_data
import numpy as np
import pytest
from indexes import (
    HEADER,
    SAMPLES,
    WHOLE,
    Result,
    Store,
    built,
    is_sound,
    keys_of,
    log_of,
    store,
    structure_of,
    walk,
)
from sampled import sampled, seeds

from storeio import audit
from storeio.checks import index_border, index_damage, index_stretch
from storeio.checks.index_structure import IndexStructure
from storeio.format import index
from storeio.kernels import index as kernel
from storeio.kernels import tables as w
from storeio.kernels.tags import TAGS

pytestmark = pytest.mark.share(2)

# --- what brokers wrote


@pytest.mark.parametrize("split_bytes", [1024, 16384, WHOLE])
@pytest.mark.parametrize("name", golden_data.STORES)
def test_sound_stores_have_no_findings(name: str, split_bytes: int) -> None:
    whole = store(name, split_bytes)
    result = whole.audit()
    assert result.findings == []
    assert not result.beyond
    assert sum(each.units for each in result.contents) == sum(each.entries for each in result.structures)
    for each, data in zip(result.structures, whole.files.values(), strict=True):
        assert is_sound(data.tobytes(), whole.slots, whole.units)
        assert (each.ordered, each.outliers, each.classes["garbage"]) == (True, (), 0)


@pytest.mark.parametrize("name", [name for name in golden_data.STORES if name != "upgraded"])
def test_derived_index_equals_the_files(name: str) -> None:
    whole = store(name)
    tags = name.rpartition("-")[2] >= "5.4.0"
    files = built(keys_of(whole.walked, tags=tags), whole.slots, whole.units)
    assert [bytes(file) for file in files] == [data.tobytes() for data in whole.files.values()]


# --- single damages


def fields_of(whole: Store, path: str, chance: random.Random) -> dict[str, int]:
    """Return the position of some field of each kind."""
    count = index.decode_header(whole.files[path][:40].data)["unit_count"]
    unit = whole.units_at() + 20 * chance.randrange(1, int(count))
    free = whole.units_at() + 20 * int(count)
    places = {f"header.{name}": at for name, at in HEADER.items()}
    places["slot"] = 40 + 4 * chance.randrange(whole.slots)
    places |= {f"unit.{name}": unit + place[1] for name, place in (index.UNIT.fields or {}).items()}
    places["unit 0"] = whole.units_at() + chance.randrange(20)
    if free < len(whole.files[path]):
        places["tail"] = chance.randrange(free, len(whole.files[path]))
    return places


BETWEEN: Final = [*itertools.product((1, 20, 300, 4000), (0, 7, -1))]
LENGTHS: Final = {"unit.physical_offset": 8, "unit 0": 1, "tail": 1} | {
    f"header.{name}": place[0].itemsize for name, place in (index.HEADER.fields or {}).items()
}


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(2, 8))
@pytest.mark.parametrize("name", SAMPLES)
def test_a_flipped_bit_is_found_where_it_is(name: str, seed: int) -> None:
    chance = random.Random(f"{name}{seed}")
    whole = store(name, chance.choice([16384, WHOLE]))
    for path, data in list(whole.files.items()) * 4:
        for field, at in fields_of(whole, path, chance).items():
            position = at + chance.randrange(LENGTHS.get(field, 4))
            bit = 1 << chance.randrange(8)
            data[position] ^= bit
            result = whole.audit()
            data[position] ^= bit
            found = result.at(path, position)
            assert found, (path, field, position, bit, result.findings)
            assert min(each.length for each in found) <= 20
            elsewhere = [f for f in result.findings if f.path.startswith("index") and f.length and f not in found]
            last_unit = {f.position for f in elsewhere} == {24} and field == "unit.physical_offset"
            assert not elsewhere or last_unit, (path, field, position, bit, elsewhere)


@pytest.mark.parametrize("seed", range(4))
def test_structure_agrees_with_a_plain_replay(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        slots, units = chance.choice([1, 3, 7, 50]), chance.choice([2, 3, 9, 40])
        count = chance.randrange(units)
        keys = [(chance.randrange(200), 100 * (i // 2), 10**12 + 700 * i) for i in range(count)]
        data = (built(keys, slots, units) or [bytearray(index.file_length(slots, units))])[0]
        for _ in range(chance.choice([0, 0, 1, 1, 2, 5])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        result = structure_of("index/1", np.frombuffer(bytes(data), np.uint8), slots, units)
        assert sum(result.classes.values()) == len(data)
        if not is_sound(bytes(data), slots, units):
            assert result.findings or result.outliers, (slots, units, bytes(data))
        elif result.ordered and not result.outliers:
            assert {f.position for f in result.findings} <= {0, 8}  # the replay does not look at times


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_cycles_end_and_are_found(length: int) -> None:
    whole = store("base-5.3.3")
    path, data = next(iter(whole.files.items()))
    units = index.decode_units(data[whole.units_at() :].data)
    slot = int(units["key_hash"][400]) % whole.slots
    chain = [i for i in range(1, 800) if units["key_hash"][i] % whole.slots == slot]
    back = whole.units_at() + 20 * chain[0] + kernel.PREVIOUS_AT
    data[back : back + 4] = np.frombuffer(struct.pack(">i", chain[min(length, len(chain)) - 1]), np.uint8)
    result = whole.audit()
    assert {"INDEX_CHAIN"} == {f.code for f in result.findings}
    assert result.at(path, back + 3)


@pytest.mark.parametrize("start, length", [(0, 40), (0, 840), (40, 800), (2000, 4096), (840, 60), (16000, 840)])
@pytest.mark.parametrize("fill", [0, 255, None])
def test_ranges_overwritten_are_found(start: int, length: int, fill: int | None) -> None:
    whole = store("base-5.4.0", 16384)
    path, data = next(iter(whole.files.items()))
    true = data.copy()
    filler = random.Random(start).randbytes(length)
    data[start : start + length] = np.frombuffer(filler, np.uint8) if fill is None else fill
    result = whole.audit()
    assert not [f for f in result.findings if f.path.startswith("index") and f.length and f.path != path]
    changed = np.flatnonzero(data != true)
    covered = np.zeros(len(data), np.bool_)
    for f in result.findings:
        if f.path == path:
            covered[f.position : f.position + f.length] = True
    # A wrong previous number or hash that is zero, too, may pass for right: at least every unit is named.
    units = np.unique((changed[changed >= whole.units_at() + 20] - whole.units_at()) // 20)
    assert all(covered[whole.units_at() + 20 * i : whole.units_at() + 20 * i + 20].any() for i in units)
    slots = np.unique(changed[(changed >= 40) & (changed < whole.units_at())] // 4)
    assert all(covered[4 * i] for i in slots)
    assert result.structures[0].entries == 799


@pytest.mark.parametrize("size", [0, 1, 39, 40, 41, 500, 839, 840, 860, 861, 5000, 16839])
def test_a_short_file_misses_its_end(size: int) -> None:
    whole = store("base-5.5.1", 16384)
    path = next(iter(whole.files))
    whole.files[path] = whole.files[path][:size]
    result = whole.audit()
    lengths = [f for f in result.findings if f.code == "INDEX_LENGTH"]
    assert [(f.path, f.position, f.length) for f in lengths] == [(path, size, 16840 - size)]
    assert result.structures[0].classes["missing"] == 16840 - size
    assert "INDEX_UNIT_MISSING" in result.codes() or size == 16839  # only a tag's key, which may be absent
    assert result.codes() <= {"INDEX_LENGTH", "INDEX_UNIT_MISSING", "INDEX_CHAIN", "INDEX_HEADER"}
    if size > 860:
        assert "INDEX_CHAIN" not in result.codes()


def test_a_long_file_has_too_much() -> None:
    whole = store("base-5.5.1")
    path = list(whole.files)[-1]
    whole.files[path] = np.concatenate((whole.files[path], np.full(33, 9, np.uint8)))
    result = whole.audit()
    assert [(f.code, f.position, f.length) for f in result.findings] == [("INDEX_LENGTH", 16840, 33)]
    assert result.structures[-1].classes["garbage"] == 33


@pytest.mark.parametrize("seed", range(12))
def test_any_bytes_give_an_answer(seed: int) -> None:
    chance = random.Random(seed)
    whole = store("base-5.5.1", 16384)
    for _ in range(6):
        for path, true in store("base-5.5.1").files.items():
            size = chance.choice([chance.randrange(17000), 16840, 16840])
            kind = chance.randrange(4)
            data = true.copy()
            if kind == 0:
                data = np.frombuffer(chance.randbytes(size), np.uint8)
            elif kind == 1:
                for _ in range(chance.choice([5, 300])):
                    data[chance.randrange(len(data))] = chance.choice([0, 255, chance.randrange(256)])
            elif kind == 2:
                start, other = chance.randrange(len(data)), chance.randrange(len(data))
                length = min(chance.randrange(8000), len(data) - max(start, other))
                data[start : start + length] = true[other : other + length]
                data = data[:size]
            whole.files[path] = data
        for one in whole.audit().structures:
            held = sum(one.classes.get(name, 0) for name in ("record", "zero", "garbage"))
            assert held == len(whole.files[one.path])


def test_a_file_without_order_is_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_damage, "MAX_RUNS", 3)
    monkeypatch.setattr(index_stretch, "CHUNK_UNITS", 100)
    whole = store("base-5.5.1", 16384)
    path, data = next(iter(whole.files.items()))
    changed = range(100, 700, 60)
    for i in changed:
        at = whole.units_at() + 20 * i
        data[at + kernel.OFFSET_AT : at + kernel.OFFSET_AT + 8] = np.frombuffer(struct.pack(">q", 5 * i), np.uint8)
    result = whole.audit()
    assert not result.structures[0].ordered
    assert all(result.at(path, whole.units_at() + 20 * i + kernel.OFFSET_AT + 7) for i in changed)
    found = [f for f in result.findings if f.length and f.path == path and f.code != "INDEX_HEADER"]
    assert sum(f.count for f in found) == len(changed)
    gap = whole.audit(lambda x: x.split.base_offset == 32768)
    assert gap.codes() >= {"INDEX_UNIT_ORPHAN", "INDEX_UNIT_MISSING"}


# --- index against log


def test_a_lost_index_is_missing_once() -> None:
    whole = store("base-4.9.8", 4096)
    keys = sum(int((walked.keys[2] != TAGS).sum()) for walked in whole.walked)
    first, second = whole.files
    entries = [int(index.decode_header(data[:40].data)["unit_count"]) - 1 for data in whole.files.values()]
    del whole.files[first]
    (missing,) = whole.audit().findings
    assert (missing.code, missing.path, missing.count) == ("INDEX_UNIT_MISSING", second, entries[0])
    del whole.files[second]
    (missing,) = whole.audit().findings
    assert (missing.code, missing.path, missing.count) == ("INDEX_UNIT_MISSING", "index", keys)


def test_expired_and_lost_parts_of_the_log() -> None:
    whole = store("base-5.5.1", 16384)
    assert whole.audit(lambda x: x.split.base_offset < 98304).findings == []
    gap = whole.audit(lambda x: 98304 <= x.split.base_offset < 163840)
    assert gap.codes() == {"INDEX_UNIT_ORPHAN"}
    lost = sum(int(x.keys.shape[1]) for x in whole.walked if 98304 <= x.split.base_offset < 163840)
    assert sum(f.count for f in gap.findings) == lost
    tail = whole.audit(lambda x: x.split.base_offset >= 294912)
    assert tail.codes() == {"INDEX_BEYOND_LOG"}
    records = [x for x in whole.walked if x.split.base_offset >= 294912]
    starts = {int(p) + x.split.base_offset for x in records for p in x.records[w.R_POSITION, np.unique(x.keys[1])]}
    assert tail.beyond == sorted(starts)


def changed_log(name: str, base: int, position: int, new: bytes) -> Store:
    """Return a store with other bytes in one segment."""
    log = {key: data.copy() for key, data in log_of(name).items()}
    log[base][position : position + len(new)] = np.frombuffer(new, np.uint8)
    whole = store(name)
    whole.walked = walk(log, WHOLE)
    return whole


@pytest.mark.parametrize("name, proven", [("base-5.3.3", False), ("rich-5.5.1", True)])
def test_either_side_may_be_damaged_unless_the_record_proves_itself(name: str, proven: bool) -> None:
    whole = store(name)
    data = next(iter(whole.files.values()))
    data[whole.units_at() + 20 * 50 + 3] ^= 1
    log_side = [f for f in whole.audit().findings if f.code == "LOG_INDEX_DISAGREES"]
    assert len(log_side) == (not proven)


@pytest.mark.parametrize("field, value", [("time", 10**6), ("time", -(10**7)), ("key", 0)])
def test_a_damaged_record_is_named_as_well(field: str, value: int) -> None:
    whole = store("base-5.3.3")
    walked = whole.walked[4]
    record = int(walked.keys[1, 40])
    start, size = (int(walked.records[row, record]) for row in (w.R_POSITION, w.R_SIZE))
    base = walked.split.base_offset
    if field == "time":
        time = int(walked.records[w.R_STORE_MS, record]) + value
        whole = changed_log("base-5.3.3", base, start + 56, struct.pack(">q", time))
    else:
        at = log_of("base-5.3.3")[base][start : start + size].tobytes().index(b"UNIQ_KEY\x01") + 9
        whole = changed_log("base-5.3.3", base, start + at + 5, b"~")
    result = whole.audit()
    found = [f for f in result.findings if f.code == "LOG_INDEX_DISAGREES"]
    late = field == "time" and value < 0  # seconds do not go below 0
    assert [(f.path, f.position, f.length) for f in found] == [] if late else [(walked.split.path, start, size)]
    assert late or result.codes() == {"LOG_INDEX_DISAGREES", "INDEX_UNIT_WRONG"}


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("change", [512, 5000, 2**40, -(2**20)])
def test_a_damaged_begin_time_is_reported_once(change: int, expired: bool) -> None:
    whole = store("upgraded", 16384)
    path, data = next(iter(whole.files.items()))
    begin = struct.unpack(">q", data[:8].tobytes())[0]
    data[:8] = np.frombuffer(struct.pack(">q", begin + change), np.uint8)
    result = whole.audit(lambda x: expired and x.split.base_offset < 2 * 65536)
    assert {(f.code, f.path, f.position) for f in result.findings if f.path == path} == {("INDEX_HEADER", path, 0)}
    assert {f.code for f in result.findings} <= {"INDEX_HEADER", "LOG_INDEX_DISAGREES"}


def test_dispatched_again_after_an_upgrade() -> None:
    """A broker indexes the last message again at its start; a newer one with its tag key."""
    whole = store("base-5.5.1")
    plain, tagged = keys_of(whole.walked, tags=False), keys_of(whole.walked, tags=True)
    middle = plain[len(plain) // 2][1]
    again = [key for key in tagged if key[1] >= middle]
    keys = [key for key in plain if key[1] <= middle] + again
    files = built(keys, whole.slots, whole.units)
    whole.files = {f"index/{i}": np.frombuffer(bytes(file), np.uint8) for i, file in enumerate(files)}
    result = whole.audit()
    assert result.codes() == {"INDEX_DUPLICATE"}
    assert sum(f.count for f in result.findings) == sum(key[1] == middle for key in plain)


@pytest.mark.parametrize("name", ["base-5.3.3", "base-5.5.1"])
@pytest.mark.parametrize("had", [1, 2])
def test_the_last_message_again_though_not_all_of_its_keys_were_indexed(name: str, had: int) -> None:
    """A file was full amid the keys of a message, or the broker was killed there; recorded with 5.3.3 and 5.5.1."""
    whole = store(name)
    keys = keys_of(whole.walked, tags=name == "base-5.5.1")
    places = [key[1] for key in keys]
    middle = next(at for at in places[len(places) // 2 :] if places.count(at) > had)
    first = places.index(middle)
    files = built(keys[: first + had] + keys[first:], whole.slots, whole.units)
    whole.files = {f"index/{i}": np.frombuffer(bytes(file), np.uint8) for i, file in enumerate(files)}
    result = whole.audit()
    assert [(f.code, f.count) for f in result.findings] == [("INDEX_DUPLICATE", had)]


def test_before_4_7_1_each_unit_counts_as_a_slot() -> None:
    whole = store("base-4.9.8")
    for data in whole.files.values():
        count = int(index.decode_header(data[:40].data)["unit_count"])
        data[32:36] = np.frombuffer(struct.pack(">i", count - 1), np.uint8)
    assert whole.audit().findings == []


def test_results_travel() -> None:
    whole = store("base-5.5.1", 16384)
    next(iter(whole.files.values()))[2000:6000] = 7
    result = whole.audit()
    assert result.findings == whole.audit(travels=True).findings
    assert pickle.loads(pickle.dumps(result.structures)) == result.structures


# --- ends of splits


def spoilt(name: str, split_bytes: int, place: int, length: int, value: int) -> Result:
    """Return what the audit says of a golden store with some bytes of its first index file overwritten."""
    whole = store(name, split_bytes)
    data = next(iter(whole.files.values()))
    data[place : place + length] = np.random.default_rng(place).integers(0, 255, length) if value < 0 else value
    return whole.audit()


@pytest.mark.parametrize(("length", "value"), sampled(BETWEEN, BETWEEN[::4]))
def test_units_between_splits_are_told_from_both_sides(length: int, value: int) -> None:
    name = "base-5.5.1"
    size = len(next(iter(store(name).files.values())))
    for place in range(2000, size - length, 900 if length < 4000 else 1700):
        told = [spoilt(name, split_bytes, place, length, value).findings for split_bytes in (WHOLE, 16384, 4096)]
        assert told[1] == told[0] and told[2] == told[0], place


def test_of_many_units_between_splits_each_tells_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    name, place, length = "base-5.5.1", 5000, 4000
    together = spoilt(name, 4096, place, length, 7)
    monkeypatch.setattr(index_border, "MOST", 100)
    apart = spoilt(name, 4096, place, length, 7)
    for told in (apart, together):
        codes = ("INDEX_UNIT_WRONG", "INDEX_UNIT_ORPHAN")
        assert sum(found.count for found in told.findings if found.code in codes) >= length // 20
    assert "INDEX_UNIT_MISSING" in apart.codes() - together.codes()


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("split_bytes", [None, 20_000])
def test_a_copied_index_file_is_called_a_copy(which: int, split_bytes: int | None, tmp_path: Path) -> None:
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    name = sorted(place.name for place in root.glob("index/*"))[which]
    shutil.copyfile(root / "index" / name, root / "index" / "20991231235959999")
    found = audit.check(root, split_bytes=split_bytes)
    (entries,) = (row.entries for row in found.index if row.path.endswith(name))
    told = {finding.code: finding for finding in found.findings if finding.path.startswith("index")}
    assert set(told) == {"INDEX_COPY"} if which == -1 else {"INDEX_COPY", "INDEX_ORDER"}
    for finding in told.values():
        assert (finding.path, finding.count) == ("index/20991231235959999", entries)
    assert f"a copy of index/{name}" in told["INDEX_COPY"].detail


@pytest.mark.parametrize("window", [1, 2, 7, 512])
def test_a_search_finds_the_first_unit_however_it_looks(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units out of order stand where the last one in order before them points, those without one in front of all."""
    monkeypatch.setattr(index_stretch, "WINDOW_UNITS", window)
    chance = random.Random(window)
    for _ in range(60):
        count = chance.choice((1, 2, 5, 60, 2000))
        points = sorted(chance.choices(range(chance.choice((4, count, 9000, 1 << 40))), k=count))
        units = np.zeros(count + 1, index.UNIT)
        units["physical_offset"][1:] = points
        at, runs = 1, []
        while chance.random() < 0.6 and (first := at + chance.randrange(9)) < count:
            at = min(first + chance.randrange(1, 9), count)
            runs.append((first, at))
            units["physical_offset"][first:at] = [chance.randrange(-5, 1 << 41) for _ in range(at - first)]
            at += 1
        known = [unit for unit in range(1, count + 1) if not any(a <= unit < b for a, b in runs)]
        begin, end = (int(units["physical_offset"][unit]) for unit in (known[0], known[-1]))
        file = IndexStructure("index/1", 0, 1, count + 1, count, 0, 0, begin, end, True, tuple(runs), {}, ())

        def read(file_no: int, first: int, stop: int, units: index.Units = units) -> index.Units:
            assert (file_no, 1 <= first < stop <= len(units)) == (3, True)
            return units[first:stop]

        for wanted in {begin, end, end + 1, *chance.choices(points, k=5), chance.randrange(end + 2)}:
            first = next((unit for unit in known if int(units["physical_offset"][unit]) >= wanted), count + 1)
            if wanted > begin:  # else the very first stand there
                assert index_stretch.first_unit(file, 3, read, wanted) == first
