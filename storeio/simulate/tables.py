"""Whether a broker reads a table of ``config/``: for certain, for certain not, or nobody can say without its parser.

What brokers write is read, and what a crash cut is not. In between their parsers are lenient in ways of their own, so
that only what was tried with them is said: fastjson 1.2.69 and 1.2.83, and fastjson2 2.0.43 and 2.0.63, with
the tables' classes. Of 2.0.43 nobody has asked yet about quotes, comments, commas and control characters.

Source: the ``decode`` of each ``ConfigManager``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from storeio.format import fastjson as j
from storeio.format import oddities as o
from storeio.format.plainjson import DIGITS, BareNumber
from storeio.simulate import rules as r
from storeio.simulate.memo import Memo

TOPICS: Final = "config/topics.json"
QUEUE_MAPPING: Final = "config/topicQueueMapping.json"
CONSUMER_OFFSETS: Final = "config/consumerOffset.json"
GROUPS: Final = "config/subscriptionGroup.json"
FILTERS: Final = "config/consumerFilter.json"
ORDER_INFO: Final = "config/consumerOrderInfo.json"
DELAY_OFFSETS: Final = "config/delayOffset.json"
TIMER_METRICS: Final = "config/timermetrics"

READS: Final = "reads"
REFUSES: Final = "refuses"
UNSURE: Final = "unsure"

MOST_BYTES: Final = 256 << 20  # of a larger file nothing is said

# What each parser passes over, and what it refuses, wherever it stands, if all odd things before it are passed over.
PASSED: Final = {
    r.FASTJSON: frozenset((o.COMMENT, o.FIRST_COMMA, o.COMMAS)),
    r.FASTJSON2: frozenset((o.ZERO_NAME, o.ZERO)),
}
REFUSED: Final = {
    r.FASTJSON: frozenset((o.CONTROL, o.ZERO_NAME, o.NUMBERED)),
    r.FASTJSON2: frozenset(
        (o.BARE_NAME, o.NUMBERED, o.NO_NUMBER, o.BLANK, o.CONTROL, o.BETWEEN, o.COLON, o.FIRST_COMMA)
    ),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a table is read, and why not, or why that is not known."""

    verdict: str
    why: str = ""


_READS: Final = Verdict(READS)
_USUAL: Final = object()  # stands for a value that fits


@dataclass(frozen=True, slots=True)
class _Bean:
    """An object with names that the broker knows; others it passes over. ``needs`` must be there."""

    fields: dict[str, Any]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Map:
    """An object with any names, or with numbers of so many bits for names."""

    of: Any
    numbered: int = 0


@dataclass(frozen=True, slots=True)
class _List:
    of: Any


