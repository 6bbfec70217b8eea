"""What a field's value means, in a few words."""

from __future__ import annotations

from typing import Final

from storeio.format import commitlog as log
from storeio.format import properties as props
from storeio.format import queueext
from storeio.safe import printable, shortened, time_text

_MAGIC: Final = {
    log.MAGIC_V1: "message",
    log.MAGIC_V2: "message, two-byte topic length",
    log.MAGIC_BLANK: "blank: end of the segment",
}
_BITS: Final = (
    (log.SYS_COMPRESSED, "compressed"),
    (log.SYS_MULTI_TAGS, "multi tags"),
    (log.SYS_BORN_V6, "born host IPv6"),
    (log.SYS_STORE_V6, "store host IPv6"),
    (log.SYS_NEED_UNWRAP, "need unwrap"),
    (log.SYS_INNER_BATCH, "inner batch"),
)
_TRANSACTION: Final = {log.SYS_PREPARED: "prepared", log.SYS_COMMIT: "commit", log.SYS_ROLLBACK: "rollback"}
_COMPRESSION: Final = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


def value_text(name: str, value: int | str | bytes) -> str:
    """Return a field's value as printable text with its meaning."""
    if name == "properties":
        return shortened(printable(_pairs(bytes(value) if isinstance(value, bytes) else b"")), 200)
    if isinstance(value, bytes):
        return ""
    if isinstance(value, str):
        return shortened(printable(value), 200)
    if name == "magic":
        return f"0x{value & 0xFFFFFFFF:08X} ({_MAGIC.get(value, 'no magic code')})"
    if name == "sys_flag":
        return f"0x{value & 0xFFFFFFFF:x} ({flag_text(value)})"
    if name.endswith("_ms") and value > 0:
        return f"{value} ({time_text(value)})"
    if name == "tags_code" and value <= queueext.MAX_ADDRESS:
        return f"{value} (ext unit at {value - queueext.ADDRESS_BASE})"
    return str(value)


def flag_text(sys_flag: int) -> str:
    """Return the meaning of a record's sys flag bits."""
    found = [text for bit, text in _BITS if sys_flag & bit]
    if transaction := sys_flag & log.SYS_TRANSACTION:
        found.append(_TRANSACTION[transaction])
    if sys_flag & log.SYS_COMPRESSED:
        kind = (sys_flag & log.SYS_COMPRESSION_TYPE) >> 8
        found.append(_COMPRESSION.get(kind, f"unknown compression type {kind}"))
    if log.unset_flags(sys_flag):
        found.append("unknown bits")
    return ", ".join(found) or "none"


def _pairs(raw: bytes) -> str:
    return ", ".join(f"{name}={value}" for name, value in props.parse(raw).items())
