"""Conditions of queries the slow, obvious way, and stores that they are asked of."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import golden_data as golden
import pyarrow as pa
from datasources import forged_store
from storebuilder import StoreBuilder

from udfs.datasource import FilesReader, RecordsReader
from udfs.options import Options
from udfs.schemas import RECORDS

Row = dict[str, Any]
Word = list[Any]
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "starts": str.startswith,
    "ends": str.endswith,
    "contains": str.__contains__,
}


def is_true(word: Word, row: Row) -> bool | None:
    """Return what SQL makes of a condition, one row at a time: the slow, obvious way."""
    name, *rest = word
    if name == "not":
        found = is_true(rest[0], row)
        return None if found is None else not found
    if name in ("and", "or"):
        parts = [is_true(part, row) for part in rest]
        decided = name == "or"
        return decided if decided in parts else None if None in parts else not decided
    value, wanted = row[rest[0]], rest[1]
    if name == "is null":
        return value is None
    if name == "is not null":
        return value is not None
    if name == "<=>":
        return bool(value == wanted)
    if name == "in":
        return None if value is None else True if value in wanted else None if None in wanted else False
    return None if value is None or wanted is None else COMPARED[name](value, wanted)


def sql_of(word: Word) -> str:
    """Return a condition as SQL."""
    name, *rest = word
    if name == "not":
        return f"NOT ({sql_of(rest[0])})"
    if name in ("and", "or"):
        return f"({sql_of(rest[0])}) {name.upper()} ({sql_of(rest[1])})"
    column, value = rest
    if name.startswith("is "):
        return f"{column} {name.upper()}"
    if name == "in":
        return f"{column} IN ({', '.join(map(literal, value))})"
    if name in ("starts", "ends", "contains"):
        return f"{name.replace('starts', 'startswith').replace('ends', 'endswith')}({column}, {literal(value)})"
    return f"{column} {name} {literal(value)}"


def literal(value: object) -> str:
    """Return a value as SQL writes it."""
    if value is None:
        return "NULL"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value)


def random_condition(chance: random.Random, rows: Sequence[Row], columns: Sequence[str], depth: int = 2) -> Word:
    """Return a condition about values that rows have, values next to them, and values that none has."""
    if depth and chance.random() < 0.5:
        parts = [random_condition(chance, rows, columns, depth - 1) for _ in range(2)]
        return chance.choice([["not", parts[0]], ["and", *parts], ["or", *parts]])
    column = chance.choice(columns)
    values = [row[column] for row in chance.choices(rows, k=3)]
    known = next((row[column] for row in rows if row[column] is not None), None)
    if isinstance(known, bool) or known is None:
        return [chance.choice(["is null", "is not null"]), column, None]
    if isinstance(known, str):
        values += ["", "no such", values[0] and values[0].upper()]
        names = ["=", "<=>", "<", ">=", "in", "starts", "ends", "contains"]
    else:
        values += [0, -1, (values[0] or 0) + 1, 2**31 - 1, -(2**31)]
        names = ["=", "<=>", "<", "<=", ">", ">=", "in", "in"]
    name = chance.choice([*names, "is null", "is not null"])
    if name.startswith("is "):
        return [name, column, None]
    if name == "in":
        return [name, column, chance.sample([*values, None], chance.randint(0, 4))]
    if name in ("starts", "ends", "contains"):
        return [name, column, (chance.choice(values) or "x")[:3]]
    return [name, column, chance.choice(values)]


def read_here(options: Options, names: Sequence[str]) -> list[Row]:
    """Return what the reader's tasks yield, without Spark."""
    reader = (RecordsReader if options.what == RECORDS else FilesReader)(options, names)
    batches: Iterator[pa.RecordBatch] = itertools.chain.from_iterable(map(reader.read, reader.partitions()))
    return [row for batch in batches for row in batch.to_pylist()]


def stores(directory: Path) -> list[Path]:
    """Return a sound store, one whose segments are damaged, and one with forged records and several segments."""
    cases = [case for case in golden.cases("fuzz-5.5.1") if any("commitlog" in edit[1] for edit in case["edits"])]
    queues = [case for case in golden.cases("fuzz-5.5.1") if any("consumequeue" in edit[1] for edit in case["edits"])]
    return [
        golden.store("rich-5.5.1"),
        golden.damaged("base-5.5.1", cases[3]["edits"], directory / "damaged"),
        golden.damaged("base-5.5.1", queues[2]["edits"], directory / "queue"),
        forged_store(directory / "forged"),
    ]


def timed_store(root: Path) -> Path:
    """Return a store whose messages were stored a second apart, several segments long."""
    builder = StoreBuilder(root, segment_bytes=8192)
    for number in range(64):
        builder.message("T", number % 4, b"x" * 300, store_ms=1_700_000_000_000 + 1000 * number)
    return builder.close()
