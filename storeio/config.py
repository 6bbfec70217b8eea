"""Broker settings as an audit needs them: given, told by the files themselves, or a broker's defaults.

Source: ``MessageStoreConfig``, ``MixAll.properties2Object`` and ``ScheduleMessageService.parseDelayLevel`` of RocketMQ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from storeio.errors import UsageError
from storeio.file_sizes import infer_size
from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, QUEUE_EXT, parse_number
from storeio.results import DEFAULT, INDEX_SHAPE, Setting
from storeio.safe import shortened
from storeio.settings import KNOWN_BROKERS, broker_names, declared, default, near

if TYPE_CHECKING:
    from storeio.scan import Listing

SET: Final = "--set"
MOST_SHOWN: Final = 100  # characters of a name that no broker has, or of a value that none can read
MOST_UNKNOWN: Final = 20  # names that are told; a file with more is no broker.conf
UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LOG_SIZE: Final = "mappedFileSizeCommitLog"
QUEUE_SIZE: Final = "mappedFileSizeConsumeQueue"
BATCH_SIZE: Final = "mapperFileSizeBatchConsumeQueue"  # the broker spells it so
EXT_SIZE: Final = "mappedFileSizeConsumeQueueExt"
# File kind and what every size is a multiple of: units, where files are bare arrays of them.
SIZES: Final = {
    LOG_SIZE: (COMMITLOG, 1),
    QUEUE_SIZE: (CONSUMEQUEUE, 20),
    BATCH_SIZE: (BATCHQUEUE, 46),
    EXT_SIZE: (QUEUE_EXT, 1),
}
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Settings of one store, with what each is and where it comes from in ``settings``.

    Sizes are bytes and never 0. None: not given, the content has to tell. ``delays_ms[0]`` is level 0, no delay.
    """

    commitlog_file_bytes: int
    queue_file_bytes: int
    batch_file_bytes: int
    ext_file_bytes: int
    index_slots: int | None
    index_units: int | None
    index_enabled: bool
    multi_dispatch: bool | None
    lmq: bool | None
    delays_ms: tuple[int, ...]
    settings: tuple[Setting, ...]

    @property
    def in_database(self) -> bool:
        """Whether ``storeType`` says that queues are in RocksDB."""
        return any(each.name == "storeType" and each.value.lower() == "defaultrocksdb" for each in self.settings)

    @property
    def likely_index(self) -> tuple[int, int]:
        """Slots and units of index files where no file tells: as given, or as in most stores."""
        return self.index_slots or int(default("maxHashSlotNum")), self.index_units or int(default("maxIndexNum"))


class Given(dict[str, str]):
    """Settings that somebody gave, name to value; ``sources`` says where each stands.

    ``ignored`` are known names whose value a broker cannot read and skips, as text for a person; ``unknown`` are
    names that no broker has, which it skips, too.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """Copy the settings of another mapping, with sources where it has them."""
        given = dict(values or {}).items()
        super().__init__({n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in given})
        self.sources: dict[str, str] = dict(getattr(values, "sources", {}))
        self.ignored: dict[str, str] = dict(getattr(values, "ignored", {}))
        self.unknown: dict[str, Setting] = dict(getattr(values, "unknown", {}))

    def source(self, name: str) -> str:
        """Return where the setting was given."""
        return self.sources.get(name, "given")

    def put(self, name: str, value: str, source: str) -> None:
        """Add a setting, over an earlier one."""
        self[name] = value
        self.sources[name] = source
        self.ignored.pop(name, None)

    def over(self, told: Mapping[str, str]) -> Given:
        """Return these settings, and those told otherwise that are not among them."""
        found = Given(self)
        found.update({name: value for name, value in told.items() if name not in self})
        return found

    @property
    def notes(self) -> list[str]:
        """What of a broker.conf has no effect, neither on brokers nor here, as text for a person."""
        names: dict[str, list[str]] = {}
        for name, why in [*self.ignored.items(), *((s.name, s.source) for s in self.unknown.values())]:
            names.setdefault(why, []).append(name)
        return [f"{', '.join(part)}: {why}" for why, part in names.items()]


def read_broker_conf(text: str) -> dict[str, str]:
    """Return what ``java.util.Properties`` reads from a text; of two equal names the last one counts.

    Raises:
        UsageError: A malformed ``\\uXXXX`` escape; a broker does not start with such a file.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        if match:
            found[_unescape(match[1])] = _unescape(match[2])
    return found


def _logical_lines(text: str) -> Iterable[str]:
    """Yield lines without comments and blank ones, continued lines joined."""
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for start in lines:
        line = start.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, "").lstrip(" \t\f")
        yield line


