"""Message bodies: as stored or decompressed, never more than a bound, and printed so that nothing in them acts.

Source: ``CompressionType`` and ``MessageSysFlag`` of RocketMQ.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from storeio.format import commitlog as log
from storeio.inspect.reader import Reader
from storeio.inspect.views import MOST_BYTES, RecordView
from storeio.safe import printable

ZLIB: Final = "zlib"
LZ4: Final = "lz4"
ZSTD: Final = "zstd"
ZSTD_STEP: Final = 64  # bytes fed at a time: zstd has no bound on output, but 4 bytes give 128 KiB at most
_TYPES: Final = {0: ZLIB, 1: LZ4, 2: ZSTD, 3: ZLIB}
_PACKAGES: Final = {LZ4: "lz4", ZSTD: "zstandard"}


@dataclass(frozen=True, slots=True)
class Body:
    """A body as far as it was asked for. ``note`` says what a reader must know, e.g. that it is cut."""

    data: bytes
    compression: str | None
    truncated: bool
    note: str


def read_body(reader: Reader, view: RecordView, most: int = MOST_BYTES) -> Body:
    """Return at most ``most`` bytes of a record's body, decompressed where the sys flag says so.

    Raises:
        UnreadableError: The segment cannot be read.
    """
    if view.body_position is None or not view.body_length:
        return Body(b"", None, False, "" if view.body_length == 0 else "the body cannot be told")
    start = view.body_position
    flag = view.sys_flag or 0
    length = view.body_length if flag & log.SYS_COMPRESSED else min(view.body_length, most + 1)
    return decoded(reader.read(view.path, start, start + length).data, flag, most)


def decoded(raw: bytes | memoryview, sys_flag: int, most: int = MOST_BYTES) -> Body:
    """Return at most ``most`` bytes of a stored body, decompressed where the sys flag says so.

    What cannot be decompressed comes as stored, with a note that says why.
    """
    most = min(most, MOST_BYTES)
    if not sys_flag & log.SYS_COMPRESSED:
        return _cut(bytes(raw[: most + 1]), None, most)
    number = (sys_flag & log.SYS_COMPRESSION_TYPE) >> 8
    kind = _TYPES.get(number)
    if kind is None:
        return _as_stored(raw, None, most, f"unknown compression type {number}")
    try:
        data, ended = _DECOMPRESSORS[kind](raw, most + 1)
    except ImportError:
        return _as_stored(raw, kind, most, f"compressed with {kind}: install the package {_PACKAGES[kind]} to read it")
    except (ValueError, EOFError, RuntimeError, MemoryError, zlib.error, OSError) as error:
        return _as_stored(raw, kind, most, f"cannot be decompressed as {kind}: {printable(str(error))}")
    body = _cut(data, kind, most)
    if not ended and not body.truncated:
        return Body(body.data, kind, False, f"the {kind} stream ends early")
    return body


def _cut(data: bytes, kind: str | None, most: int) -> Body:
    truncated = len(data) > most
    return Body(data[:most], kind, truncated, f"cut after {most} bytes" if truncated else "")


def _as_stored(raw: bytes | memoryview, kind: str | None, most: int, note: str) -> Body:
    body = _cut(bytes(raw[: most + 1]), kind, most)
    return Body(body.data, kind, body.truncated, "; ".join(text for text in (note, "as stored", body.note) if text))


def _from_zlib(raw: bytes | memoryview, most: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    return stream.decompress(raw, most), stream.eof


def _from_lz4(raw: bytes | memoryview, most: int) -> tuple[bytes, bool]:
    import lz4.frame  # an optional dependency

    stream = lz4.frame.LZ4FrameDecompressor()
    return stream.decompress(bytes(raw), max_length=most), bool(stream.eof)


def _from_zstd(raw: bytes | memoryview, most: int) -> tuple[bytes, bool]:
    import zstandard  # an optional dependency

    # The window is allocated before anything is decompressed, and its size comes from the body.
    stream = zstandard.ZstdDecompressor(max_window_size=MOST_BYTES).decompressobj()
    parts, room = [], most
    try:
        for at in range(0, len(raw), ZSTD_STEP):
            parts.append(stream.decompress(bytes(raw[at : at + ZSTD_STEP])))
            room -= len(parts[-1])
            if stream.eof or room <= 0:
                break
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    return b"".join(parts)[:most], stream.eof


_DECOMPRESSORS: Final = {ZLIB: _from_zlib, LZ4: _from_lz4, ZSTD: _from_zstd}


def as_text(data: bytes, *, cut: bool = False) -> str | None:
    """Return a body as printable text, None if it is no UTF-8; ``cut`` forgives a last character cut in two."""
    for end in range(len(data), max(len(data) - 4, -1) if cut else len(data) - 1, -1):
        try:
            return printable(data[:end].decode("utf-8"), keep="\n\t")
        except UnicodeDecodeError:
            continue
    return None


def hex_lines(data: bytes) -> list[str]:
    """Return a hex dump, 16 bytes a line, printable ASCII on the right."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        lines.append(f"{at:>12}  {hex_columns(row)}  {ascii_columns(row)}")
    return lines


def hex_columns(row: bytes) -> str:
    """Return up to 16 bytes in hex, padded to one width."""
    return f"{row.hex(' ')}".ljust(47)


def ascii_columns(row: bytes) -> str:
    """Return bytes as ASCII, a dot for what does not print."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
