"""Quick steps through JSON as brokers write it: values by the standard library, many pairs of numbers at once.

Each tells what the reader of ``fastjson`` would, without anything odd to note, or nothing: then that one reads on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

DEPTH: Final = 200
DIGITS: Final = 400
WINDOW: Final = 1 << 12  # characters that are tried first: an error costs as many as come before it
WIDER: Final = 16
MOST_CUT: Final = 8  # characters of an escape or a word that the end of a piece may cut
MOST_LEVELS: Final = 4  # down to which values are tried; each level may be gone through once more

_GAP: Final = r"[ \t\r\n]*"
_TEXT: Final = r'"[^"\\\x00-\x1f]*"'
_PAIR: Final = rf"{_GAP}(?:{_TEXT}|-?[0-9]{{1,18}}){_GAP}:{_GAP}-?(?:0|[1-9][0-9]{{0,17}}){_GAP}"
_FIRST_PAIRS: Final = re.compile(rf"{_PAIR}(?:,{_PAIR}){{0,4000}}(?=[,}}])")
_NEXT_PAIRS: Final = re.compile(rf"(?:,{_PAIR}){{1,4000}}(?=[,}}])")
_ALL_PAIRS: Final = re.compile(rf"{{{_PAIR}(?:,{_PAIR}){{0,4000}}}}")
_EACH: Final = re.compile(rf"({_TEXT}|-?[0-9]+){_GAP}:{_GAP}(-?[0-9]+)")
_FIRST_NAME: Final = re.compile(rf"{_GAP}({_TEXT}){_GAP}:{_GAP}(?=[{{\[])")
_NEXT_NAME: Final = re.compile(rf",{_GAP}({_TEXT}){_GAP}:{_GAP}(?=[{{\[])")
_END: Final = re.compile(rf"{_GAP}(?=[,}}])")
_SURROGATE: Final = re.compile(r"\\u[dD]")
_LONG_NUMBER: Final = re.compile(rf"-?[0-9.eE+-]{{{DIGITS},}}")


class BareNumber(str):
    """A name that is a number without quotes, which brokers write and read in some objects only."""

    __slots__ = ()


def pairs_at(text: str, at: int, *, first: bool) -> tuple[list[tuple[str, int]], int]:
    """Return the numbers by name that stand next in an object, as many as there are but some thousands at most, and
    where they end; ``first`` says that none is before them."""
    match = (_FIRST_PAIRS if first else _NEXT_PAIRS).match(text, at)
    return ([], at) if match is None else (_pairs_in(text, at, match.end()), match.end())


def _pairs_in(text: str, start: int, stop: int) -> list[tuple[str, int]]:
    piece = text[start:stop]
    if '"' in piece:
        found = _EACH.findall(piece)
        return [(name[1:-1] if name[0] == '"' else BareNumber(name), int(value)) for name, value in found]
    words = piece.replace(":", " ").replace(",", " ").split()
    return list(zip(map(BareNumber, words[::2]), map(int, words[1::2]), strict=True))


def members_at(text: str, at: int, depth: int, *, first: bool) -> Iterator[tuple[str, Any, int]]:
    """Yield the objects and lists that stand next in an object, so many levels down, with their names and where each
    ends; ``first`` says that nothing is before them."""
    match = (_FIRST_NAME if first else _NEXT_NAME).match(text, at)
    while match is not None:
        start = match.end()
        found = value_at(text, start, depth) if text.startswith(('{"', "[", "{}"), start) else _numbers_at(text, start)
        end = None if found is None else _END.match(text, found[1])
        if found is None or end is None:
            return
        yield match[1][1:-1], found[0], end.end()
        match = _NEXT_NAME.match(text, end.end())


def _numbers_at(text: str, at: int) -> tuple[dict[str, int], int] | None:
    match = _ALL_PAIRS.match(text, at)
    if match is None:
        return None
    pairs = _pairs_in(text, at + 1, match.end() - 1)
    found = dict(pairs)
    return None if len(found) < len(pairs) else (found, match.end())


def value_at(text: str, at: int, depth: int) -> tuple[Any, int] | None:
    """Return the object or list that begins here, so many levels down, and where it ends."""
    if depth > MOST_LEVELS:
        return None
    count = WINDOW
    while True:
        piece = text[at : at + count]  # an error in a long text takes the time to count its lines
        try:
            value, stop = _SCAN(piece, 0)
        except StopIteration as end:
            ends = int(end.value) >= len(piece) - MOST_CUT
        except json.JSONDecodeError as error:
            ends = error.pos >= len(piece) - MOST_CUT or error.msg.startswith("Unterminated")
        except (ValueError, RecursionError):
            return None
        else:
            return None if _is_odd(piece, stop, depth) else (value, at + stop)
        if not ends or at + count >= len(text):
            return None
        count *= WIDER


def _is_odd(text: str, stop: int, depth: int) -> bool:
    """Tell whether the standard library reads what lies before ``stop`` in another way than the broker."""
    if "\\" in text and _SURROGATE.search(text, 0, stop):
        return True
    if stop <= DIGITS:
        return stop > DEPTH - depth and _is_deep(text[:stop], depth)
    return _is_deep(text[:stop], depth) or _LONG_NUMBER.search(text, 0, stop) is not None


def _is_deep(text: str, depth: int) -> bool:
    return text.count("{") + text.count("[") > DEPTH - depth


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise where a name is there twice, of which the reader tells."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_SCAN: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant).scan_once  # type: ignore[attr-defined]
