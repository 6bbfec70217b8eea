"""Message properties, tags codes and Java's string hash.

Properties are one string: name, 0x01, value, 0x02, and so on, in no canonical order; an
encoder keeps the original bytes.

Source: ``MessageDecoder.string2messageProperties``, ``MessageExtBrokerInner.tagsString2tagsCode``
and ``java.lang.String``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from storeio.paths import parse_number

NAME_VALUE: Final = "\x01"
PROPERTY: Final = "\x02"
TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQUE_KEY: Final = "UNIQ_KEY"
DELAY: Final = "DELAY"
TRANSACTION: Final = "TRAN_MSG"  # of half messages, and of what they become
REAL_TOPIC: Final = "REAL_TOPIC"  # of a delayed message: where it goes
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
PROPERTY_CRC: Final = "__CRC32#"
PROPERTY_CRC_BYTES: Final = 20

# Java takes an encoded surrogate as one malformed sequence where Unicode sees two or three.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf](?:[\x80-\xbf])?")


def odd_piece(raw: bytes) -> bytes | None:
    """Return the first piece that every reader drops and no producer writes, None without: one without name or value.

    Clients and brokers may double a separator, which drops nothing. A value may be empty, as of ``setKeys("")``, but
    not before two separators: there the first one may be what is left of a value.
    """
    pieces = raw.removesuffix(b"\x02").split(b"\x02")
    for piece, following in zip(pieces, [*pieces[1:], None], strict=True):
        at = piece.find(b"\x01")
        is_cut_off = at == len(piece) - 1 and following == b""
        if piece and (at <= 0 or is_cut_off):
            return piece
    return None


def java_decode(raw: bytes) -> str:
    """Return the string that Java's ``new String(raw, UTF_8)`` gives, malformed bytes as U+FFFD."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        parts = _SURROGATE.split(raw)
        return "\ufffd".join(part.decode("utf-8", errors="replace") for part in parts)


def java_hash(text: str) -> int:
    """Return ``String.hashCode()``: 31-polynomial over UTF-16 units, signed 32 bits."""
    value = 0
    raw = text.encode("utf-16-be", errors="surrogatepass")
    for i in range(0, len(raw), 2):
        value = (31 * value + (raw[i] << 8 | raw[i + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def key_hash(text: str) -> int:
    """Return the index's key hash: the absolute Java hash, 0 for the one that has none."""
    value = abs(java_hash(text))
    return 0 if value == 2**31 else value


def index_hashes(topic: str, said: Mapping[str, str]) -> tuple[set[int], set[int]]:
    """Return the hashes that properties give a record in an index: of its keys, and of its tag, from 5.4.0 on."""
    words = [said[UNIQUE_KEY]] if UNIQUE_KEY in said else []
    words += [word for word in said.get(KEYS, "").split(" ") if word]
    tags = [f"T#{said[TAGS]}"] if TAGS in said else []
    of_keys, of_tags = ({key_hash(f"{topic}#{word}") for word in some} for some in (words, tags))
    return of_keys, of_tags


def parse(raw: bytes) -> dict[str, str]:
    """Return the properties as the broker reads them; a later duplicate wins, odd parts vanish."""
    text = java_decode(raw)
    found: dict[str, str] = {}
    index = 0
    while index < len(text):
        end = text.find(PROPERTY, index)
        if end < 0:
            end = len(text)
        split = text.find(NAME_VALUE, index)
        if index < split < end - 1:
            found[text[index:split]] = text[split + 1 : end]
        index = end + 1
    return found


def property_crc(crc: int) -> bytes:
    """Return the property that ends a record with this CRC over all before it: ten digits, the last one first."""
    return f"{PROPERTY_CRC}{NAME_VALUE}{str(crc)[::-1].ljust(10, '0')}{PROPERTY}".encode()


def value_place(raw: bytes, name: str) -> tuple[int, int]:
    """Return where the value of a property stands that ``parse`` finds: its first byte, and the one behind it."""
    key, found, index = f"{name}{NAME_VALUE}".encode(), (0, 0), 0
    while index < len(raw):
        end = raw.find(PROPERTY.encode(), index)
        end = len(raw) if end < 0 else end
        if raw.startswith(key, index) and index + len(key) < end:
            found = index + len(key), end
        index = end + 1
    return found


def java_split(text: str, separator: str) -> list[str]:
    """Return ``text.split(separator)`` as Java does it: trailing empty parts dropped."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and separator in text else parts


def java_short(text: str) -> int | None:
    """Return ``Short.parseShort(text)``, None where it would throw."""
    return parse_number(text, 15)


def java_int(text: str) -> int | None:
    """Return ``Integer.parseInt(text)``, None where it would throw."""
    return parse_number(text, 31)


def java_long(text: str) -> int | None:
    """Return ``Long.parseLong(text)``, None where it would throw."""
    return parse_number(text)
