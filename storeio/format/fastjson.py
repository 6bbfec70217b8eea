"""JSON as the broker's configuration files hold it: keys of integer maps are bare numbers.

Read as fastjson 1.x reads by default: bare names and single quotes, extra commas, comments and control
characters between tokens are no obstacle. What stands before a fault is kept, so that a file that a
crash cut short still tells what it can. What no broker writes is named: whether one reads it depends on its parser.

Source: ``JSONLexerBase`` and ``DefaultJSONParser`` of fastjson 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from storeio.format import oddities as o
from storeio.format.plainjson import DEPTH, DIGITS, BareNumber, members_at, pairs_at, value_at

Keep = Callable[[str, str, Any], Any]
"""``keep(table, name, value)``: what is to be kept of an object or list in a table of the outermost object."""

_BETWEEN: Final = re.compile(r"(?:[\x00-\x20\x7f\ufeff]|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_BLANK: Final = " \n\r\t\f\b"  # of nothing but these the broker makes no object, and goes on
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MARK: Final = "\ufeff"  # of a text's byte order
_COMMAS: Final = re.compile(r"(?:[\x00-\x20\x7f,]|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?[LSBFD]?")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_STRING: Final = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_PLAIN_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN_TEXT: Final = re.compile(r"""(?:[^\x1a\\]|\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[bfnrt/"\\]))*""")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_DIGITS: Final = re.compile(r"""["']?[-0-9]""")
_NO_BLANKS: Final = str.maketrans("", "", _BLANK)
_NO_NUMBERS: Final = ("NaN", "undefined")
_CONTROLS: Final = {"b": "\b", "f": "\f", "F": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a file says; ``problem`` is empty, or what is wrong and where, and ``value`` what stands before it.

    Objects are dicts whose keys are text, numbers too. ``value`` is None where nothing could be read. ``odd`` is what
    no broker writes, each once, in the order of the text; ``fatal`` tells that no broker's parser gets past the
    problem.
    """

    value: Any
    problem: str = ""
    odd: tuple[str, ...] = ()
    fatal: bool = False


def decode(data: bytes | memoryview, keep: Keep | None = None, *, quick: bool = True) -> Decoded:
    """Return what a configuration file says, as far as it can be read; of a blank one that is None, no problem.

    Args:
        data: The whole file.
        keep: Asked of each value of a table once it is whole, so that a long one needs less memory; all without.
        quick: Whether what is as brokers write it is read at once. All else is the same without.
    """
    # 4.x writes the platform's charset: a byte that is no UTF-8 becomes an escape, which is read as Latin-1.
    text = str(data, "utf-8", "backslashreplace")
    found = _Reader(text, keep or (lambda _table, _name, value: value), quick=quick).read()
    refers = any(f"{quote}{name}{quote}" in text for name in ("@type", "$ref") for quote in "'\"")
    return replace(found, odd=(o.REFERS, *found.odd)) if refers else found


class _FaultError(Exception):
    """Reading ends here, and that of every broker's parser if it is ``fatal``."""

    def __init__(self, text: str, fatal: bool) -> None:
        super().__init__(text)
        self.fatal = fatal


class _Reader:
    """One text, and how far it is read."""

    def __init__(self, text: str, keep: Keep, *, quick: bool) -> None:
        self.text, self.at, self.value = text, int(text.startswith(_MARK)), None
        self.keep, self.quick, self.table = keep, quick, ""
        self.odd: dict[str, None] = {}  # a set that keeps its order

    def read(self) -> Decoded:
        """Return the whole text's value."""
        try:
            self._between(control=o.OUTSIDE)
            if self.at < len(self.text):
                self._value(self._keep, 0)
                self._between(o.COMMENT, o.OUTSIDE)
                if self.at < len(self.text):
                    raise self._fault("something follows the end")
            elif not self.text.strip(_BLANK):
                self._note(o.BLANK)
            else:  # zeros, as after a power loss, or a comment: no value, and not blank
                raise self._fault("no value")
        except _FaultError as fault:
            return Decoded(self.value, str(fault), tuple(self.odd), fault.fatal)
        return Decoded(self.value, "", tuple(self.odd))

    def _note(self, odd: str) -> None:
        if odd:
            self.odd[odd] = None

    def _keep(self, value: Any) -> None:
        self.value = value

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _between(self, comment: str = "", control: str = o.BETWEEN) -> None:
        """Go on to the next token; ``comment`` and ``control`` are what is noted of one, and of control characters."""
        start = self.at
        self._skip(_BETWEEN)
        self._note_passed(self.text[start : self.at], comment, o.ZERO, control)

    def _note_passed(self, passed: str, comment: str, zero: str, control: str) -> None:
        """Note what lies between two tokens."""
        if not passed.strip(_BLANK):
            return
        rest = _COMMENT.sub("", passed)
        others = rest.translate(_NO_BLANKS)
        if not others.strip("\0"):
            self._note((o.MIXED if others else comment) if rest != passed else zero if others else "")
        else:
            self._note(o.BETWEEN if rest != passed and control == o.CONTROL else control)

    def _commas(self, usual: int, end: str, odd: str) -> bool:
        """Go on to the next item of a container, past ``usual`` commas; tell whether its end is there, and past."""
        start = self.at
        self._skip(_COMMAS)
        passed, is_end = self.text[start : self.at], self.text.startswith(end, self.at)
        plain = _COMMENT.sub("", passed)
        is_number = not is_end and _DIGITS.match(self.text, self.at) is not None
        if plain.count(",") <= usual * (not is_end):
            control = o.BETWEEN if is_end or is_number else odd
            comment = o.COMMENT if usual else ""
            self._note_passed(
                passed.replace(",", "", usual), comment, o.ZERO_NAME if control == o.CONTROL else o.ZERO, control
            )
        elif passed.replace(",", "").translate(_NO_BLANKS):
            self._note(o.MIXED)
        else:
            is_some = is_number or (is_end and plain.count(",") > 1)
            self._note(o.SOME_COMMAS if is_some else o.COMMAS if usual else o.FIRST_COMMA)
        self.at += is_end
        return is_end

    def _fault(self, what: str, fatal: bool = False) -> _FaultError:
        if self.at >= len(self.text):
            what, fatal = "the text ends too early", True
        line = self.text.count("\n", 0, self.at) + 1
        return _FaultError(f"{what}, at character {self.at}, line {line}", fatal)

    def _value(self, put: Callable[[Any], None], depth: int) -> None:
        """Read a value; a container is handed on before it is filled, so that it is kept if a fault follows."""
        start = self.text[self.at : self.at + 1]
        if depth > DEPTH:
            raise self._fault("nested too deeply")
        if start in ("{", "["):
            self._container(put, depth, start)
        elif start in ("'", '"'):
            put(self._string())
        elif start == "-" or start.isdigit():
            put(self._number())
        else:
            put(self._word())

    def _container(self, put: Callable[[Any], None], depth: int, start: str) -> None:
        # Of tables each value by itself, which is then not kept.
        whole = value_at(self.text, self.at, depth) if self.quick and depth > 1 else None
        if whole is not None:
            value, self.at = whole
            put(value)
        elif start == "{":
            found: dict[str, Any] = {}
            put(found)
            self._members(found, depth)
        else:
            items: list[Any] = []
            put(items)
            self._items(items, depth)

    def _members(self, found: dict[str, Any], depth: int) -> None:
        self.at += 1
        while True:
            if self.quick and depth:
                self._go_on(found, depth)
            key = self._name(found, depth)
            if key is None:
                return
            if not depth:
                self.table = key
            self._between(o.COMMENT)
            self._value(lambda value, key=key: found.__setitem__(key, value), depth + 1)  # type: ignore[misc]
            if depth == 1 and isinstance(found[key], dict | list):
                found[key] = self.keep(self.table, key, found[key])
            self._more("}")

    def _go_on(self, found: dict[str, Any], depth: int) -> None:
        """Go past what is here as brokers write it: numbers, and all that a table holds."""
        start = -1
        while start != self.at:
            start = self.at
            pairs, self.at = pairs_at(self.text, start, first=not found)
            count = len(found) + len(pairs)
            found.update(pairs)
            self._note(o.TWICE if len(found) < count else "")
            if depth > 1:
                continue
            for key, value, end in members_at(self.text, self.at, depth + 1, first=not found):
                self.at = end
                self._note(o.TWICE if key in found else "")
                found[key] = self.keep(self.table, key, value)

    def _name(self, found: dict[str, Any], depth: int) -> str | None:
        """Go past a name and its colon; None at the end of the object, and past it."""
        if self._commas(bool(found), "}", o.CONTROL):
            return None
        is_number = _DIGITS.match(self.text, self.at) is not None
        key = self._key(depth)
        self._note(o.TWICE if key in found else "")
        self._between(o.COLON)
        if not self.text.startswith(":", self.at):
            is_fatal = not is_number and self.text[self.at : self.at + 1] < "\x80"  # of others some are blanks
            raise self._fault(f"no colon behind the name {key[:60]!r}", is_fatal)
        self.at += 1
        return key

    def _items(self, items: list[Any], depth: int) -> None:
        self.at += 1
        while not self._commas(bool(items), "]", o.BETWEEN):
            self._value(items.append, depth + 1)
            self._more("]")

    def _more(self, end: str) -> None:
        """Go past a value inside a container."""
        self._between(o.WORD if self.text[self.at - 1].isalpha() else o.COMMENT)
        if self.text[self.at : self.at + 1] not in (",", end):
            raise self._fault(f"neither a comma nor {end}")

    def _key(self, depth: int) -> str:
        if self.text[self.at : self.at + 1] in ("'", '"'):
            return self._string()
        number = _NUMBER.match(self.text, self.at)
        match = number or _NAME.match(self.text, self.at)
        if match is None:
            raise self._fault("no name", fatal="!" <= self.text[self.at : self.at + 1] < "[")
        self.at = match.end()
        if number is None:
            self._note(o.BARE_WORD if match[0] in _WORDS else o.BARE_NAME)
        elif not depth:
            self._note(o.NUMBERED)
        return match[0] if number is None else BareNumber(match[0])

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:  # no quote follows
            self.at = len(self.text)
            raise self._fault("a string without an end")
        self.at = match.end()
        plain = match[1] if match[1] is not None else match[2]
        if not _PLAIN_TEXT.fullmatch(plain):
            self._note(o.ESCAPE)
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
        if not _PLAIN_NUMBER.fullmatch(match[0]):
            self._note(o.SUFFIX)
        digits = match[0].rstrip("LSBFD")
        return float(digits) if match[1] is not None or match[2] is not None else int(digits)

    def _word(self) -> Any:
        match = _NAME.match(self.text, self.at)
        if match is not None and match[0] in _NO_NUMBERS:
            self._note(o.NO_NUMBER)
        if match is None or match[0] not in _WORDS:
            raise self._fault("no value", fatal=self.text.startswith(",", self.at) and self.value is not None)
        self.at = match.end()
        return _WORDS[match[0]]


def _meaning(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(match[3], match[3])
