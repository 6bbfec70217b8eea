"""Generated stores are what a slow broker makes of their records, byte for byte."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import suite
from bench.generate import Generated, generate
from storeio import crc
from storeio.format import commitlog as log
from storeio.format import properties as text
from storeio.kernels import tables as w
from storeio.splits import Split, WalkState
from storeio.walk import walk_split

pytestmark = pytest.mark.share(2)

ROOT = Path(__file__).parents[2]
SHAPE: dict[str, Any] = {
    "total_bytes": 400_000,
    "segment_bytes": 65_536,
    "body_bytes": 150,
    "topics": 3,
    "queues": 2,
    "units_per_file": 100,
    "index_slots": 61,
    "index_units": 301,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "many topics": {"topics": 14, "queues": 3, "seed": 5},
    "one queue": {"topics": 1, "queues": 1, "units_per_file": 7},
    "no tags": {"tags": False},
    "no keys": {"keys": 0},
    "three keys": {"keys": 3, "index_units": 5},
    "keys without unique keys": {"unique_keys": False, "keys": 2},
    "nothing to index": {"unique_keys": False, "keys": 0},
    "small bodies": {"body_bytes": 1, "index_slots": 1, "index_units": 2, "total_bytes": 20_000},
    "large bodies": {"body_bytes": 60_000, "total_bytes": 900_000},
    "all in one file each": {"segment_bytes": 1 << 20, "units_per_file": 100_000, "index_units": 100_000},
}


# ---- A broker that writes one message after the other, as the specification says


@dataclass
class SlowIndexFile:
    """``IndexFile.putKey``, step by step on the bytes of one file."""

    slots: int
    units: int
    data: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.data = bytearray(40 + 4 * self.slots + 20 * self.units)

    def header(self) -> list[int]:
        return list(struct.unpack_from(">qqqqii", self.data))

    def is_full(self) -> bool:
        return self.header()[5] >= self.units

    def put(self, key: str, physical: int, store_ms: int) -> None:
        begin_ms, _, begin_physical, _, used, count = self.header()
        count = max(count, 1)
        at = 40 + 4 * (text.key_hash(key) % self.slots)
        (before,) = struct.unpack_from(">i", self.data, at)
        if before <= 0 or before > count:
            before = 0
        seconds = max((store_ms - begin_ms) // 1000, 0) if begin_ms > 0 else 0
        struct.pack_into(">i", self.data, at, count)
        unit_at = 40 + 4 * self.slots + 20 * count
        struct.pack_into(">iqii", self.data, unit_at, text.key_hash(key), physical, seconds, before)
        if count <= 1:
            begin_ms, begin_physical = store_ms, physical
        used += before == 0
        struct.pack_into(">qqqqii", self.data, 0, begin_ms, store_ms, begin_physical, physical, used, count + 1)


@dataclass
class SlowBroker:
    """Queue files and index files of the records it is told, in the order it is told them."""

    shape: dict[str, Any]
    queues: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    index: list[SlowIndexFile] = field(default_factory=list)

    def dispatch(self, record: log.Record) -> None:
        pairs = text.parse(record.properties)
        topic = record.topic.decode()
        units = self.queues.setdefault((topic, record.queue_id), [])
        assert record.queue_offset == len(units)
        units.append(struct.pack(">qiq", record.physical_offset, record.size, text.java_hash(pairs.get("TAGS", ""))))
        self._index_file()  # the first dispatch of any message makes one
        keys = [pairs["UNIQ_KEY"]] if "UNIQ_KEY" in pairs else []
        for key in keys + text.java_split(pairs.get("KEYS", ""), " "):
            if key:
                self._index_file().put(f"{topic}#{key}", record.physical_offset, record.store_timestamp_ms)

    def _index_file(self) -> SlowIndexFile:
        if not self.index or self.index[-1].is_full():
            fresh = SlowIndexFile(self.shape["index_slots"], self.shape["index_units"])
            if self.index:
                _, end_ms, _, end_physical, _, _ = self.index[-1].header()
                struct.pack_into(">qqqq", fresh.data, 0, end_ms, end_ms, end_physical, end_physical)
            self.index.append(fresh)
        return self.index[-1]

    def index_files(self) -> list[bytes]:
        """Return the index files by name; a clean stop writes the count 1 where it is still 0."""
        for file in self.index:
            struct.pack_into(">i", file.data, 36, max(file.header()[5], 1))
        return [bytes(file.data) for file in self.index]

    def queue_files(self) -> dict[str, bytes]:
        """Return path -> bytes of the queue files, each as long as all of its units."""
        per_file = self.shape["units_per_file"]
        return {
            f"consumequeue/{topic}/{queue_id}/{20 * first:020d}": b"".join(units[first : first + per_file]).ljust(
                20 * per_file, b"\0"
            )
            for (topic, queue_id), units in self.queues.items()
            for first in range(0, len(units), per_file)
        }


def read_log(root: Path, segment_bytes: int) -> list[log.Record]:
    """Return all records; fails where the log is not as a broker leaves it."""
    segments = sorted((root / "commitlog").iterdir())
    records: list[log.Record] = []
    blank_at = None
    for number, path in enumerate(segments):
        data = path.read_bytes()
        assert (int(path.name), len(data)) == (number * segment_bytes, segment_bytes)
        at = 0
        while at <= segment_bytes - 8 and data[at + 4 : at + 8] == bytes.fromhex("daa320a7"):
            record = log.decode_record(data[at:])
            assert record.physical_offset == number * segment_bytes + at
            assert record.body_crc == zlib.crc32(record.body) & 0x7FFFFFFF
            assert at == 0 or blank_at is None
            if at == 0 and blank_at is not None:
                assert record.size + 8 > segment_bytes - blank_at, "it still fitted into the segment before"
                blank_at = None
            at += record.size
            records.append(record)
        assert at <= segment_bytes - 8
        if number < len(segments) - 1:
            blank_at = at
            assert data[at : at + 8] == struct.pack(">ii", segment_bytes - at, log.MAGIC_BLANK)
            at += 8
        assert not any(data[at:])
    assert blank_at is None
    return records


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda name: name.replace(" ", "-"))
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Generated, dict[str, Any]]:
    shape = SHAPE | VARIANTS[request.param]
    return generate(tmp_path_factory.mktemp("store"), **shape), shape


def test_log_is_what_a_broker_writes(store: tuple[Generated, dict[str, Any]]) -> None:
    made, shape = store
    records = read_log(made.root, shape["segment_bytes"])
    assert len(records) == made.records == made.queue_units
    assert made.log_bytes == records[-1].physical_offset + records[-1].size <= shape["total_bytes"]
    assert made.log_bytes > shape["total_bytes"] - shape["segment_bytes"]
    times = [record.store_timestamp_ms for record in records]
    assert times == sorted(times)
    assert len(set(times)) < len(times)
    for record in records:
        assert len(record.body) == shape["body_bytes"]
        assert 0 <= record.store_timestamp_ms - record.born_timestamp_ms < 1000
        pairs = text.parse(record.properties)
        assert ("TAGS" in pairs, "UNIQ_KEY" in pairs) == (shape.get("tags", True), shape.get("unique_keys", True))
        assert len(pairs.get("KEYS", "").split()) == shape.get("keys", 1)
        assert record.properties.endswith(b"\2")
    unique = [text.parse(record.properties).get("UNIQ_KEY") for record in records]
    assert None in unique or len(set(unique)) == len(unique)


def test_queues_and_index_are_what_a_broker_derives(store: tuple[Generated, dict[str, Any]]) -> None:
    made, shape = store
    broker = SlowBroker(shape)
    for record in read_log(made.root, shape["segment_bytes"]):
        broker.dispatch(record)
    found = {
        str(path.relative_to(made.root)): path.read_bytes()
        for path in (made.root / "consumequeue").rglob("*")
        if path.is_file()
    }
    expected = broker.queue_files()
    assert sorted(found) == sorted(expected)
    assert found == expected
    index = sorted((made.root / "index").iterdir())
    assert all(len(path.name) == 17 and path.name.isdecimal() for path in index)
    assert [path.read_bytes() for path in index] == broker.index_files()
    assert made.index_units == sum(file.header()[5] - 1 for file in broker.index)


def test_the_other_files(store: tuple[Generated, dict[str, Any]]) -> None:
    made, shape = store
    last_ms = read_log(made.root, shape["segment_bytes"])[-1].store_timestamp_ms
    index = sorted((made.root / "index").iterdir())
    rolled_ms = struct.unpack(">q", index[-2].read_bytes()[8:16])[0] if len(index) > 1 else 0
    checkpoint = (made.root / "checkpoint").read_bytes()
    assert checkpoint == struct.pack(">qqq", last_ms, last_ms, rolled_ms).ljust(4096, b"\0")
    assert (made.root / "lock").read_bytes() == b"lock"
    assert not (made.root / "abort").exists()


def test_walk_finds_nothing_odd(store: tuple[Generated, dict[str, Any]]) -> None:
    made, shape = store
    count = 0
    state = None
    for path in sorted((made.root / "commitlog").iterdir()):
        data = np.frombuffer(path.read_bytes(), np.uint8)
        split = Split(str(path), int(path.name), len(data), 0, len(data))
        begin = WalkState(0) if state is None else WalkState(0, state.mode, state.time_1_ms, state.time_2_ms)
        walked = walk_split(lambda start, stop, data=data: data[start:stop], split, begin)  # type: ignore[misc]
        state = walked.end
        count += walked.count
        assert not walked.records[w.R_MARKS].any()
        assert set(walked.spans[w.SPAN_CLASS].tolist()) <= {w.RECORD, w.BLANK, w.ZERO}
        codes = {0} if not shape.get("tags", True) else {text.java_hash(tag.decode()) for tag in TAGS}
        assert set(walked.records[w.R_TAGS_CODE].tolist()) <= codes
    assert count == made.records


TAGS = (b"created", b"paid", b"TagA", b"shipped", b"TagB", b"cancelled", b"r")


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_same_seed_same_store(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / name, **(SHAPE | {"seed": seed}))
    first, second, third = (contents(tmp_path / name) for name in "abc")
    assert first == second
    assert first != third


def test_interleaved_irregularly(tmp_path: Path) -> None:
    made = generate(tmp_path, **SHAPE)
    records = read_log(made.root, SHAPE["segment_bytes"])
    queues = [(record.topic, record.queue_id) for record in records]
    assert len(set(queues)) == SHAPE["topics"] * SHAPE["queues"]
    assert len(set(pairwise(queues))) > 2 * len(set(queues))
    bodies = {record.body for record in records}
    assert len(bodies) == len(records)


@pytest.mark.parametrize(
    "wrong", [{"body_bytes": 0}, {"index_units": 1}, {"keys": -1}, {"segment_bytes": 300}, {"total_bytes": 100}]
)
def test_numbers_that_make_no_sense(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"fit|at least"):
        generate(tmp_path, **(SHAPE | wrong))


def test_never_over_another_store(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(FileExistsError):
        generate(tmp_path, **SHAPE)


def measured(place: Path, *words: str) -> tuple[list[dict[str, Any]], str]:
    """Return the rows and the text of ``python -m bench`` on a small store."""
    command = [sys.executable, "-m", "bench", "--bytes", "3000000", "--rounds", "1", "--bodies", "100", *words]
    ran = subprocess.run(
        [*command, "--directory", str(place), "--json", str(place / "out.json")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in place.iterdir()) == ["out.json"], "stores are removed"
    rows = json.loads((place / "out.json").read_text(encoding="utf-8"))["rows"]
    assert all(row["bytes_per_s"] > 0 and row["ratio_to_baseline"] > 0 and row["peak_bytes"] > 0 for row in rows)
    return rows, ran.stdout


@pytest.mark.long
def test_measure_prints_table_and_json(tmp_path: Path) -> None:
    cases = ("walk", "audit", "audit from disk", "audit, small pages", "rebuild")
    rows, text = measured(tmp_path, "--cases", *cases)
    assert {(row["case"], row["body_bytes"], row["jobs"]) for row in rows} == {
        (case, 100, jobs) for case in cases for jobs in (1, 2)
    }
    for name in ("engine", "GB/s", "cores", crc.ENGINE, "audit, 100 B, two cores", "rebuild, 100 B, two cores"):
        assert name in text


@pytest.mark.long
def test_measure_of_spark(tmp_path: Path) -> None:
    rows, text = measured(tmp_path, "--cases", "audit on Spark", "rebuild on Spark", "--jobs", "2")
    assert [(row["case"], row["baseline"]) for row in rows] == [
        ("audit on Spark", "check"),
        ("rebuild on Spark", "rebuild"),
    ]
    assert "local[2]" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the system's own figure is taken")
def test_results_go_into_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "scaling", lambda given, place: [])
    out = tmp_path / "a" / "b"
    suite.main(["--only", "scaling", "--directory", str(tmp_path), "--out", str(out)])
    assert json.loads((out / "results.json").read_text(encoding="utf-8"))["scaling"]["figures"] == []
    assert (out / "RESULTS.md").exists()


def test_a_peak_is_not_that_of_the_process_before() -> None:
    held = np.ones(256 << 20, np.uint8)
    words = [sys.executable, "-c", "from bench.cases import peak_bytes; print(peak_bytes())"]
    told = subprocess.run(words, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert 0 < int(told.stdout) < len(held)
