"""What inspection shows, as plain data; ``as_json`` of each is one JSON line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

RECORD_FIELDS: Final = (
    "physical_offset", "size", "magic", "topic", "queue_id", "queue_offset", "sys_flag", "flag", "born_timestamp_ms",
    "born_host", "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset", "body_crc",
    "body_length", "properties", "tags_code", "batch_size", "valid",
)  # fmt: skip

MOST_BYTES: Final = 16 << 20  # what a body may become; brokers take 4 MiB
WRITTEN: Final = "written"
PRE_BLANK: Final = "pre-blank"
ZERO: Final = "zero"
INVALID: Final = "invalid"
RAGGED: Final = "ragged"


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record of the commitlog. ``physical_offset`` is where it lies, whatever the record says.

    ``valid`` is False for damaged and for stale ones, ``why`` then says why; fields that could not
    be read are None. ``odd`` is what a broker accepts although it is wrong. ``extent`` is the
    bytes it takes in its file, from ``position`` on; the body's stored bytes lie at
    ``body_position``. ``base_queue_offset`` is the first queue offset it takes.
    """

    path: str
    position: int
    extent: int
    physical_offset: int
    size: int | None = None
    magic: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    sys_flag: int | None = None
    flag: int | None = None
    born_timestamp_ms: int | None = None
    born_host: str | None = None
    store_timestamp_ms: int | None = None
    store_host: str | None = None
    reconsume_times: int | None = None
    prepared_transaction_offset: int | None = None
    body_crc: int | None = None
    body_length: int | None = None
    properties: dict[str, str] | None = None
    tags_code: int | None = None
    batch_size: int | None = None
    base_queue_offset: int | None = None
    body_position: int | None = None
    valid: bool = True
    why: str | None = None
    odd: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields of one JSON line; ``why`` and ``extent`` only of what is not valid."""
        line = {name: getattr(self, name) for name in RECORD_FIELDS}
        if not self.valid:
            line["why"] = self.why
            line["extent"] = self.extent
        if self.odd:
            line["odd"] = list(self.odd)
        return line


@dataclass(frozen=True, slots=True)
class UnitView:
    """One queue unit, or ``count`` equal neighbours without content; ``why`` is what does not fit its record."""

    kind: str
    topic: str
    queue_id: int
    path: str
    position: int
    state: str
    queue_offset: int | None = None
    count: int = 1
    physical_offset: int | None = None
    size: int | None = None
    tags_code: int | None = None
    store_timestamp_ms: int | None = None
    batch_size: int | None = None
    ext: ExtView | None = None
    record: RecordView | None = None
    why: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the fields of one JSON line; the record in short."""
        line = {name: getattr(self, name) for name in _UNIT_FIELDS}
        line["ext"] = self.ext.as_json() if self.ext else None
        line["record"] = record_in_short(self.record)
        return line


@dataclass(frozen=True, slots=True)
class ExtView:
    """The ext unit that a queue unit's tags code names."""

    path: str
    position: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    bitmap: str

    def as_json(self) -> dict[str, Any]:
        """Return its fields; the bitmap in hex."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class EntryView:
    """One unit of an index file. ``store_timestamp_ms`` is what the file makes of its seconds."""

    path: str
    number: int
    position: int
    key_hash: int
    slot: int
    physical_offset: int
    seconds: int
    store_timestamp_ms: int
    previous: int
    record: RecordView | None = None
    why: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the fields of one JSON line; the record in short."""
        line = {name: getattr(self, name) for name in self.__slots__}
        line["record"] = record_in_short(self.record)
        return line


@dataclass(frozen=True, slots=True)
class FileView:
    """One file of the store; ``details`` are what the summary says, as numbers."""

    path: str
    kind: str
    size: int
    base_offset: int | None
    topic: str | None
    queue_id: int | None
    summary: str
    details: dict[str, int | str | None] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the fields of one JSON line."""
        return {name: getattr(self, name) for name in self.__slots__}


_UNIT_FIELDS: Final = tuple(name for name in UnitView.__slots__ if name not in ("ext", "record"))
_SHORT_FIELDS: Final = (
    "physical_offset", "size", "topic", "queue_id", "queue_offset", "store_timestamp_ms", "tags_code", "valid",
)  # fmt: skip


def record_in_short(view: RecordView | None) -> dict[str, Any] | None:
    """Return what a line about a unit says of its record: where and whose it is, tag and keys."""
    if view is None:
        return None
    line = {name: getattr(view, name) for name in _SHORT_FIELDS}
    pairs = view.properties or {}
    line |= {"tag": pairs.get("TAGS"), "keys": pairs.get("KEYS"), "unique_key": pairs.get("UNIQ_KEY")}
    return line
