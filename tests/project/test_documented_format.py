"""docs/format.md against the code: every table of fields, codes, names and sizes."""

from __future__ import annotations

import itertools
import re
from functools import cache

import numpy as np
import pytest

from storeio import config
from storeio.format import batchqueue, checkpoint, commitlog, consumequeue, index, properties, queueext
from storeio.inspect.layout import parts_of
from storeio.simulate import metadata
from tests.documented import ROOT

Row = list[str]
FIELD = re.compile(r"`([^`]+)`")


@cache
def tables() -> dict[str, list[list[Row]]]:
    """Return the tables of the page by the heading above them, each a list of rows, the head first."""
    found: dict[str, list[list[Row]]] = {}
    heading, inside = "", False
    for line in (ROOT / "docs" / "format.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            inside = False
            continue
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if not inside:
            found.setdefault(heading, []).append([])
            inside = True
        if not row[0].startswith("---"):
            found[heading][-1].append(row)
    return found


def fields(heading: str, number: int = 0) -> list[tuple[str, str, str]]:
    """Return position, length and name of each row of a table of fields."""
    head, *rows = tables()[heading][number]
    assert head[:2] == ["At", "Bytes"]
    return [(at, length, FIELD.fullmatch(name).group(1)) for at, length, name, *_ in rows]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("heading", "number", "dtype"),
    [
        ("Consume queues", 0, consumequeue.UNIT),
        ("Batch queues", 0, batchqueue.UNIT),
        ("Queue ext units", 0, queueext.HEAD),
        ("Index files", 0, index.HEADER),
        ("Index files", 1, index.UNIT),
        ("Checkpoint", 0, checkpoint.CHECKPOINT),
    ],
)
def test_fields_of_fixed_layouts(heading: str, number: int, dtype: np.dtype[np.void]) -> None:
    assert dtype.names is not None
    assert dtype.fields is not None
    declared = [(str(dtype.fields[name][1]), str(dtype.fields[name][0].itemsize), name) for name in dtype.names]
    assert fields(heading, number) == declared


def lengths(flag: int, magic: int) -> dict[str, int]:
    """Return the letters of the record's table for one kind of record."""
    born, store = commitlog.host_bytes(flag)
    return {"b": born, "s": store, "t": 2 if magic == commitlog.MAGIC_V2 else 1, "n": 7, "m": 5, "p": 11}


def total(text: str, letters: dict[str, int]) -> int:
    """Return what a sum of numbers and letters comes to."""
    return sum(letters[term] if term in letters else int(term) for term in text.split(" + "))


def record(flag: int, magic: int, letters: dict[str, int]) -> bytes:
    """Return a record with a size, hosts, body, topic and properties of these lengths."""
    size = commitlog.record_size(flag, magic, letters["n"], letters["m"], letters["p"])
    made = commitlog.Record(
        size, magic, 0, 1, 2, 3, 4, flag, 5, commitlog.Host(bytes(letters["b"] - 4), 6),
        7, commitlog.Host(bytes(letters["s"] - 4), 8), 9, 10, bytes(7), b"topic", b"properties!",
    )  # fmt: skip
    return commitlog.encode_record(made)


@pytest.mark.parametrize(
    ("flag", "magic"),
    list(itertools.product((0, 0x10, 0x20, 0x30), (commitlog.MAGIC_V1, commitlog.MAGIC_V2))),
)
def test_fields_of_records(flag: int, magic: int) -> None:
    letters = lengths(flag, magic)
    data = record(flag, magic, letters)
    parts, why = parts_of(memoryview(data))
    assert not why
    shown = [(total(at, letters), total(length, letters), name) for at, length, name in fields("Record")]
    assert shown == [(part.at, part.length, part.name) for part in parts]
    formula = re.search(r"So `size` is ([^,]+), at least (\d+)", (ROOT / "docs" / "format.md").read_text())
    assert formula is not None
    assert total(formula.group(1), letters) == len(data)
    assert int(formula.group(2)) == commitlog.MIN_RECORD_BYTES


