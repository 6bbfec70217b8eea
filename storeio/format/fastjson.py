"""JSON as the broker's configuration files hold it: keys of integer maps are bare numbers.

Read as fastjson 1.x reads by default: bare names and single quotes, extra commas, comments and control
characters between tokens are no obstacle. What stands before a fault is kept, so that a file that a
crash cut short still tells what it can. What no broker writes is named: whether one reads it depends on its parser.

Source: ``JSONLexerBase`` and ``DefaultJSONParser`` of fastjson 1.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

DEPTH: Final = 200
DIGITS: Final = 400

# What no broker writes. Single quotes, form feeds and backspaces are not among it: every parser reads them like others.
BLANK: Final = "nothing but blanks"
BARE_NAME: Final = "a name without quotes"
BARE_WORD: Final = "true, false or null in a name's place"
NUMBERED: Final = "a number in a name's place"  # of the outermost object; keys of inner ones may be bare numbers
NO_NUMBER: Final = "NaN or undefined"
CONTROL: Final = "a control character before a name"
ZERO_NAME: Final = "a zero byte before a name"
ZERO: Final = "a zero byte"
BETWEEN: Final = "a control character"
COMMENT: Final = "a comment"
COLON: Final = "a comment before a colon"
WORD: Final = "a comment behind true, false or null"
OUTSIDE: Final = "a control character before the value or behind it"
MIXED: Final = "a comment among other odd things"
FIRST_COMMA: Final = "a comma before the first item"
COMMAS: Final = "a comma too many"
SOME_COMMAS: Final = "a comma too many before a number, or several before an end"
ESCAPE: Final = "an escape that is none"
SUFFIX: Final = "a number of another form"
TWICE: Final = "a name twice"
REFERS: Final = "a type or a reference"

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


def decode(data: bytes | memoryview) -> Decoded:
    """Return what a configuration file says, as far as it can be read; of a blank one that is None, no problem."""
    # 4.x writes the platform's charset: a byte that is no UTF-8 becomes an escape, which is read as Latin-1.
    text = bytes(data).decode("utf-8", "backslashreplace")
    try:
        found = Decoded(json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant))
    except (ValueError, RecursionError):  # the above is many times as fast, where the file is plain JSON
        found = _Reader(text).read()
    refers = any(f"{quote}{name}{quote}" in text for name in ("@type", "$ref") for quote in "'\"")
    return replace(found, odd=(REFERS, *found.odd)) if refers else found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise where a name is there twice, of which the reader tells."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(TWICE)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


class BareNumber(str):
    """A name that is a number without quotes, which brokers write and read in some objects only."""

    __slots__ = ()


class _FaultError(Exception):
    """Reading ends here, and that of every broker's parser if it is ``fatal``."""

    def __init__(self, text: str, fatal: bool) -> None:
        super().__init__(text)
        self.fatal = fatal


class _Reader:
    """One text, and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.value = text, int(text.startswith(_MARK)), None
        self.odd: dict[str, None] = {}  # a set that keeps its order

    def read(self) -> Decoded:
        """Return the whole text's value."""
        try:
            self._between(control=OUTSIDE)
            if self.at < len(self.text):
                self._value(self._keep, 0)
                self._between(COMMENT, OUTSIDE)
                if self.at < len(self.text):
                    raise self._fault("something follows the end")
            elif not self.text.strip(_BLANK):
                self._note(BLANK)
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

    def _between(self, comment: str = "", control: str = BETWEEN) -> None:
        """Go on to the next token; ``comment`` and ``control`` are what is noted of one, and of control characters."""
        start = self.at
        self._skip(_BETWEEN)
        self._note_passed(self.text[start : self.at], comment, ZERO, control)

    def _note_passed(self, passed: str, comment: str, zero: str, control: str) -> None:
        """Note what lies between two tokens."""
        rest = _COMMENT.sub("", passed)
        others = rest.translate(_NO_BLANKS)
        if not others.strip("\0"):
            self._note((MIXED if others else comment) if rest != passed else zero if others else "")
        else:
            self._note(BETWEEN if rest != passed and control == CONTROL else control)

    def _commas(self, usual: int, end: str, odd: str) -> bool:
        """Go on to the next item of a container, past ``usual`` commas; tell whether its end is there, and past."""
        start = self.at
        self._skip(_COMMAS)
        passed, is_end = self.text[start : self.at], self.text.startswith(end, self.at)
        plain = _COMMENT.sub("", passed)
        is_number = not is_end and _DIGITS.match(self.text, self.at) is not None
        if plain.count(",") <= usual * (not is_end):
            control = BETWEEN if is_end or is_number else odd
            comment = COMMENT if usual else ""
            self._note_passed(
                passed.replace(",", "", usual), comment, ZERO_NAME if control == CONTROL else ZERO, control
            )
        elif passed.replace(",", "").translate(_NO_BLANKS):
            self._note(MIXED)
        else:
            is_some = is_number or (is_end and plain.count(",") > 1)
            self._note(SOME_COMMAS if is_some else COMMAS if usual else FIRST_COMMA)
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
        while not self._commas(bool(found), "}", CONTROL):
            is_number = _DIGITS.match(self.text, self.at) is not None
            key = self._key(depth)
            if key in found:
                self._note(TWICE)
            self._between(COLON)
            if not self.text.startswith(":", self.at):
                is_fatal = not is_number and self.text[self.at : self.at + 1] < "\x80"  # of others some are blanks
                raise self._fault(f"no colon behind the name {key[:60]!r}", is_fatal)
            self.at += 1
            self._between(COMMENT)
            self._value(lambda value, key=key: found.__setitem__(key, value), depth + 1)  # type: ignore[misc]
            self._more("}")

    def _items(self, items: list[Any], depth: int) -> None:
        self.at += 1
        while not self._commas(bool(items), "]", BETWEEN):
            self._value(items.append, depth + 1)
            self._more("]")

    def _more(self, end: str) -> None:
        """Go past a value inside a container."""
        self._between(WORD if self.text[self.at - 1].isalpha() else COMMENT)
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
            self._note(BARE_WORD if match[0] in _WORDS else BARE_NAME)
        elif not depth:
            self._note(NUMBERED)
        return match[0] if number is None else BareNumber(match[0])

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:  # no quote follows
            self.at = len(self.text)
            raise self._fault("a string without an end")
        self.at = match.end()
        plain = match[1] if match[1] is not None else match[2]
        if not _PLAIN_TEXT.fullmatch(plain):
            self._note(ESCAPE)
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
            self._note(SUFFIX)
        digits = match[0].rstrip("LSBFD")
        return float(digits) if match[1] is not None or match[2] is not None else int(digits)

    def _word(self) -> Any:
        match = _NAME.match(self.text, self.at)
        if match is not None and match[0] in _NO_NUMBERS:
            self._note(NO_NUMBER)
        if match is None or match[0] not in _WORDS:
            raise self._fault("no value", fatal=self.text.startswith(",", self.at) and self.value is not None)
        self.at = match.end()
        return _WORDS[match[0]]


def _meaning(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(match[3], match[3])