_VERDICTS: Final = Memo[dict[str, Verdict]](64)  # of all tables and their earlier content, of a few stores
_NUMBER: Final = re.compile(r"-?[0-9]+")
_FEW_DIGITS: Final = re.compile(r"[0-9]{1,9}").fullmatch
_TEXT, _FLAG, _INT, _LONG, _OTHER = "text", "flag", 32, 64, "other"  # _OTHER: brokers write none, and may read it
_TYPES: Final = {_TEXT: str, _FLAG: bool, _OTHER: None}
_VERSION: Final = _Bean({"counter": _LONG, "stateVersion": _LONG, "timestamp": _LONG})
_RETRIES: Final = frozenset(("EXPONENTIAL", "CUSTOMIZED"))
_FILTER_TYPES: Final = frozenset(("SINGLE_TAG", "MULTI_TAG"))
_TOPIC: Final = _Bean({
    "topicName": _TEXT, "readQueueNums": _INT, "writeQueueNums": _INT, "perm": _INT, "topicFilterType": _FILTER_TYPES,
    "topicSysFlag": _INT, "order": _FLAG, "attributes": _Map(_TEXT),
})  # fmt: skip
_GROUP: Final = _Bean({
    "groupName": _TEXT, "consumeEnable": _FLAG, "consumeFromMinEnable": _FLAG, "consumeBroadcastEnable": _FLAG,
    "consumeMessageOrderly": _FLAG, "retryQueueNums": _INT, "retryMaxTimes": _INT, "brokerId": _LONG,
    "whichBrokerWhenConsumeSlowly": _LONG, "notifyConsumerIdsChangedEnable": _FLAG, "groupSysFlag": _INT,
    "consumeTimeoutMinute": _INT, "groupRetryPolicy": _Bean({"type": _RETRIES}), "attributes": _Map(_TEXT),
    "subscriptionDataSet": _OTHER,
})  # fmt: skip
_FILTER: Final = _Bean({
    "consumerGroup": _TEXT, "topic": _TEXT, "expression": _TEXT, "expressionType": _TEXT, "bornTime": _LONG,
    "deadTime": _LONG, "clientVersion": _LONG, "dead": _FLAG,
    "bloomFilterData": _Bean({"bitNum": _INT, "bitPos": _List(_INT)}), "compiledExpression": _OTHER,
}, ("consumerGroup", "topic"))  # fmt: skip
_MAPPED: Final = _Bean({
    "bname": _TEXT, "gen": _INT, "queueId": _INT, "logicOffset": _LONG, "startOffset": _LONG, "endOffset": _LONG,
    "timeOfStart": _LONG, "timeOfEnd": _LONG,
})  # fmt: skip
_MAPPING: Final = _Bean({
    "topic": _TEXT, "scope": _TEXT, "bname": _TEXT, "totalQueues": _INT, "epoch": _LONG, "dirty": _FLAG,
    "currIdMap": _Map(_INT, numbered=_INT), "hostedQueues": _Map(_List(_MAPPED), numbered=_INT),
})  # fmt: skip
_ORDER: Final = _Bean({
    "popTime": _LONG, "i": _LONG, "l": _LONG, "cm": _LONG, "a": _TEXT, "o": _List(_LONG),
    "ot": _Map(_LONG, numbered=_LONG), "oc": _Map(_INT, numbered=_LONG),
})  # fmt: skip
_OFFSETS: Final = _Map(_LONG, numbered=_INT)
TABLES: Final[dict[str, _Bean]] = {
    TOPICS: _Bean({"dataVersion": _VERSION, "topicConfigTable": _Map(_TOPIC)}),
    QUEUE_MAPPING: _Bean(
        {"dataVersion": _VERSION, "topicQueueMappingInfoMap": _Map(_MAPPING)}, ("topicQueueMappingInfoMap",)
    ),
    CONSUMER_OFFSETS: _Bean({
        "dataVersion": _VERSION, "offsetTable": _Map(_OFFSETS), "groupTopicMap": _Map(_List(_TEXT)),
        "pullOffsetTable": _OTHER,
    }),
    GROUPS: _Bean({
        "dataVersion": _VERSION, "subscriptionGroupTable": _Map(_GROUP),
        "forbiddenTable": _Map(_Map(_INT)),
    }),
    FILTERS: _Bean({"filterDataByTopic": _Map(_Bean({"topic": _TEXT, "groupFilterData": _Map(_FILTER)}))}),
    ORDER_INFO: _Bean({"table": _Map(_Map(_ORDER, numbered=_INT))}),
    TIMER_METRICS: _Bean(
        {"dataVersion": _VERSION, "timingCount": _Map(_Bean({"count": _LONG, "timeStamp": _LONG}))}
    ),
    DELAY_OFFSETS: _Bean({"dataVersion": _VERSION, "offsetTable": _OFFSETS}),
}  # fmt: skip


def read_table(path: str, data: bytes | memoryview, parsers: Sequence[str]) -> Verdict:
    """Return whether a broker reads a table's content, of which there is some.

    Args:
        path: Of the table; of its earlier content, too.
        data: The whole file.
        parsers: Those that the version may have.
    """
    verdicts = _VERDICTS.of(path, data, lambda: _verdicts(TABLES[path], data))
    each = {verdicts[parser] for parser in parsers}
    return each.pop() if len(each) == 1 else Verdict(UNSURE, " or ".join(sorted({v.why or v.verdict for v in each})))


def _verdicts(table: _Bean, data: bytes | memoryview) -> dict[str, Verdict]:
    """Return whether each parser reads a table."""
    # Zeros behind the end are passed over, and end a text that a power loss cut; what has none need not be copied.
    text = data if len(data) and data[-1] else bytes(data).rstrip(b"\0")
    if not len(text):
        return dict.fromkeys(PASSED, Verdict(REFUSES, "nothing but zeros"))
    found = j.decode(text, partial(_kept, table))
    return {parser: _of_text(found, parser) or _of_value(table, found.value, parser) for parser in PASSED}


def _kept(table: _Bean, name: str, key: str, value: Any) -> Any:
    """Return ``_USUAL`` in place of a value of one of the table's maps that is as brokers write it."""
    kind = table.fields.get(name)
    return _USUAL if isinstance(kind, _Map) and _is_usual(value, kind.of) else value


def _of_text(found: j.Decoded, parser: str) -> Verdict | None:
    """Return what the text alone tells, None if it is what brokers write."""
    odd = next((each for each in found.odd if each not in PASSED[parser]), None)
    if odd is not None:
        return Verdict(REFUSES if odd in REFUSED[parser] else UNSURE, odd)
    if found.problem:
        return Verdict(REFUSES if found.fatal else UNSURE, found.problem)
    return None


