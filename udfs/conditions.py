"""Conditions of a query, as ``StorePushDown.java`` words them: evaluated on Arrow columns, or asked what they admit.

A condition is a list: ``["=", column, value]`` (or ``<=>``, ``<``, ``<=``, ``>``, ``>=``, ``in``, ``starts``, ``ends``,
``contains``, ``is null``, ``is not null``), ``["not", condition]``, ``["and", one, other]``, ``["or", one, other]``.
Truth has three values, as in SQL. Spark evaluates every condition again: to let a row through that it drops costs
time, to drop one that it keeps would be a wrong answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storeio.errors import UsageError

Word = list[Any]
Column = Callable[[str], pa.Array]
Span = tuple[float, float]
"""Lowest and highest whole number, both included; the lowest above the highest where there is none."""

EVERYTHING: Final[Span] = (float("-inf"), float("inf"))
NOTHING: Final[Span] = (1, 0)
_COMPARED: Final[dict[str, Callable[..., pa.Array]]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_SEARCHED: Final[dict[str, Callable[..., pa.Array]]] = {
    "starts": pc.starts_with,
    "ends": pc.ends_with,
    "contains": pc.match_substring,
}
_LEAVES: Final = (*_COMPARED, *_SEARCHED, "<=>", "in", "is null", "is not null")
_JOINTS: Final = {"not": 1, "and": 2, "or": 2}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition and the columns that it names; a row is wanted only where all of a query's are true."""

    word: Word
    columns: frozenset[str]

    def holds(self, column: Column) -> pa.Array:
        """Return where it is true, false or null, one value a row of the columns that ``column`` gives by name."""
        return _holds(self.word, column)

    def span(self, column: str) -> Span:
        """Return bounds of the whole numbers in ``column`` of rows where it is true."""
        return _span(self.word, column)


def parse(text: str, types: Mapping[str, pa.DataType]) -> tuple[Condition, ...]:
    """Return the conditions in a JSON list, for columns of these names and types.

    Raises:
        UsageError: It is no such list, or a value is none of its column's type.
    """
    try:
        words = json.loads(text) if text else []
        if not isinstance(words, list):
            raise TypeError(type(words))
        return tuple(Condition(word, frozenset(_checked(word, types))) for word in words)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, pa.ArrowException) as error:
        raise UsageError(
            f"pushed={text[:80]}: no list of conditions on these columns ({type(error).__name__})"
        ) from error


def _checked(word: Word, types: Mapping[str, pa.DataType]) -> list[str]:
    """Return the columns that a condition names, after a look at all of its parts."""
    name, *rest = word
    if name in _JOINTS:
        if len(rest) != _JOINTS[name]:
            raise ValueError(name)
        return [column for part in rest for column in _checked(part, types)]
    column, value = rest
    if name not in _LEAVES or (name == "in") != isinstance(value, list):
        raise ValueError(name)
    for one in value if name == "in" else [value]:
        pa.scalar(one, pa.int64() if pa.types.is_integer(types[column]) else types[column])
    return [column]


def span(conditions: tuple[Condition, ...], column: str) -> Span:
    """Return bounds of the numbers in ``column`` of rows where all are true."""
    found = EVERYTHING
    for condition in conditions:
        found = _both(found, condition.span(column))
    return found


def _holds(word: Word, column: Column) -> pa.Array:
    name = word[0]
    if name == "not":
        return pc.invert(_holds(word[1], column))
    if name == "and":
        return pc.and_kleene(_holds(word[1], column), _holds(word[2], column))
    if name == "or":
        return pc.or_kleene(_holds(word[1], column), _holds(word[2], column))
    values, value = column(word[1]), word[2]
    if name == "is null" or (name == "<=>" and value is None):
        return pc.is_null(values)
    if name == "is not null":
        return pc.is_valid(values)
    if name == "in":
        return _is_in(values, value)
    if value is None:
        return pa.nulls(len(values), pa.bool_())
    if name == "<=>":
        return pc.fill_null(pc.equal(values, value), False)
    if name in _SEARCHED:
        return _SEARCHED[name](values, pattern=value)
    return _COMPARED[name](values, value)


def _is_in(values: pa.Array, wanted: list[Any]) -> pa.Array:
    """Return null and not false for what is not found among values of which one is null, and for null itself."""
    known = [value for value in wanted if value is not None]
    kind = pa.int64() if pa.types.is_integer(values.type) else values.type
    found = pc.is_in(values.cast(kind), value_set=pa.array(known, kind))
    unsure = pc.is_null(values) if len(known) == len(wanted) else pc.invert(found)
    return pc.if_else(unsure, pa.scalar(None, pa.bool_()), found)


def _span(word: Word, column: str) -> Span:
    name = word[0]
    if name == "and":
        return _both(_span(word[1], column), _span(word[2], column))
    if name == "or":
        return _either(_span(word[1], column), _span(word[2], column))
    if name == "not" or word[1] != column:
        return EVERYTHING
    value = word[2]
    if name == "in":
        known = [one for one in value if one is not None]
        return (min(known), max(known)) if known else NOTHING
    if name not in ("=", "<=>", "<", "<=", ">", ">=") or value is None:
        return EVERYTHING
    low, high = EVERYTHING
    low = low if name in ("<", "<=") else value + (name == ">")
    return low, high if name in (">", ">=") else value - (name == "<")


def _both(one: Span, other: Span) -> Span:
    return max(one[0], other[0]), min(one[1], other[1])


def _either(one: Span, other: Span) -> Span:
    spans = [span for span in (one, other) if span[0] <= span[1]]
    return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else NOTHING
