"""Whether an object that was read has the names and types of a dataclass: plans and reports come from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from storeio.errors import UsageError

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "dict[str, int]": (dict,),
    "tuple[str, ...]": (list,),
    "tuple[tuple[int, int], ...]": (list,),
    "list[str]": (list,),
    "Mapping[str, str]": (dict,),
    "Mapping[str, Any]": (dict,),
}
# Of what the elements of a list or the values of an object have to be, where that is one type.
_INSIDE: Final[dict[str, type]] = {"tuple[str, ...]": str, "list[str]": str, "dict[str, int]": int}


def check_fields(
    kind: type, row: object, where: str, *, without: tuple[str, ...] = (), whole: bool = False
) -> dict[str, Any]:
    """Return the object, after comparing its names and types with a dataclass's.

    Args:
        kind: The dataclass.
        row: What was read.
        where: What the error begins with.
        without: Fields that are not to be there.
        whole: Fields that have a default must be there, too.

    Raises:
        UsageError: It is no object, or a field is missing, unknown or of another type.
    """
    if not isinstance(row, dict):
        raise UsageError(f"{where}: an object is needed")
    known = {f.name: f for f in fields(kind) if f.name not in without}
    for name in row:
        if name not in known:
            raise UsageError(f"{where}: unknown field {name!r}")
    for name, f in known.items():
        if name in row:
            _check_type(str(f.type), row[name], f"{where}: {name}")
        elif whole or (f.default is MISSING and f.default_factory is MISSING):
            raise UsageError(f"{where}: {name} is missing")
    return row


def _check_type(kind: str, value: object, where: str) -> None:
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        raise UsageError(f"{where}: {value!r:.80} is not of type {kind}")
    inside = _INSIDE.get(kind)
    if inside is not None:
        parts = value.values() if isinstance(value, Mapping) else value
        if not all(isinstance(part, inside) and not isinstance(part, bool) for part in parts):  # type: ignore[attr-defined]
            raise UsageError(f"{where}: {'texts' if inside is str else 'numbers'} are needed")