def _of_value(table: _Bean, value: Any, parser: str) -> Verdict:
    if value is None or (value == [] and parser == r.FASTJSON):
        return _READS
    if value == "":
        return Verdict(UNSURE, "an empty text")
    return Verdict(REFUSES, "not an object") if not isinstance(value, dict) else _fits(value, table, "")


def _is_usual(value: Any, kind: Any) -> bool:
    """Tell whether a value is as brokers write it, and so fits."""
    if isinstance(kind, int):
        return type(value) is int and _has_bits(value, kind)
    if isinstance(kind, str):
        return type(value) is _TYPES[kind]
    if isinstance(kind, frozenset):
        return type(value) is str and value in kind
    if isinstance(kind, _List):
        return type(value) is list and all(_is_usual(item, kind.of) for item in value)
    if value is _USUAL or type(value) is not dict:
        return value is _USUAL
    if isinstance(kind, _Map):
        return _are_usual_names(value, kind.numbered) and _are_usual(value.values(), kind.of)
    known = kind.fields.keys() >= value.keys() >= set(kind.needs)
    return known and all(_is_usual(inner, kind.fields[key]) for key, inner in value.items())


def _are_usual_names(names: Collection[str], numbered: int) -> bool:
    return all(map(_FEW_DIGITS, names)) if numbered else BareNumber not in set(map(type, names))


def _are_usual(values: Collection[Any], kind: Any) -> bool:
    if isinstance(kind, int) and values:  # there may be millions
        numbers = set(map(type, values)) == {int}
        return numbers and _has_bits(min(values), kind) and _has_bits(max(values), kind)
    return all(_is_usual(value, kind) for value in values)


def _fits(value: Any, kind: Any, name: str) -> Verdict:
    """Return whether a value is what a name's must be; the first that is not decides."""
    if _is_usual(value, kind):
        return _READS
    check: Callable[[Any, Any, str], Verdict]
    check = _object_fits if isinstance(kind, _Bean | _Map) else _list_fits if isinstance(kind, _List) else _leaf_fits
    return check(value, kind, name)


def _object_fits(value: Any, kind: _Bean | _Map, name: str) -> Verdict:
    if not isinstance(value, dict):
        is_none = value is None or value == "" or (value == [] and isinstance(kind, _Bean))  # to fastjson
        return Verdict(UNSURE if is_none else REFUSES, f"{name} is not an object")
    names = kind.fields if isinstance(kind, _Bean) else {}
    alike = {_bare(known) for known in names}
    for key, inner in value.items():
        if isinstance(kind, _Map):
            if kind.numbered and not (_is_number(key) and _has_bits(int(key), kind.numbered)):
                is_odd = not key or re.search(r"\d", key)
                return Verdict(UNSURE if is_odd else REFUSES, f"{key[:60]!r} in {name} is no number")
            if not kind.numbered and isinstance(key, BareNumber):
                return Verdict(UNSURE, f"{key[:60]!r} in {name} is {o.NUMBERED}")
            found = _fits(inner, kind.of, key)
        elif key in names:
            found = _fits(inner, names[key], key)
            if found.verdict == REFUSES and names[key] == _LONG:
                found = Verdict(UNSURE, found.why)  # fastjson takes the lower bits
        else:  # a parser may take it for one that it knows, and takes no number without quotes
            odd = _bare(key) in alike or _NUMBER.match(key)
            found = Verdict(UNSURE if odd else READS, f"{key[:60]!r} in {name}")
        if found.verdict != READS:
            return found
    lacking = [need for need in (kind.needs if isinstance(kind, _Bean) else ()) if need not in value]
    return Verdict(UNSURE, f"{lacking[0]} is missing") if lacking else _READS


def _bare(name: str) -> str:
    return re.sub("[_-]", "", name.lower()).removeprefix("is")


def _is_number(text: str) -> bool:
    return len(text) <= DIGITS and _NUMBER.fullmatch(text) is not None


def _has_bits(number: int, bits: int) -> bool:
    return -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)


def _list_fits(value: Any, kind: _List, name: str) -> Verdict:
    if not isinstance(value, list):
        return Verdict(UNSURE, f"{name} is not a list")
    found = next((each for item in value if (each := _fits(item, kind.of, name)).verdict != READS), _READS)
    return found if found.verdict == READS else Verdict(UNSURE, found.why)  # fastjson takes more in a list


def _leaf_fits(value: Any, kind: Any, name: str) -> Verdict:
    if isinstance(kind, frozenset):
        known = isinstance(value, str) and value in kind
        return Verdict(READS if known else UNSURE, f"{name} is none of {', '.join(sorted(kind))}")
    plain = type(value) is _TYPES.get(kind, int)
    if plain and type(value) is int and not _has_bits(value, kind):
        return Verdict(REFUSES, f"{name} is not of {kind} bits")
    return Verdict(READS) if plain else Verdict(UNSURE, f"{name} is of another type")