def _unescape(text: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        if match[2] == "u":
            raise UsageError("broker.conf: malformed \\uXXXX escape")
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\u([0-9a-fA-F]{4})|\\(.)", meaning, text, flags=re.DOTALL)


def given_settings(conf_text: str | None = None, conf_path: str = "broker.conf", sets: Iterable[str] = ()) -> Given:
    """Return the settings of a broker.conf and of ``key=value`` texts, which count more.

    A broker.conf holds hundreds of names: those that nothing here depends on are left out, and what a broker skips
    silently, too: values that it cannot read, and names that no broker has, such as typing errors. Both are told.

    Raises:
        UsageError: ``sets`` holds an unknown name or a bad value, or broker.conf a size below 1.
    """
    given = Given()
    for name, value in read_broker_conf(conf_text or "").items():
        if name not in declared():
            if name not in broker_names() and len(given.unknown) < MOST_UNKNOWN:
                given.unknown[name] = _unknown(name, value, conf_path)
            continue
        try:
            given.put(name, parse_value(name, value), conf_path)
        except TypeError:
            shown = shortened(value.strip(), MOST_SHOWN)
            given.ignored[name] = f"{conf_path} has {shown!r}, which brokers cannot read and skip"
        except ValueError as error:
            raise UsageError(f"{conf_path}: {error}") from None
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{SET} {text}: not of the form key=value")
        given.put(name.strip(), checked(name.strip(), value), SET)
    return given


def _unknown(name: str, value: str, conf_path: str) -> Setting:
    meant = near(name, broker_names())
    why = f"{conf_path}; brokers from {KNOWN_BROKERS} have no such setting and skip it"
    source = f"{why}; did you mean {meant}?" if meant else why
    return Setting(shortened(name, MOST_SHOWN), shortened(value, MOST_SHOWN), source)


def checked(name: str, value: str) -> str:
    """Return a setting's value as a broker reads it.

    Raises:
        UsageError: No such setting, or no such value; the text names the setting.
    """
    if name not in declared():
        if name in broker_names():
            raise UsageError(f"setting {name!r}: brokers have it, but nothing here depends on it")
        meant = near(name, declared(), 0.6)
        raise UsageError(f"unknown setting {name!r}" + (f"; did you mean {meant}?" if meant else ""))
    try:
        if declared()[name]["type"] == "flag" and value.strip().lower() not in ("true", "false"):
            raise TypeError(f"{name}={value!r}: true or false is needed")  # a broker takes all else for false
        return parse_value(name, value)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def parse_value(name: str, value: str) -> str:
    """Return a value in its normal form.

    Raises:
        TypeError: A broker cannot parse it, and goes on with its default.
        ValueError: A broker takes it, and then works wrongly or not at all.
    """
    text, kind = str(value).strip(), declared()[name]["type"]  # from a notebook it may be a number
    if kind == "flag":
        return str(text.lower() == "true").lower()
    if kind == "levels":
        parse_delays_ms(text)
    if kind not in ("size", "int"):
        return text
    number = parse_number(text)
    if number is None or not -(2**31) <= number < 2**31:
        raise TypeError(f"{name}={shortened(text, MOST_SHOWN)!r}: a whole number of at most {2**31 - 1} is needed")
    least = int(declared()[name].get("least", 1))
    if kind == "size" and number < least:
        raise ValueError(f"{name}={text}: must be {least} or more")
    return str(number)


def parse_delays_ms(text: str) -> tuple[int, ...]:
    """Return the delay of every level, in ms, level 0 first; by the rules of ``parseDelayLevel``.

    Raises:
        ValueError: A broker refuses to start with such levels.
    """
    words = text.split(" ")  # not any blanks: two in a row make an empty level, which brokers refuse
    while words and not words[-1]:
        words.pop()
    numbers = [parse_number(word[:-1]) for word in words]
    if not words or any(n is None or w[-1] not in UNIT_MS for n, w in zip(numbers, words, strict=True)):
        shown = shortened(text, MOST_SHOWN)
        raise ValueError(f"messageDelayLevel={shown!r}: numbers with s, m, h or d are needed, one blank between them")
    products = ((n or 0) * UNIT_MS[w[-1]] for n, w in zip(numbers, words, strict=True))
    return (0, *((ms + 2**63) % 2**64 - 2**63 for ms in products))  # as a long has it


def infer_config(listing: Listing, given: Mapping[str, str] | None = None) -> StoreConfig:
    """Return the settings of a store: given ones first, then what its files tell, then a broker's defaults.

    Raises:
        UsageError: An unknown setting or a bad value is given.
    """
    known = Given(given)
    for name in known:
        known[name] = checked(name, known[name])
    used = {name: _size_setting(listing, name, known) for name in SIZES}
    for name in ("messageIndexEnable", "messageDelayLevel"):
        used[name] = _setting(known, name, default(name), DEFAULT)
    for name in known:
        used.setdefault(name, Setting(name, known[name], known.source(name)))
    for name in known.ignored:
        used.setdefault(name, _setting(known, name, default(name), DEFAULT))
    used |= known.unknown

    def number(name: str) -> int | None:
        return int(used[name].value) if name in used else None

    def flag(name: str) -> bool | None:
        return used[name].value == "true" if name in used else None

    return StoreConfig(
        commitlog_file_bytes=int(used[LOG_SIZE].value),
        queue_file_bytes=int(used[QUEUE_SIZE].value),
        batch_file_bytes=int(used[BATCH_SIZE].value),
        ext_file_bytes=int(used[EXT_SIZE].value),
        index_slots=number(INDEX_SHAPE[0]),
        index_units=number(INDEX_SHAPE[1]),
        index_enabled=flag("messageIndexEnable") is True,
        multi_dispatch=flag("enableMultiDispatch"),
        lmq=flag("enableLmq"),
        delays_ms=parse_delays_ms(used["messageDelayLevel"].value),
        settings=tuple(used.values()),
    )


def _setting(known: Given, name: str, value: str, source: str) -> Setting:
    """Return the given setting, else one with this value and source."""
    if name in known:
        return Setting(name, known[name], known.source(name))
    skipped = known.ignored.get(name)
    return Setting(name, value, f"{source}; {skipped}" if skipped else source)


def _size_setting(listing: Listing, name: str, known: Given) -> Setting:
    kind, unit = SIZES[name]
    if name not in known:
        size, source, is_sure = infer_size(listing.of_kind(kind), int(default(name)), unit, listing.holds_behind)
        return replace(_setting(known, name, str(size), source), by_lengths=not is_sure)
    size = int(known[name])
    if name == QUEUE_SIZE:
        size += -size % unit  # its getter rounds up to whole units
    return Setting(name, str(size), known.source(name))
