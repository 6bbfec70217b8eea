"""Splits of every size, stitched, equal the sequential walk; so do windows that end too early."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import slow
from damage import append, damaged_segments, set_field
from hypothesis import given, settings
from hypothesis import strategies as st
from storebuilder import StoreBuilder
from walks import QUIET, Reader, Row, row_of, rows_of

import storeio.window
from storeio import splits
from storeio.audit.split import SplitReport
from storeio.audit.stitching import stitch
from storeio.paths import COMMITLOG, StoreFile
from storeio.splits import Split, WalkState
from storeio.walk import Walked, walk_split


@dataclass(slots=True)
class Report(SplitReport):
    """What the scan knows of a split, and the records that stitching must keep or replace."""

    rows: list[Row] = field(default_factory=list)


@dataclass
class Stitched:
    """The joined result of all splits, and how many were walked a second time."""

    rows: list[Row]
    spans: list[slow.Span]
    again: int


def report_of(walked: Walked) -> Report:
    """Return the report of a split as the audit makes it."""
    return Report(
        walked.split, walked.begin, walked.end, walked.asked, walked.skipped_until(), walked.spans, walked.count,
        rows=rows_of(walked),
    )  # fmt: skip


def stitch_splits(read: Reader, base: int, size: int, step: int, *, piece: int | None = None) -> Stitched:
    """Walk each split by a guess, and again where the scan's own stitching asks for it."""
    again = []

    def walk_again(split: Split, begin: WalkState) -> SplitReport:
        again.append(split)
        return report_of(walk_split(read, split, begin, piece_bytes=piece))

    listed = splits.cut(StoreFile("segment", COMMITLOG, size, base), step)
    stitched = stitch([report_of(walk_split(read, split, piece_bytes=piece)) for split in listed], walk_again)
    spans = splits.merge_spans([report.spans for report in stitched]).T.tolist()
    rows = [row for report in stitched for row in getattr(report, "rows", [])]
    return Stitched(rows, [tuple(span) for span in spans], len(again))


def assert_same(base: int, data: bytes, step: int, oracle: slow.SlowWalk) -> Stitched:
    """Compare the stitched splits with the slow sequential walk, walked at once and in pieces of some size."""
    read = Reader(np.frombuffer(data, np.uint8))
    found = stitch_splits(read, base, len(data), step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storeio.window, "MARGIN_BYTES", step % 100)
        in_pieces = stitch_splits(read, base, len(data), step, piece=80 + 37 * step % 1000)
    for each in (found, in_pieces):
        assert each.spans == oracle.spans
        assert each.rows == [row_of(head) for head in oracle.records]
    assert in_pieces.again == found.again
    return found


@pytest.fixture
def short_sight() -> Iterator[None]:
    """Let a split read hardly anything past its stop, so that it has to ask for more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storeio.window, "LOOK_AHEAD_BYTES", 1)
        yield


def log_with_everything() -> StoreBuilder:
    """Return a log with every kind of message, forged records in bodies among them."""
    builder = StoreBuilder(segment_bytes=32768, property_crc=True)
    kinds = ["plain", "forged", "tagged", "forged_newer", "v6", "large", "forged_blank", "batch", "forged", "keyed"]
    for number, what in enumerate(itertools.islice(itertools.cycle(kinds), 40)):
        append(builder, what, 300, number)
    return builder


@pytest.mark.usefixtures("short_sight")
def test_every_size_on_a_sound_log_with_forged_records() -> None:
    base, data = log_with_everything().segment_files()[0]
    oracle = slow.SlowWalk(data, base)
    assert len(oracle.records) > 30
    for step in range(64, len(data) + 64, 64):
        assert_same(base, data, step, oracle)


def test_guesses_hold_on_a_sound_log() -> None:
    """Else splits bring nothing: each would be walked a second time, after the one before it."""
    builder = StoreBuilder(segment_bytes=32768)
    while len(builder.segments) < 2:
        append(builder, "keyed", 200, builder.messages)
    base, data = builder.segment_files()[0]
    assert assert_same(base, data, 4096, slow.SlowWalk(data, base)).again == 0


@pytest.mark.usefixtures("short_sight")
@settings(QUIET, max_examples=150)
@given(damaged_segments(), st.sampled_from([64, 128, 192, 320, 512, 1024, 2048]))
def test_damaged_segments(segment: tuple[int, bytes], step: int) -> None:
    base, data = segment
    assert_same(base, data, step, slow.SlowWalk(data, base))


@settings(QUIET, max_examples=12)
@given(damaged_segments(segment_bytes=2048, most_damages=3))
def test_damaged_segments_every_size(segment: tuple[int, bytes]) -> None:
    base, data = segment
    oracle = slow.SlowWalk(data, base)
    for step in range(64, len(data) + 64, 64):
        assert_same(base, data, step, oracle)


def resumed_after(times_ms: list[int | None]) -> bytes:
    """Return a segment of one record a time, with a hole of zeros where there is None."""
    builder = StoreBuilder(segment_bytes=4096)
    for time_ms in times_ms:
        if time_ms is None:
            builder.raw(bytes(200))
        else:
            builder.message("T", 0, b"x" * 40, store_ms=time_ms)
    return builder.segment_files()[0][1]


@pytest.mark.parametrize(
    "times_ms",
    [
        pytest.param([50, 60, None, None, 10, None, 20, 70], id="nothing-between"),
        pytest.param([50, 60, None, 70, None, 55, None, 62, 80], id="one-record-between"),
        pytest.param([10, 90, None, 20, 30, None, 25, 40], id="far-future-time"),
        pytest.param([90, None, None, 10, 10, 10, 10, None, 10], id="one-record-in-front"),
    ],
)
def test_store_times_are_known_across_splits(times_ms: list[int | None]) -> None:
    """What resumes behind damage is older or newer than records that lie splits away."""
    data = resumed_after(times_ms)
    oracle = slow.SlowWalk(data)
    for step in range(64, len(data), 64):
        assert_same(0, data, step, oracle)


@pytest.mark.parametrize("value", [1, 4096 + 1, -5, 2**40])
def test_a_wrong_offset_field_at_the_start_of_a_split(value: int) -> None:
    """The chain calls it a record where it is the only wrong thing, the search stale: the chain must win."""
    builder = StoreBuilder(segment_bytes=4096)
    for _ in range(6):
        last = builder.message("T", 0, b"x" * 90)
    data = bytearray(builder.segment_files()[0][1])
    set_field(data, last.physical_offset, "physical_offset", value)
    oracle = slow.SlowWalk(bytes(data))
    assert len(oracle.records) == 6
    for step in range(64, len(data), 64):
        assert_same(0, bytes(data), step, oracle)


def test_windows_are_asked_inside_the_segment_and_grow_only_where_needed() -> None:
    """A sound split is read once, and little more than itself."""
    builder = StoreBuilder(segment_bytes=32768)
    while len(builder.segments) < 2:
        append(builder, "plain", 100, 1)
    data = np.frombuffer(builder.segment_files()[0][1], np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storeio.window, "LOOK_AHEAD_BYTES", 1024)
        for split in splits.cut(StoreFile("", COMMITLOG, len(data), 0), 8192):
            read = Reader(data)
            walk_split(read, split)
            assert read.asked[0] == (split.start, min(split.stop + 1024, len(data)))
            assert len(read.asked) == 1
