"""Any bytes in any file: inspection gives output or a clear error, never a traceback, a hang or a huge allocation."""

from __future__ import annotations

import itertools
import random
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storebuilder import StoreBuilder

from storeio import inspect
from storeio.errors import StoreError, UnreadableError, UsageError
from storeio.format import batchqueue, checkpoint, consumequeue, index, queueext
from storeio.format import commitlog as log
from storeio.inspect import text
from storeio.inspect.reader import Reader

NAMES = st.sampled_from(
    [
        "commitlog/" + "0" * 20, f"commitlog/{4096:020d}", "commitlog/-0000000000000000005", "commitlog/stray",
        f"commitlog/{2**63 - 1:020d}", "consumequeue/t/0/" + "0" * 20, f"consumequeue/t/0/{2**63 - 1:020d}",
        "consumequeue/t/x/" + "0" * 20, "consumequeue/%LMQ%a/0/" + "0" * 20, "batchconsumequeue/t/1/" + "0" * 20,
        "consumequeue_ext/t/0/" + "0" * 20, "index/20260101000000000", "index/no", "checkpoint", "lock", "abort",
        "config/topics.json", "consumequeue/CURRENT",
    ]
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 91, 4096])


def _sample() -> bytes:
    builder = StoreBuilder(segment_bytes=4096)
    for number in range(12):
        builder.message("t", number % 2, b"x" * number, tags="A", keys=f"k{number}", sys_flag=number % 3, delay=None)
    return bytes(builder.segments[0])


LOG = _sample()
PIECES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([LOG, LOG[:1000], bytes(700), b"\xff" * 100, log.encode_blank(100), log.encode_blank(-1)]),
    st.integers(0, len(LOG)).map(lambda at: LOG[at : at + 300]),
    NUMBERS.map(lambda n: n.to_bytes(8, "big", signed=True)),
    NUMBERS.map(lambda n: (n % 2**32).to_bytes(4, "big")),
)
CONTENT = st.lists(PIECES, max_size=8).map(b"".join)
STORES = st.dictionaries(NAMES, CONTENT, min_size=1, max_size=5)


def write(root: Path, files: dict[str, bytes]) -> None:
    """Write the files; those whose directory is a file already are left out."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def questions(reader: Reader, numbers: list[int], paths: list[str]) -> Iterator[Callable[[], Any]]:
    """Yield many questions about a store; each call answers one as text and as JSON."""

    def asked(ask: Callable[[], Iterator[Any]], line: Callable[[Any], str]) -> Callable[[], Any]:
        return lambda: [(line(view), view.as_json()) for view in itertools.islice(ask(), 300)]

    yield asked(lambda: inspect.files(reader), text.file_line)
    yield asked(lambda: inspect.units(reader), text.unit_line)
    yield asked(lambda: inspect.index_entries(reader), text.entry_line)
    yield asked(lambda: inspect.index_entries(reader, key="k1"), text.entry_line)
    filters: list[dict[str, Any]] = [
        {}, {"stale": True}, {"tag": "A"}, {"key": "k1"}, {"unique_key": "U"}, {"topic": "t"}, {"topic": "%LMQ%a"},
        {"message_id": "7F00000100002A9F0000000000000000"}, {"since_ms": 0, "until_ms": 2**70},
        {"topic": "t", "queue_id": 0, "queue_offset": (0, 2**63 - 1)}, {"key": "k1", "scan": True},
    ]  # fmt: skip
    for number in numbers:
        filters += [{"at": number}, {"at": number, "around": 3}]
        filters += [{"topic": "t", "queue_id": 0, "queue_offset": number}]
    for wanted in filters:
        yield asked(lambda wanted=wanted: inspect.records(reader, **wanted), text.record_line)
    yield lambda: [
        (list(text.record_block(view)), list(text.body_lines(inspect.body(reader, view), "text")))
        for view in itertools.islice(inspect.records(reader, stale=True), 50)
    ]
    for number, path in itertools.product(numbers, [None, *paths]):
        yield lambda number=number, path=path: list(text.hex_view_lines(inspect.hex_view(reader, number, path)))


@settings(max_examples=250, derandomize=True)
@given(STORES, st.lists(st.one_of(st.integers(0, 9000), NUMBERS), min_size=1, max_size=4))
def test_random_stores(files: dict[str, bytes], numbers: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), files)
        try:
            reader = Reader(directory, failed=lambda _: None)
        except StoreError:
            return
        for question in questions(reader, numbers, list(files)):
            try:
                question()
            except (UsageError, UnreadableError) as error:
                assert str(error)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["rich-5.5.1", "ext-4.9.8"])
def test_real_stores_with_flipped_bytes(name: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "s")
    rng = random.Random(11)
    files = [p for p in sorted(root.rglob("*")) if p.is_file() and 0 < p.stat().st_size < 100_000]
    for _ in range(6):
        for path in rng.sample(files, 12):
            data = bytearray(path.read_bytes())
            for _ in range(rng.choice([1, 3, 200])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(data)
        reader = Reader(root, failed=lambda _: None)
        numbers = [rng.randrange(10**6)]
        paths = [str(path.relative_to(root)) for path in rng.sample(files, 3)]
        for question in questions(reader, numbers, paths):
            try:
                question()
            except (UsageError, UnreadableError) as error:
                assert str(error)


def test_lengths_allocate_nothing(tmp_path: Path) -> None:
    huge = 2**31 - 1
    record = bytearray(LOG[:400])
    record[0:4] = record[84:88] = huge.to_bytes(4, "big")
    header = bytearray(40)
    header[36:40] = huge.to_bytes(4, "big")
    write(
        tmp_path,
        {
            "commitlog/" + "0" * 20: bytes(record),
            "consumequeue/t/0/" + "0" * 20: (huge << 32).to_bytes(8, "big") + b"\x7f" + b"\xff" * 11,
            "consumequeue_ext/t/0/" + "0" * 20: b"\x7f\xff" + b"\x7f" * 30,
            "index/20260101000000000": bytes(header) + bytes(4000),
            "checkpoint": bytes(checkpoint.CHECKPOINT_BYTES - 1),
        },
    )
    reader = Reader(tmp_path, failed=lambda _: None)
    tracemalloc.start()
    for question in questions(reader, [0, 5, 46], ["index/20260101000000000", "checkpoint"]):
        question()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_properties_with_absurd_numbers(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    lists = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "9" * 6000 + "," + "٣"}
    builder.message("t", 0, b"x", properties=lists)
    builder.message("t", 0, b"x", properties={**lists, "INNER_NUM": "1" * 5000, "INNER_BASE": "2"})
    _write_log(builder, tmp_path)
    assert len(list(inspect.records(tmp_path))) == 2
    assert [view.valid for view in inspect.records(tmp_path, topic="%LMQ%a")] == [True, False]
    assert list(inspect.records(tmp_path, topic="%LMQ%a", queue_id=0, queue_offset=3)) == []
    assert len(list(inspect.records(tmp_path, topic="%LMQ%b", queue_id=0, queue_offset=3))) == 2


def _write_log(builder: StoreBuilder, root: Path) -> None:
    (root / "commitlog").mkdir(parents=True)
    for base, data in builder.segment_files():
        (root / "commitlog" / f"{base:020d}").write_bytes(data)


def test_layouts_used_here_are_those_of_the_formats() -> None:
    assert (consumequeue.UNIT_BYTES, batchqueue.UNIT_BYTES, index.UNIT_BYTES, queueext.HEAD_BYTES) == (20, 46, 20, 20)
