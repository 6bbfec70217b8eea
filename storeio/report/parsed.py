"""The JSON object of an audit, read again: what ``json_form`` writes, and nothing that only looks like it.

What was read must give back the same object; so its sums, verdict and exit code fit, and rows made of it are those
that the audit itself would have become.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final

from storeio.errors import UsageError
from storeio.findings import CODES, Finding
from storeio.report.json_form import Object, audit_object
from storeio.report.rows import DOUBLE, INT, LONG, TABLES, Row
from storeio.results import (
    BYTE_CLASSES,
    Audit,
    Band,
    FileResult,
    IndexResult,
    LogResult,
    LostRange,
    QueueResult,
    Setting,
)
from storeio.shape import check_fields

_LISTS: Final[dict[str, type]] = {
    "queues": QueueResult,
    "index": IndexResult,
    "files": FileResult,
    "findings": Finding,
    "lost_messages": LostRange,
    "misplaced_messages": LostRange,
    "unread_messages": LostRange,
    "bands": Band,
}
_FOLLOWS: Final = ("verdict", "exit_code", "bytes")  # from the rest
_NOT_OF_NODES: Final = ("reading",)  # only of a job that knows parts from before
_OF_THE_CODE: Final = ("severity", "remedy")
_NOT_OF_FAILURES: Final = ("tool", "version", "verdict")
_EMPTY: Final = Audit("", "", "", 0, 0.0, [], [], LogResult(0, 0, 0, 0), [], [], {}, [])
_BITS: Final = {INT: 31, LONG: 63}


@dataclass(frozen=True, slots=True)
class Failure:
    """A store of which there is no report."""

    store: str
    error: str
    exit_code: int


def from_json(text: str, where: str) -> Audit | Failure:
    """Return what one line of ``storeio check --json`` says.

    Args:
        text: The line.
        where: What an error begins with, such as file and line.

    Raises:
        UsageError: It is no such line, is cut off, or contradicts itself.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON, or cut off: {error}") from None
    if not isinstance(found, dict) or found.get("tool") != "storeio" or "verdict" not in found:
        raise UsageError(f"{where}: no report of storeio check")
    return _failure(found, where) if found["verdict"] is None else _audit(found, where)


def _failure(found: Object, where: str) -> Failure:
    version = found.get("version")
    check_fields(Failure, {name: part for name, part in found.items() if name not in _NOT_OF_FAILURES}, where)
    failure = Failure(found["store"], found["error"], found["exit_code"])
    if not isinstance(version, str) or not 0 < failure.exit_code < 64:
        raise UsageError(f"{where}: version or exit_code is not of a store that could not be audited")
    return failure


def _audit(found: Object, where: str) -> Audit:
    expected = audit_object(_EMPTY).keys()
    for name in expected ^ found.keys():
        trouble = "is missing" if name in expected else "is unknown"
        raise UsageError(f"{where}: {name} {trouble}; made by another version ({found.get('version')!r:.40})?")
    parts: dict[str, Any] = {name: part for name, part in found.items() if name not in _FOLLOWS}
    for name, kind in _LISTS.items():
        parts[name] = _list(kind, parts[name], f"{where}: {name}")
    for name in ("lost", "misplaced", "unread"):
        parts[name] = parts.pop(f"{name}_messages")
    parts["log"] = LogResult(**check_fields(LogResult, parts["log"], f"{where}: log", whole=True))
    parts["settings"] = _settings(parts["settings"], f"{where}: settings")
    _check_plain(parts, where)
    audit = Audit(**parts)
    again = audit_object(audit)
    for name, value in found.items():
        if again[name] != value:
            raise UsageError(f"{where}: {name}: contradicts the rest, or was made by another version")
    return audit


def _check_plain(parts: dict[str, Any], where: str) -> None:
    """Compare what is neither a list of rows nor the settings with the fields of an audit."""
    of_rows = ("files", "queues", "index", "findings", "lost", "misplaced", "unread", "bands")
    rows = ("settings", "log", *of_rows, *_NOT_OF_NODES)
    check_fields(Audit, {k: v for k, v in parts.items() if k not in rows}, where, without=rows, whole=True)


def _list(kind: type, value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{where}: a list is needed")
    return [_element(kind, row, f"{where}[{number}]") for number, row in enumerate(value)]


def _element(kind: type, row: object, where: str) -> Any:
    if kind is Finding and isinstance(row, dict):
        row = {name: part for name, part in row.items() if name not in _OF_THE_CODE}
    known = check_fields(kind, row, where, whole=True)
    if kind is Finding and known["code"] not in CODES:
        raise UsageError(f"{where}: {known['code']!r:.80} is no code of this version")
    if kind is FileResult and not known["classes"].keys() <= set(BYTE_CLASSES):
        raise UsageError(f"{where}: classes: one of {sorted(known['classes'])!r:.80} is unknown")
    if kind is Band and known["byte_class"] not in BYTE_CLASSES:
        raise UsageError(f"{where}: byte_class: {known['byte_class']!r:.80} is unknown")
    if kind is QueueResult:
        known = {**known, "lost": tuple(_range(pair, where) for pair in known["lost"])}
    return kind(**known)


def _range(pair: object, where: str) -> tuple[int, int]:
    if not isinstance(pair, list) or [type(end) for end in pair] != [int, int]:
        raise UsageError(f"{where}: lost: pairs of numbers are needed")
    return pair[0], pair[1]


def _settings(value: object, where: str) -> list[Setting]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: an object is needed")
    return [
        Setting(name, **check_fields(Setting, row, f"{where}: {name!r:.80}", without=("name",)))
        for name, row in value.items()
    ]


def refuse_misfits(rows: dict[str, list[Row]], where: str) -> None:
    """Raise where a number does not fit its column.

    Raises:
        UsageError: One does not.
    """
    for table, found in rows.items():
        for column in TABLES[table]:
            bits = _BITS.get(column.type)
            for row in found:
                value = row[column.name]
                small = bits is None or value is None or -(1 << bits) <= value < 1 << bits
                if not small or (column.type == DOUBLE and not math.isfinite(value)):
                    raise UsageError(f"{where}: {table}.{column.name}: {value!r:.40} does not fit the column")