def test_blank_record() -> None:
    assert fields("Blank record") == [("0", "4", "size"), ("4", "4", "magic")]
    assert f"{commitlog.MAGIC_BLANK + 2**32:#010X}".replace("X", "x") in tables()["Blank record"][0][2][3]
    assert f"at least {commitlog.BLANK_HEAD_BYTES}" in tables()["Blank record"][0][1][3]


def test_magic_codes() -> None:
    shown = [int(FIELD.fullmatch(row[0]).group(1), 16) - 2**32 for row in tables()["Record"][1][1:]]  # type: ignore[union-attr]
    assert shown == [commitlog.MAGIC_V1, commitlog.MAGIC_V2, commitlog.MAGIC_BLANK]


def test_system_flags() -> None:
    rows = tables()["Record"][2][1:]
    shown = [int(FIELD.fullmatch(row[0]).group(1), 16) for row in rows]  # type: ignore[union-attr]
    assert shown == [
        commitlog.SYS_COMPRESSED, commitlog.SYS_MULTI_TAGS, commitlog.SYS_TRANSACTION, commitlog.SYS_BORN_V6,
        commitlog.SYS_STORE_V6, commitlog.SYS_NEED_UNWRAP, commitlog.SYS_INNER_BATCH, commitlog.SYS_COMPRESSION_TYPE,
    ]  # fmt: skip
    assert sum(shown) == commitlog.SYS_KNOWN
    states = [int(bits, 16) for bits in FIELD.findall(rows[2][1])]
    assert states == [commitlog.SYS_PREPARED, commitlog.SYS_COMMIT, commitlog.SYS_ROLLBACK]


def test_properties() -> None:
    shown = [name for row in tables()["Properties"][0][1:] for name in FIELD.findall(row[0])]
    assert shown == [
        properties.TAGS, properties.KEYS, properties.UNIQUE_KEY, properties.DELAY, properties.INNER_NUM,
        properties.INNER_BASE, properties.MULTI_DISPATCH, properties.MULTI_QUEUE_OFFSET, properties.PROPERTY_CRC,
    ]  # fmt: skip


def test_lengths_of_files() -> None:
    rows = {FIELD.search(row[0]).group(1): row[2] for row in tables()["Files"][0][1:]}  # type: ignore[union-attr]
    sized = [text for text in rows.values() if text.startswith("`")]
    assert len(sized) == 4
    for text in sized:
        name, length = text.split(", ")
        assert config.default(name.strip("`")) == length
    formula, length = rows["index/"].split(", ")
    slots, units = (int(config.default(name)) for name in FIELD.findall(formula))
    assert int(length) == index.file_length(slots, units)
    numbers = [int(number) for number in re.findall(r"\b\d+\b", formula)]
    assert numbers == [index.HEADER_BYTES, index.SLOT_BYTES, index.UNIT_BYTES]
    assert int(rows["checkpoint"]) == checkpoint.FILE_BYTES


def test_numbers_in_the_text() -> None:
    text = " ".join((ROOT / "docs" / "format.md").read_text().split())
    for said in (
        f"units of {consumequeue.UNIT_BYTES} bytes",
        f"units of {batchqueue.UNIT_BYTES} bytes",
        f"name / {consumequeue.UNIT_BYTES} + i",
        f"(0, {consumequeue.PRE_BLANK_SIZE}, 0) is filler",
        f"at most {queueext.MAX_ADDRESS}: address",
        f"At least {queueext.END_SPARE_BYTES} bytes stay free",
        f"a `size` of {queueext.END_MARK} closes it",
        f"of the unit: {queueext.HEAD_BYTES} and the bitmap",
        f"the last {properties.PROPERTY_CRC_BYTES} bytes of the properties",
        f"hash slots of {index.SLOT_BYTES} bytes",
        f"the last {commitlog.BLANK_HEAD_BYTES} bytes of one",
        f"`{commitlog.SCHEDULE_TOPIC}`",
    ):
        assert said in text, said


def test_configuration_files() -> None:
    shown = [FIELD.fullmatch(row[0]).group(1) for row in tables()["Configuration files"][0][1:]]  # type: ignore[union-attr]
    read = {value for name, value in vars(metadata).items() if name.isupper() and str(value).endswith(".json")}
    assert set(shown) == read
