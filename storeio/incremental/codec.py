"""Plain dataclasses to JSON and back, checked against their annotations: what is read was written by anyone.

Only what reports consist of: numbers, texts, truth values, None, lists, tuples, sets of nothing else, dictionaries
with any such key, tables of 64-bit numbers, and dataclasses of those.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
import typing
from collections.abc import Callable
from typing import Any, Final, Union

import numpy as np
import numpy.typing as npt

Json = Any

TABLES: Final = (np.ndarray, npt.NDArray)
"""What the type of a table may be called: since numpy 2.5 NDArray is a name of its own."""


def to_plain(value: Any) -> Json:
    """Return a value as lists, objects, texts and numbers.

    A dataclass is the list of its fields, a dictionary the list of its pairs, a table the list of its rows.

    Raises:
        TypeError: It holds something else.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return value.astype(np.int64, casting="safe").tolist()
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return [[to_plain(key), to_plain(item)] for key, item in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    raise TypeError(f"{type(value).__name__} is nothing that reports hold")


def from_plain(kind: Any, plain: Json) -> Any:
    """Return the value of a type from what ``to_plain`` made of it.

    Raises:
        ValueError: It is no such value.
    """
    return _reader(kind)(plain)


def form_of(kind: Any) -> str:
    """Return a digest that changes with every field, at any depth, of what is written for a type."""
    return hashlib.blake2b(_described(kind).encode(), digest_size=8).hexdigest()


def _described(kind: Any) -> str:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        inside = ",".join(f"{name}:{_described(part)}" for name, part in _fields(kind))
        return f"{kind.__name__}({inside})"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in TABLES:
        return "table"
    return f"{origin}[{','.join(map(_described, arguments))}]" if arguments else getattr(kind, "__name__", str(kind))


def _fields(kind: type) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(kind)]


def _need(truth: bool, plain: Json, kind: Any) -> None:
    if not truth:
        raise ValueError(f"{str(plain)[:40]!r} is no {getattr(kind, '__name__', kind)}")


Reader = Callable[[Json], Any]


@functools.cache
def _reader(kind: Any) -> Reader:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in (int, str, bool, types.NoneType):
        return functools.partial(_scalar, kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return functools.partial(_dataclass, kind, [_reader(part) for _, part in _fields(kind)])
    if origin in TABLES:
        return _table
    if origin in (Union, types.UnionType):
        inner = [part for part in arguments if part is not types.NoneType]
        if len(inner) == 1 and len(arguments) == 2:
            return functools.partial(_optional, _reader(inner[0]))
    if origin is list or (origin is tuple and arguments[1:] == (Ellipsis,)):
        return functools.partial(_many, origin, _reader(arguments[0]))
    if origin is tuple:
        return functools.partial(_row, kind, [_reader(part) for part in arguments])
    if origin is dict:
        return functools.partial(_pairs, _reader(arguments[0]), _reader(arguments[1]))
    raise TypeError(f"{kind} is nothing that reports hold")


def _scalar(kind: type, plain: Json) -> Any:
    _need(type(plain) is kind, plain, kind)
    return plain


def _dataclass(kind: type, readers: list[Reader], plain: Json) -> Any:
    return kind(*_row(kind, readers, plain))


def _optional(reader: Reader, plain: Json) -> Any:
    return None if plain is None else reader(plain)


def _many(kind: type, reader: Reader, plain: Json) -> Any:
    _need(isinstance(plain, list), plain, kind)
    return kind(map(reader, plain))


def _row(kind: Any, readers: list[Reader], plain: Json) -> tuple[Any, ...]:
    _need(isinstance(plain, list) and len(plain) == len(readers), plain, kind)
    return tuple(reader(item) for reader, item in zip(readers, plain, strict=True))


def _pairs(key: Reader, item: Reader, plain: Json) -> dict[Any, Any]:
    _need(isinstance(plain, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in plain), plain, dict)
    return {key(pair[0]): item(pair[1]) for pair in plain}


def _table(plain: Json) -> Any:
    rows = _many(list, functools.partial(_many, list, functools.partial(_scalar, int)), plain)
    _need(len({len(row) for row in rows}) == 1, plain, "table")
    try:
        return np.array(rows, np.int64).reshape(len(rows), -1)
    except OverflowError as error:
        raise ValueError("a number of a table has more than 64 bits") from error
