"""Random damage of random small stores: always an outcome, and no byte is read that is not there."""

from __future__ import annotations

import struct
from typing import Final

import damage
import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storebuilder import Settings, StoreBuilder, derive

from storeio.paths import describe
from storeio.simulate.broker import Setup
from storeio.simulate.disk import Disk
from storeio.simulate.ends import CRASHES, HANGS, REFUSES, STARTS
from storeio.simulate.outcome import Outcome, as_recorded, simulate_start
from storeio.simulate.pull import Consumed, consume
from storeio.simulate.rules import LINES, rules_of

Draw = st.DrawFn
Files = dict[str, bytes]
SEGMENT: Final = 2048
CHECKPOINT_BYTES: Final = 4096
QUEUE_UNITS: Final = 6
BATCH_UNITS: Final = 4
EXT_BYTES: Final = 96
SLOTS, INDEX_UNITS = 7, 24
DELAYS_MS: Final = (0, 1000, 5000, 10_000)
ODD: Final = (0, 1, -1, 7, 20, 46, 4096, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**62, 2**40)
TIMES: Final = (0, 1, 1_700_000_000_000, 1_700_000_000_100, 2**62, -1, SEGMENT)
NAMES: Final = ("x", "-1", "+5", "00", "7", "lost+found", "00000000000000000007", "99999999999999999999", "é", "a/b")
WHAT: Final = ("plain", "batch", "light", "delayed", "prepared", "keys", "wide", "odd topic", "odd numbers", "odd list")
DAMAGES: Final = ("flip", "number", "zero", "cut", "delete", "rename", "copy", "noise", "tree", "empty")


@st.composite
def stores(draw: Draw) -> Files:
    """Return the files of a small store with queues of all kinds, damaged a few times."""
    known = Settings(
        segment_bytes=SEGMENT, units_per_file=QUEUE_UNITS, batch_units_per_file=BATCH_UNITS, index_slots=SLOTS,
        index_units=INDEX_UNITS, ext=draw(st.booleans()), ext_bytes=EXT_BYTES, multi_dispatch=draw(st.booleans()),
        batch_topics=frozenset({"b"}),
    )  # fmt: skip
    builder = StoreBuilder(base=SEGMENT * draw(st.sampled_from([0, 0, 2])), settings=known)
    for number, what in enumerate(draw(st.lists(st.sampled_from(WHAT), min_size=0, max_size=30))):
        _append(builder, what, number, draw)
    derived = derive(builder.records(), known)
    files = {path: bytes(data) for path, data in derived.files.items() if _is_plain(path)}
    files |= {f"commitlog/{base:020d}": data for base, data in builder.segment_files()}
    files |= {f"index/{20231114221320000 + n:017d}": bytes(data) for n, data in enumerate(derived.index)}
    files["checkpoint"] = struct.pack(">6q", *(draw(st.sampled_from(TIMES)) for _ in range(6))).ljust(
        CHECKPOINT_BYTES, b"\0"
    )
    if draw(st.booleans()):
        files["abort"] = b""
    for _ in range(draw(st.integers(0, 4))):
        _damage(files, draw)
    return files


def _is_plain(path: str) -> bool:
    """Tell whether a path out of a record's topic may stand in a directory; odd ones a start has to make itself."""
    return path.isprintable() and not {"", ".."} & set(path.split("/"))


def _append(builder: StoreBuilder, what: str, number: int, draw: Draw) -> None:
    topic, body = f"t{number % 2}", bytes(number * 7 % 90)
    match what:
        case "batch":
            builder.message("b", 0, body, inner=1 + number % 3)
        case "light":
            builder.message(topic, 0, body, lmq=("%LMQ%a", "%LMQ%b"))
        case "delayed":
            builder.message(topic, 0, body, delay=1 + number % 3)
        case "prepared":
            builder.message(topic, 0, body, transaction=draw(st.sampled_from([4, 8, 12])))
        case "keys":
            builder.message(topic, 0, body, tags="tag", keys="k1 k2  k3", unique_key=str(number))
        case "wide":
            builder.message("w" * 140, 0, body)
        case "odd topic":
            builder.message(draw(st.sampled_from(["", "a/b", "..", "../../x", "n\0l", "é" * 60, "t0/0"])), 0, body)
        case "odd numbers":
            builder.message(
                topic, draw(st.sampled_from([0, -1, 2**31 - 1])), body, queue_offset=draw(st.sampled_from(ODD)),
                store_ms=draw(st.sampled_from(ODD)), born_ms=0,
            )  # fmt: skip
        case "odd list":
            names, numbers = draw(st.sampled_from([("%LMQ%a,x", "0,"), ("b", "1"), ("%LMQ%a", "9" * 19), ("/", "-5")]))
            builder.message(
                topic, 0, body, properties={"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": numbers}
            )
        case _:
            builder.message(topic, 0, body)


