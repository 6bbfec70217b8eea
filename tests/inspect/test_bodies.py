"""Bodies: decompressed where the flag says so, bounded, and never able to act on a terminal."""

from __future__ import annotations

import builtins
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from storebuilder import StoreBuilder

from storeio import inspect, safe
from storeio.inspect import bodies

pytestmark = pytest.mark.share(2)

TEXT = "Grüße, 注释 🚀\n".encode() * 50
ZLIB, LZ4, ZSTD, ZLIB_NEW = 0x1, 0x101, 0x201, 0x301
PACKED = {
    ZLIB: zlib.compress(TEXT),
    LZ4: lz4.frame.compress(TEXT),
    ZSTD: zstandard.compress(TEXT),
    ZLIB_NEW: zlib.compress(TEXT),
}


@pytest.mark.parametrize("flag", PACKED)
def test_each_compression_is_undone(flag: int, tmp_path: Path) -> None:
    assert bodies.decoded(PACKED[flag], flag) == bodies.Body(TEXT, bodies._TYPES[flag >> 8], False, "")
    builder = StoreBuilder(tmp_path / "s")
    builder.message("t", 0, PACKED[flag], sys_flag=flag)
    builder.message("t", 0, b"plain")
    builder.close()
    packed, plain = inspect.records(tmp_path / "s")
    assert inspect.body(tmp_path / "s", packed).data == TEXT
    assert inspect.body(tmp_path / "s", packed, 10) == bodies.Body(
        TEXT[:10], bodies._TYPES[flag >> 8], True, "cut after 10 bytes"
    )
    assert inspect.body(tmp_path / "s", plain) == bodies.Body(b"plain", None, False, "")


@pytest.mark.parametrize("flag", PACKED)
def test_damage_comes_as_stored_with_the_reason(flag: int) -> None:
    broken = b"\x00" + PACKED[flag][1:]
    body = bodies.decoded(broken, flag)
    assert body.data == broken
    assert "cannot be decompressed" in body.note
    early = bodies.decoded(PACKED[flag][:-3], flag)
    assert "ends early" in early.note or early.data == PACKED[flag][:-3]


def test_unknown_compression() -> None:
    assert "unknown compression type 7" in bodies.decoded(b"abc", 0x701).note


@pytest.mark.parametrize(("flag", "package"), [(LZ4, "lz4"), (ZSTD, "zstandard")])
def test_a_missing_package_is_named(flag: int, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any) -> Any:
        if name.split(".")[0] in ("lz4", "zstandard"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)
    body = bodies.decoded(PACKED[flag], flag)
    assert f"install the package {package}" in body.note
    assert body.data == PACKED[flag]


@pytest.mark.parametrize("flag", PACKED)
def test_a_bomb_is_cut(flag: int) -> None:
    pack = {ZLIB: zlib.compress, LZ4: lz4.frame.compress, ZSTD: zstandard.compress, ZLIB_NEW: zlib.compress}[flag]
    bomb = pack(bytes(200 << 20))
    tracemalloc.start()
    body = bodies.decoded(bomb, flag)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert body.truncated or "cannot be decompressed" in body.note
    assert len(body.data) <= bodies.MOST_BYTES
    assert peak < 5 * bodies.MOST_BYTES


def test_a_zstd_window_larger_than_the_bound_is_refused() -> None:
    params = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=params).compressobj()
    body = bodies.decoded(packer.compress(b"x" * 1000) + packer.flush(), ZSTD)
    assert "cannot be decompressed as zstd" in body.note


@settings(max_examples=200, derandomize=True)
@given(st.binary(max_size=300), st.integers(0, 0x7FF), st.integers(0, 400))
def test_any_bytes_with_any_flag(raw: bytes, flag: int, most: int) -> None:
    body = bodies.decoded(raw, flag, most)
    assert len(body.data) <= most
    for text in (bodies.as_text(body.data, cut=body.truncated) or "", *bodies.hex_lines(body.data)):
        assert all(c.isprintable() or c in "\n\t" for c in text)


@settings(max_examples=300, derandomize=True)
@given(st.text(st.characters(), max_size=80))
def test_printable_text_prints(text: str) -> None:
    shown = safe.printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


def test_what_acts_on_terminals_is_escaped() -> None:
    assert safe.printable("a\x1b[2Jb\x9b1m\x07\r\n\t\x7f") == "a\\x1b[2Jb\\x9b1m\\x07\\r\\n\\t\\x7f"
    assert safe.printable("\u202egnp.exe\u200b\U000e0001") == "\\u202egnp.exe\\u200b\\U000e0001"
    assert safe.path_text("topic\udcff\x1b") == "topic\\xff\\x1b"


def test_text_that_is_cut_in_a_character_is_still_text() -> None:
    data = "für 注释".encode()
    for end in range(1, len(data) + 1):
        assert bodies.as_text(data[:end], cut=True) is not None
    assert bodies.as_text(b"\xff\xfe") is None
    assert bodies.as_text(b"") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0), ("1700000000000", 1_700_000_000_000), ("-5", -5), ("1970-01-01", 0), ("1970-01-01T00:00:01", 1000),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123), ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
        ("20231114", 1_699_920_000_000), ("20231399", 20_231_399), ("2023-11-14T22:13:20.7Z", 1_700_000_000_700),
        ("2023-11-14 22:13", 1_699_999_980_000), ("20231114T221320-0130", 1_700_005_400_000),
    ],
)  # fmt: skip
def test_times(text: str, expected: int) -> None:
    assert safe.parse_time(text) == expected


def test_times_that_are_none() -> None:
    for text in ("", "yesterday", "2023-13-01", "\x1b[2J", "-+2026111111", "2023-1114", "2023-11-14T24:00", "1_000"):
        with pytest.raises(ValueError, match="neither") as caught:
            safe.parse_time(text)
        assert str(caught.value).isprintable()
    for text in ("2026", "202611"):
        with pytest.raises(ValueError, match="a whole date"):
            safe.parse_time(text)
    assert safe.time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert safe.time_text(2**63 - 1) == f"{2**63 - 1} ms"
    assert safe.time_text(None) == "-"
