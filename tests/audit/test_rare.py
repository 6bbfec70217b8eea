"""Values that one record alone holds: found wherever splits are cut, and silence where they are usual."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from golden_data import store
from hypothesis import given
from hypothesis import strategies as st
from storebuilder import StoreBuilder

from storeio import audit
from storeio.checks.rare import COMMON, MOST_PRODUCERS
from storeio.format import commitlog as log
from storeio.kernels.few import count_few

PATH = "commitlog/00000000000000000000"


def build(root: Path, records: int) -> list[int]:
    """Write a sound store and return where its records lie."""
    builder = StoreBuilder(root)
    for number in range(records):
        builder.message("topic", number % 2, body=b"x" * (20 + number))
    builder.close()
    return [head.position for head in builder.records() if head.physical == head.position]


def overwrite(root: Path, position: int, data: bytes) -> None:
    with (root / PATH).open("r+b") as file:
        file.seek(position)
        file.write(data)


def unusual(root: Path, split_bytes: int | None = None) -> list[tuple[int, str]]:
    found = audit.check(root, jobs=1, split_bytes=split_bytes).findings
    assert {finding.severity for finding in found} <= {"info"}, found
    return [(f.position, f.detail) for f in found if f.code == "LOG_UNUSUAL"]


@pytest.mark.parametrize("split_bytes", [None, 512])
@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (log.BORN_HOST_AT, b"\xcc", "no other record names its producer's host"),
        (log.BORN_HOST_AT + 7, b"\x01", "no other record names its producer's host"),
        (log.BORN_HOST_AT + 16, b"\xcc", "no other record names its store host"),
        (log.FLAG_AT, b"\x40", "no other record has bit 30 of FLAG"),
        (log.FLAG_AT + 2, b"\x01", "no other record has bit 8 of FLAG"),
    ],
)
def test_one_record_differs(tmp_path: Path, at: int, data: bytes, what: str, split_bytes: int | None) -> None:
    places = build(tmp_path, 40)
    overwrite(tmp_path, places[7] + at, data)
    assert unusual(tmp_path, split_bytes) == [(places[7], what)]


@pytest.mark.parametrize("split_bytes", [None, 512])
@pytest.mark.parametrize(("at", "data"), [(log.BORN_HOST_AT, b"\xcc"), (log.FLAG_AT, b"\x40")])
def test_two_records_differ(tmp_path: Path, at: int, data: bytes, split_bytes: int | None) -> None:
    places = build(tmp_path, 40)
    for place in (places[3], places[30]):
        overwrite(tmp_path, place + at, data)
    assert unusual(tmp_path, split_bytes) == []


def test_small_logs_and_many_producers_say_nothing(tmp_path: Path) -> None:
    places = build(tmp_path / "small", COMMON)
    overwrite(tmp_path / "small", places[7] + log.BORN_HOST_AT, b"\xcc")
    assert unusual(tmp_path / "small") == []
    places = build(tmp_path / "many", 60)
    for number in range(MOST_PRODUCERS + 1):
        overwrite(tmp_path / "many", places[number] + log.BORN_HOST_AT, bytes([200 + number]))
    assert unusual(tmp_path / "many") == []
    assert unusual(tmp_path / "many", 512) == []


def test_recorded_byte_of_a_producers_address(tmp_path: Path) -> None:
    """The edit of a fuzz case that nothing else in the store contradicts."""
    import shutil

    root = shutil.copytree(store("base-5.3.3"), tmp_path / "store")
    path = root / "commitlog" / "00000000000000229376"
    data = bytearray(path.read_bytes())
    data[19975] = 0xCC
    path.write_bytes(data)
    found = [f for f in audit.check(root).findings if f.code == "LOG_UNUSUAL"]
    assert [(f.path, f.position <= 19975 < f.position + f.length) for f in found] == [(f"commitlog/{path.name}", True)]
    assert dataclasses.asdict(found[0])["detail"] == "no other record names its producer's host"


@given(st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=60), st.integers(1, 8))
def test_count_few(values: list[int], room: int) -> None:
    column = np.array(values, np.int64)
    found, counts, first = np.zeros((3, room), np.int64)
    n = int(count_few(column, found, counts, first))
    if len(set(values)) > room:
        assert n == -1
        return
    expected = [(value, values.count(value), values.index(value)) for value in dict.fromkeys(values)]
    assert list(zip(found.tolist(), counts.tolist(), first.tolist(), strict=True))[:n] == expected
    assert n == len(expected)
