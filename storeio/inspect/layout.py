"""The fields of one record, one after the other, as far as the bytes lead; for damaged ones, too.

Source: ``CommitLog.checkMessageAndReturnSize``, like ``storeio.format.commitlog``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from storeio.format import commitlog as log
from storeio.format import properties as props

Value = int | str | bytes

_NUMBERS: Final = {
    "size": ">i", "magic": ">i", "body_crc": ">i", "queue_id": ">i", "flag": ">i", "queue_offset": ">q",
    "physical_offset": ">q", "sys_flag": ">i", "born_timestamp_ms": ">q", "store_timestamp_ms": ">q",
    "reconsume_times": ">i", "prepared_transaction_offset": ">q", "body_length": ">i", "properties_length": ">h",
}  # fmt: skip
_HEAD: Final = (
    "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag",
    "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "reconsume_times",
    "prepared_transaction_offset", "body_length", "body", "topic_length", "topic", "properties_length", "properties",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A field's place from the record's first byte. The body's value is empty: it may be large."""

    name: str
    at: int
    length: int
    value: Value


def parts_of(raw: memoryview) -> tuple[list[Part], str]:
    """Return the fields that fit into the bytes, in order, and why there are no more: empty if all are there."""
    found: list[Part] = []
    values: dict[str, Value] = {}
    at = 0
    for name in _HEAD:
        length = _length(name, values)
        if length < 0:
            return found, f"{name.replace('_', ' ')} of {length} bytes"
        if length > len(raw) - at:
            return found, f"{name.replace('_', ' ')} of {length} bytes does not fit into the {len(raw) - at} left"
        value = _value(name, raw[at : at + length])
        values[name] = value
        found.append(Part(name, at, length, value))
        at += length
    return found, ""


def _length(name: str, values: dict[str, Value]) -> int:
    """Return the bytes that a field takes, told from the fields before it."""
    if name in _NUMBERS:
        return struct.calcsize(_NUMBERS[name])
    if name == "topic_length":
        return 2 if values["magic"] == log.MAGIC_V2 else 1
    if name in ("born_host", "store_host"):
        return log.host_bytes(_int(values["sys_flag"]))[name == "store_host"]
    length = _int(values[f"{name}_length"])
    return length if name == "topic" else max(length, 0)  # the broker takes the other two's negative lengths for 0


def _value(name: str, raw: memoryview) -> Value:
    """Return what the field's bytes say."""
    if name in _NUMBERS:
        return int(struct.unpack(_NUMBERS[name], raw)[0])
    if name == "topic_length":
        return int.from_bytes(raw, "big", signed=True)
    if name in ("born_host", "store_host"):
        return str(log.Host(bytes(raw[:-4]), int.from_bytes(raw[-4:], "big", signed=True)))
    if name == "topic":
        return props.java_decode(bytes(raw))
    return b"" if name == "body" else bytes(raw)


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0
