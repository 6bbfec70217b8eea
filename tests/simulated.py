"""Starts of stores that were written with the oracle's options, as the tests of ``simulate`` make them."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_data
import numpy as np
import pytest
from damage import MESSAGES, Draw, _damage, append
from hypothesis import strategies as st
from implied import derive
from storebuilder import StoreBuilder

from storeio.config import infer_config
from storeio.paths import describe, file_name
from storeio.reading.many_files import Pieces
from storeio.reading.pieces import Agreeing
from storeio.scan import list_store, read_range
from storeio.simulate.broker import Setup
from storeio.simulate.disk import Disk
from storeio.simulate.metadata import TIMER_CHECK, Switches
from storeio.simulate.outcome import Outcome, simulate_start
from storeio.simulate.rules import LINES, rules_of
from storeio.simulate.tables import DELAY_OFFSETS
from storeio.walk import DEFAULT_DELAYS_MS

SEGMENT = 4096
SOME = 2  # lines beside the one that wrote a store
SETUP = Setup(SEGMENT, 20 * 8, 10, 30, DEFAULT_DELAYS_MS, multi_dispatch=True, lmq=True)


def on_lines(cases: Sequence[tuple[str, golden_data.Case]]) -> list[Any]:
    """Return each recorded damage as two parameters, with the versions to start on it.

    To make test belong the broker that wrote the store and two other lines in turn, to make long-test the rest.
    """
    rows, versions = [], list(LINES.values())
    for number, (name, case) in enumerate(cases):
        others = [version for version in versions if version != case["broker"]]
        others = [others[(SOME * number + k) % len(others)] for k in range(len(others))]
        what = f"{name}:{case['id']}"
        rows.append(pytest.param(name, case, [case["broker"], *others[:SOME]], id=what))
        rows.append(pytest.param(name, case, others[SOME:], id=f"{what}:others", marks=pytest.mark.long))
    return rows


def disk_of(root: Path) -> Disk:
    """Return a store as a simulated start sees it."""
    return Disk(list_store(root).files, lambda path, start, stop: read_range(str(root), path, start, stop))


def agreeing_on(disk: Disk) -> Agreeing:
    """Return what compares pieces of the store below a disk, one by one."""
    stored = {path: file.stored for path, file in disk.files.items()}

    def agrees(pieces: Pieces, k: int) -> bool:
        try:
            path, start, stop, expected = pieces.piece(k)
        except UnicodeDecodeError:  # no usual topic
            return False
        return stored.get(path, 0) >= stop and disk._read(path, start, stop).tobytes() == expected.tobytes()

    return lambda pieces: np.array([agrees(pieces, k) for k in range(pieces.count)], np.bool_)


def setup_of(root: Path, options: Mapping[str, Any]) -> Setup:
    """Return the settings with which a store was written; delays as its files tell them."""
    sizes = {"mappedFileSizeCommitLog": options["clFile"], "mappedFileSizeConsumeQueue": 20 * options["cqEntries"]}
    config = infer_config(list_store(root), {name: str(value) for name, value in sizes.items()})
    return Setup(
        config.commitlog_file_bytes,
        config.queue_file_bytes,
        options["indexSlots"],
        options["indexNum"],
        config.delays_ms,
        batch_file_bytes=options.get("set.mapperFileSizeBatchConsumeQueue", 46 * 300_000),
        ext_file_bytes=options.get("cqExtFile", 48 << 20),
        multi_dispatch=options.get("set.enableMultiDispatch") == "true",
        lmq=options.get("set.enableLmq") == "true",
        ext_enabled=options.get("cqExt") == "true",
        batch_topics=frozenset(name for name in options.get("bcqTopics", "").split(",") if name),
    )


@st.composite
def stores(draw: Draw) -> dict[str, bytes]:
    """Return the files of a small store: a random log, damaged, with all, some or none of what belongs to it."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    builder = StoreBuilder(base=SEGMENT * draw(st.sampled_from([0, 3])), segment_bytes=SEGMENT)
    kinds = [*rng.choices(MESSAGES, k=3), "tagged", "keyed", "plain"]
    for _ in range(rng.choice((5, 30, 60, 90))):
        append(builder, rng.choice(kinds), rng.choice((0, 9, 60, 200)), rng.randrange(50))
    segments = builder.segment_files()
    records = builder.records()
    own = replace(builder.settings, units_per_file=8, index_slots=10, index_units=30, multi_dispatch=True)
    derived = derive(records, own)
    files: dict[str, bytes] = {}
    for base, original in segments:
        data = bytearray(original)
        starts = [head.position for head in records if original[head.position :].startswith(head.raw)]
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            _damage(draw, data, starts or [0], base, segments)
            data = data[:SEGMENT].ljust(SEGMENT, b"\0")
        files[f"commitlog/{file_name(base)}"] = bytes(data)
    if draw(st.booleans()):
        files[f"commitlog/{file_name(segments[-1][0] + SEGMENT)}"] = bytes(SEGMENT)
    queues = draw(st.sampled_from([("whole",), ("gone",), ("whole", "zeroed", "gone")]))
    for path, content in derived.files.items():
        what = rng.choice(queues)
        if what != "gone":
            keep = len(content) if what == "whole" else 20 * rng.randrange(9)
            files[path] = bytes(content[:keep]).ljust(len(content), b"\0")
    if draw(st.booleans()):
        files |= {f"index/{20231114221320000 + n:017d}": bytes(data) for n, data in enumerate(derived.index)}
    times = draw(st.sampled_from([(0, 0, 0), (2**60, 2**60, 2**60), (1_700_000_000_050,) * 3]))
    files["checkpoint"] = struct.pack(">qqq", *times).ljust(4096, b"\0")
    if draw(st.booleans()):
        files["abort"] = b""
    return files


def in_memory(files: Mapping[str, bytes]) -> Disk:
    """Return a store that is held in memory."""
    listed = [describe(path, len(data)) for path, data in sorted(files.items())]
    return Disk(listed, lambda path, start, stop: np.frombuffer(files[path], np.uint8)[start:stop])


def recorded(state: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded or predicted state without what the records leave out.

    Empty schedule queues; and queues whose topic holds a control character: the recorder could not read
    those lines of the broker's answer, though the files and the messages delivered tell of the queue.
    """
    queues = {
        name: numbers
        for name, numbers in state["queues"].items()
        if name.isprintable() and not name.startswith("SCHEDULE_TOPIC_XXXX")
    }
    return {**state, "queues": queues, "index": sorted(state["index"])}


def started(root: Path, version: str, base: str, **switches: bool) -> tuple[Outcome, Disk]:
    """Return the outcome of a start without digests, and the disk after it."""
    disk, setup = disk_of(root), setup_of(root, golden_data.options(base))
    return simulate_start(disk, rules_of(version), setup, digests=False, switches=Switches(**switches))[0], disk


def store_with(tmp_path: Path, files: dict[str, bytes], *edits: list[Any]) -> Path:
    """Return a damaged 5.5.1 store with some files more."""
    root = golden_data.damaged("base-5.5.1", list(edits), tmp_path / "store")
    for path, content in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(content)
    return root


SOUND_FILES = {DELAY_OFFSETS: b'{"offsetTable":{3:7}}', TIMER_CHECK: bytes(4096), "abort": b"123"}


def paths_left(found: Outcome) -> list[str]:
    """Return what a refused start leaves behind, by path."""
    return [each.path for each in found.leaves]