def _damage(files: Files, draw: Draw) -> None:
    """Change the files in one way."""
    files.setdefault("lock", b"lock")
    path = draw(st.sampled_from(sorted(files)))
    data = bytearray(files[path])
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    match draw(st.sampled_from(DAMAGES)):
        case "flip" if data:
            damage.flip_bit(data, at, draw(st.integers(0, 7)))
        case "number":
            width = draw(st.sampled_from([2, 4, 8]))
            at -= at % draw(st.sampled_from([1, 2, 4]))
            value = draw(st.sampled_from(ODD)) % 2 ** (8 * width)
            piece = value.to_bytes(width, "big")[: max(len(data) - at, 0)]
            data[at : at + len(piece)] = piece
        case "zero":
            damage.zero(data, at, min(at + draw(st.sampled_from([1, 20, 46, 500])), len(data)))
        case "cut":
            del data[draw(st.sampled_from([0, at, max(len(data) - 1, 0)])) :]
        case "noise":
            piece = draw(st.binary(min_size=1, max_size=40))[: len(data) - at]
            data[at : at + len(piece)] = piece
        case "delete":
            del files[path]
            return
        case "rename" | "copy" as kind:
            name = f"{path.rpartition('/')[0]}/{draw(st.sampled_from(NAMES))}".lstrip("/")
            if not any(other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in files):
                files[name] = files.pop(path) if kind == "rename" else bytes(data)
            return
        case "tree":
            top = "/".join(path.split("/")[: draw(st.integers(1, 3))])
            for other in [p for p in files if p == top or p.startswith(f"{top}/")]:
                del files[other]
            return
        case "empty":
            files[f"{path.rpartition('/')[0]}/99999999999999999".lstrip("/")] = b""
            return
    files[path] = bytes(data)


def _run(files: Files, version: str, **more: bool) -> tuple[Outcome, Disk, Consumed | None]:
    """Run the simulator; a read beyond a file fails."""

    def read(path: str, start: int, stop: int) -> npt.NDArray[np.uint8]:
        if start >= stop:
            return np.empty(0, np.uint8)
        assert 0 <= start <= stop <= len(files[path]), (path, start, stop)
        return np.frombuffer(files[path][start:stop], np.uint8)

    setup = Setup(
        SEGMENT, 20 * QUEUE_UNITS, SLOTS, INDEX_UNITS, DELAYS_MS, batch_file_bytes=46 * BATCH_UNITS,
        ext_file_bytes=EXT_BYTES, **more,
    )  # fmt: skip
    disk = Disk([describe(path, len(data)) for path, data in sorted(files.items())], read)
    found, broker = simulate_start(disk, rules_of(version), setup)
    return found, disk, consume(broker) if found.outcome == STARTS else None


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(stores(), st.booleans(), st.booleans(), st.booleans())
def test_every_line_comes_to_an_outcome(files: Files, light: bool, ext: bool, scalar: bool) -> None:
    for version in LINES.values():
        found, disk, _ = _run(dict(files), version, multi_dispatch=light, lmq=light, ext_enabled=ext, scalar=scalar)
        assert found.outcome in (STARTS, REFUSES, CRASHES, HANGS)
        assert found.outcome == STARTS or found.reason
        for path, file in disk.files.items():
            most = CHECKPOINT_BYTES if path == "checkpoint" else SEGMENT  # a shorter one is extended
            assert file.is_dir or file.size <= max(len(files.get(path, b"")), most), path
            assert ".." not in path.split("/")


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(stores(), st.booleans())
def test_records_alone_and_in_blocks_come_to_the_same(files: Files, light: bool) -> None:
    for version in LINES.values():
        alone, _, got_alone = _run(dict(files), version, multi_dispatch=light, lmq=light, scalar=True)
        blocks, _, got_blocks = _run(dict(files), version, multi_dispatch=light, lmq=light, scalar=False)
        assert alone.outcome == blocks.outcome
        assert got_alone == got_blocks
        for one, other in ((alone.after_load, blocks.after_load), (alone.after_start, blocks.after_start)):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert as_recorded(one) == as_recorded(other)


def test_a_directory_among_the_files_of_a_batch_queue_says_nothing_of_its_topic() -> None:
    files = {"commitlog/00000000000000000000": bytes(SEGMENT), "batchconsumequeue/b/0/a/b": bytes(46)}
    found, _, _ = _run(files, "5.5.1", multi_dispatch=False, lmq=False, ext_enabled=False, scalar=False)
    assert found.outcome in (STARTS, REFUSES)
