"""JSON as the broker's configuration files hold it: keys of integer maps are bare numbers.

Read as fastjson 1.x reads by default: bare names and single quotes, extra commas, comments and control
characters between tokens are no obstacle. What stands before a fault is kept, so that a file that a
crash cut short still tells what it can.

Source: ``JSONLexerBase`` and ``DefaultJSONParser`` of fastjson 1.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

DEPTH: Final = 200
DIGITS: Final = 400

_BETWEEN: Final = re.compile(r"(?:[\x00-\x20\x7f\ufeff]|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_BLANK: Final = " \n\r\t\f\b"  # of nothing but these the broker makes no object, and goes on
_COMMAS: Final = re.compile(r"(?:[\x00-\x20\x7f,]|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?[LSBFD]?")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_STRING: Final = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_CONTROLS: Final = {"b": "\b", "f": "\f", "F": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a file says; ``problem`` is empty, or what is wrong and where, and ``value`` what stands before it.

    Objects are dicts whose keys are text, numbers too. ``value`` is None where nothing could be read.
    """

    value: Any
    problem: str = ""


def decode(data: bytes | memoryview) -> Decoded:
    """Return what a configuration file says, as far as it can be read; of a blank one that is None, no problem."""
    # 4.x writes the platform's charset: a byte that is no UTF-8 becomes an escape, which is read as Latin-1.
    text = bytes(data).decode("utf-8", "backslashreplace")
    try:
        return Decoded(json.loads(text))  # many times as fast, where the file is plain JSON
    except (ValueError, RecursionError):
        return _Reader(text).read()


class _FaultError(Exception):
    """Reading ends here."""


class _Reader:
    """One text, and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.value = text, 0, None

    def read(self) -> Decoded:
        """Return the whole text's value."""
        try:
            self._skip(_BETWEEN)
            if self.at < len(self.text):
                self._value(self._keep, 0)
                self._skip(_BETWEEN)
                if self.at < len(self.text):
                    raise self._fault("something follows the end")
            elif self.text.strip(_BLANK):  # zeros, as after a power loss, or a comment: no value, and not blank
                raise self._fault("no value")
        except _FaultError as fault:
            return Decoded(self.value, str(fault))
        return Decoded(self.value)

    def _keep(self, value: Any) -> None:
        self.value = value

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _fault(self, what: str) -> _FaultError:
        if self.at >= len(self.text):
            what = "the text ends too early"
        line = self.text.count("\n", 0, self.at) + 1
        return _FaultError(f"{what}, at character {self.at}, line {line}")

    def _value(self, put: Callable[[Any], None], depth: int) -> None:
        """Read a value; a container is handed on before it is filled, so that it is kept if a fault follows."""
        start = self.text[self.at : self.at + 1]
        if depth > DEPTH:
            raise self._fault("nested too deeply")
        if start == "{":
            found: dict[str, Any] = {}
            put(found)
            self._members(found, depth)
        elif start == "[":
            items: list[Any] = []
            put(items)
            self._items(items, depth)
        elif start in ("'", '"'):
            put(self._string())
        elif start == "-" or start.isdigit():
            put(self._number())
        else:
            put(self._word())

    def _members(self, found: dict[str, Any], depth: int) -> None:
        self.at += 1
        while True:
            self._skip(_COMMAS)
            if self.text.startswith("}", self.at):
                self.at += 1
                return
            key = self._key()
            self._skip(_BETWEEN)
            if not self.text.startswith(":", self.at):
                raise self._fault(f"no colon behind the name {key[:60]!r}")
            self.at += 1
            self._skip(_BETWEEN)
            self._value(lambda value, key=key: found.__setitem__(key, value), depth + 1)  # type: ignore[misc]
            self._more("}")

    def _items(self, items: list[Any], depth: int) -> None:
        self.at += 1
        while True:
            self._skip(_COMMAS)
            if self.text.startswith("]", self.at):
                self.at += 1
                return
            self._value(items.append, depth + 1)
            self._more("]")

    def _more(self, end: str) -> None:
        """Go past a value inside a container."""
        self._skip(_BETWEEN)
        if self.text[self.at : self.at + 1] not in (",", end):
            raise self._fault(f"neither a comma nor {end}")

    def _key(self) -> str:
        if self.text[self.at : self.at + 1] in ("'", '"'):
            return self._string()
        match = _NUMBER.match(self.text, self.at) or _NAME.match(self.text, self.at)
        if match is None:
            raise self._fault("no name")
        self.at = match.end()
        return match[0]

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:  # no quote follows
            self.at = len(self.text)
            raise self._fault("a string without an end")
        self.at = match.end()
        plain = match[1] if match[1] is not None else match[2]
        if "\\" not in plain:
            return plain
        text = _ESCAPE.sub(_meaning, plain)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins escaped surrogates

    def _number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None or len(match[0]) > DIGITS:
            raise self._fault("no number")
        if match.end() == len(self.text):  # cut: more digits may have followed
            self.at = match.end()
            raise self._fault("no number")
        self.at = match.end()
        digits = match[0].rstrip("LSBFD")
        return float(digits) if match[1] is not None or match[2] is not None else int(digits)

    def _word(self) -> Any:
        match = _NAME.match(self.text, self.at)
        if match is None or match[0] not in _WORDS:
            raise self._fault("no value")
        self.at = match.end()
        return _WORDS[match[0]]


def _meaning(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(match[3], match[3])
