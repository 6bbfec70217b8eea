"""CRC engines: each against crcmod's definition, in this process and as a fresh process chooses them."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crcmod.predefined import mkCrcFun  # type: ignore[import-untyped, unused-ignore]
from hypothesis import example, given
from hypothesis import strategies as st

from storeio import clmul, compiled, crc, entries
from storeio.errors import UsageError

define: Callable[[bytes], int] = mkCrcFun("crc-32")

NEEDS_JIT = pytest.mark.skipif(bool(compiled.config.DISABLE_JIT), reason="only compiled code calls C functions")
NEEDS_CLMUL = pytest.mark.skipif(not clmul.available(), reason="the CPU lacks VPCLMULQDQ, or nothing is compiled")
MARKS = {"isal": [NEEDS_JIT], "clmul": [NEEDS_CLMUL]}
EVERY_ENGINE = pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, [])) for name in crc.ENGINES])
PROBE = """
import json, sys
{before}
from storeio import compiled, crc
print(json.dumps(dict(
    engine=crc.ENGINE, kind=crc.KIND, address=crc.ADDRESS, check=crc.crc32(b"123456789"), **compiled.COUNTS
)))
"""
CHECK = 0xCBF43926  # the published check value of CRC-32


def place(name: str) -> tuple[int, int]:
    """Address and kind of an engine as kernels get them."""
    kind, find = crc.ENGINES[name]
    return (0 if compiled.config.DISABLE_JIT else find()), kind


def run(root: Path | None = None, *, before: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Import ``storeio.crc`` in a fresh process, by default from this checkout."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "STOREIO_CRC"))}
    path = str(root or Path(crc.__file__).parents[1])
    command = [sys.executable, "-c", PROBE.format(before=before)]
    return subprocess.run(
        command,
        env={**inherited, "PYTHONPATH": path, **settings},
        cwd=path,
        capture_output=True,
        text=True,
        timeout=300,
    )


def chosen(root: Path | None = None, **how: Any) -> dict[str, Any]:
    """What the fresh process chose and computed."""
    process = run(root, **how)
    assert process.returncode == 0, process.stderr
    result: dict[str, Any] = json.loads(process.stdout)
    assert result["check"] == CHECK
    return result


@EVERY_ENGINE
@given(data=st.binary(max_size=400), before=st.integers(0, 40), after=st.integers(0, 40))
@example(data=b"", before=0, after=0)
@example(data=b"", before=3, after=0)
@example(data=b"\xff" * 16, before=1, after=1)
@example(data=bytes(range(256)) * 300, before=5, after=7)
@example(data=bytes(range(256)) * 300 + b"tail", before=21, after=0)
def test_engine_equals_crcmod(name: str, data: bytes, before: int, after: int) -> None:
    view = np.frombuffer(b"\xa5" * before + data + b"\x5a" * after, dtype=np.uint8)
    assert int(crc.body_crc(*place(name), view, before, before + len(data))) == define(data)


@EVERY_ENGINE
@pytest.mark.parametrize(
    ("start", "stop"), [(-1, 2), (0, 11), (5, 4), (11, 11), (-(2**63), 2**63 - 1), (2**62, 2**63 - 1)]
)
def test_bounds_outside_the_data_give_zero(name: str, start: int, stop: int) -> None:
    assert int(crc.body_crc(*place(name), np.ones(10, dtype=np.uint8), start, stop)) == 0


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 11)])
def test_tables_check_their_bounds_themselves(start: int, stop: int) -> None:
    assert int(crc.table_crc(np.ones(10, dtype=np.uint8), start, stop)) == 0


@NEEDS_JIT
def test_engine_without_address_is_never_called() -> None:
    data = np.frombuffer(b"123456789", dtype=np.uint8)
    assert [int(crc.body_crc(0, kind, data, 0, 9)) for kind in (crc.ISAL, crc.ZLIB)] == [CHECK, CHECK]


@NEEDS_JIT
@EVERY_ENGINE
def test_kernels_call_every_engine(name: str) -> None:
    @compiled.compiled("int64(int64, int64, readonly(uint8[::1]), int64)")
    def xor_of_bodies(address: int, kind: int, data: crc.Bytes, size: int) -> int:
        found = 0
        for start in range(0, data.size - size + 1, size):
            found ^= np.int64(crc.body_crc(address, kind, data, start, start + size))
        return found

    data = np.random.default_rng(7).integers(0, 256, 10_000, dtype=np.uint8)
    for size in (1, 15, 16, 100, 1024):
        expected = 0
        for start in range(0, data.size - size + 1, size):
            expected ^= zlib.crc32(data[start : start + size].tobytes())
        assert xor_of_bodies(*place(name), data, size) == expected


@given(st.binary(max_size=100))
@example(b"")
def test_crc32_takes_every_kind_of_bytes(data: bytes) -> None:
    assert crc.crc32(data) == crc.crc32(bytearray(data)) == crc.crc32(memoryview(data)) == zlib.crc32(data)


def test_definition_is_the_polynomial_of_the_broker() -> None:
    assert define(b"123456789") == CHECK
    assert crc.agrees(crc.ADDRESS, crc.KIND)


@NEEDS_CLMUL
@pytest.mark.parametrize("before", [16, 17, 31])
def test_every_length_of_our_own_engine(before: int) -> None:
    """Rounds, lanes and a first lane in part, in all their combinations."""
    data = np.random.default_rng(before).integers(0, 256, 900, dtype=np.uint8)
    for stop in range(before, len(data) + 1):
        found = int(crc.body_crc(0, crc.CLMUL, data, before, stop))
        assert found == zlib.crc32(data[before:stop].tobytes()), stop - before


def test_constants_are_the_published_ones() -> None:
    assert clmul.folding(512) == (0x154442BD4, 0x1C6E41596)
    assert clmul.folding(128) == (0x1751997D0, 0x0CCAA009E)
    assert clmul.factor(64) == 0x163CD6124
    assert clmul.reflected(clmul.quotient(64), 33) == 0x1F7011641


def test_libraries_with_wider_vectors_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc, "worthwhile", lambda: False)
    assert crc.fastest_first() == ["isal", "clmul", "zlib", "tables"]
    monkeypatch.setattr(crc, "worthwhile", lambda: True)
    assert crc.fastest_first() == ["clmul", "isal", "zlib", "tables"]


@NEEDS_JIT
def test_wrong_engine_is_passed_over_and_refused_when_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ctypes.CDLL(getattr(zlib, "__file__", "libz.so.1"))
    adler = ctypes.cast(library.adler32, ctypes.c_void_p).value  # is called like crc32 but is another sum
    monkeypatch.setattr(crc, "available", lambda: False)
    monkeypatch.setitem(crc.ENGINES, "isal", (crc.ZLIB, lambda: adler))
    assert crc.choose_engine("")[0] == "zlib"
    with pytest.raises(UsageError, match="isal disagrees"):
        crc.choose_engine("isal")


def test_missing_function_is_an_os_error() -> None:
    with pytest.raises(OSError, match="no_such_function"):
        crc.symbol_address("libc.so.6", "no_such_function")


@NEEDS_JIT
def test_engines_are_tried_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> int:
        raise ImportError("not installed")

    monkeypatch.setattr(crc, "available", lambda: False)
    monkeypatch.setitem(crc.ENGINES, "isal", (crc.ISAL, missing))
    assert crc.choose_engine("")[0] == "zlib"
    monkeypatch.setitem(crc.ENGINES, "zlib", (crc.ZLIB, missing))
    assert crc.choose_engine("") == ("tables", crc.TABLES, 0)


def test_addresses_are_not_frozen_in_the_cache(tmp_path: Path) -> None:
    assert chosen(STOREIO_CACHE_DIR=str(tmp_path))["compiled"] > 0
    names = ["isal", "zlib", "tables"]
    engines = [chosen(STOREIO_CACHE_DIR=str(tmp_path), STOREIO_CRC_ENGINE=name) for name in names]
    assert [engine["engine"] for engine in engines] == names
    assert [engine["compiled"] for engine in engines] == [0, 0, 0]
    assert len({engine["address"] for engine in engines}) == 3


def test_another_engine_runs_where_isal_is_not_installed() -> None:
    assert chosen(before="sys.modules['isal'] = None")["engine"] == ("clmul" if clmul.available() else "zlib")


@pytest.mark.parametrize("name", ["crc32c", "ISAL", "zlib,tables"])
def test_unknown_engine_is_a_clear_error(name: str) -> None:
    process = run(STOREIO_CRC_ENGINE=name)
    assert process.returncode != 0
    assert f"STOREIO_CRC_ENGINE={name}: no such engine, take one of clmul, isal, zlib, tables" in process.stderr


def test_unusable_engine_is_a_clear_error() -> None:
    process = run(before="sys.modules['isal'] = None", STOREIO_CRC_ENGINE="isal")
    assert process.returncode != 0
    assert "STOREIO_CRC_ENGINE=isal: isal is not there" in process.stderr


def test_an_unknown_engine_is_wrong_use_of_the_command() -> None:
    command = [sys.executable, "-m", "storeio", "check", "."]
    done = subprocess.run(command, env={**os.environ, "STOREIO_CRC_ENGINE": "fast"}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (16, "")
    assert done.stderr.startswith("storeio: STOREIO_CRC_ENGINE=fast: no such engine, ")


def test_without_jit_pythons_zlib_runs() -> None:
    result = chosen(NUMBA_DISABLE_JIT="1")
    assert (result["engine"], result["compiled"], result["loaded"]) == ("zlib", 0, 0)
    assert chosen(NUMBA_DISABLE_JIT="1", STOREIO_CRC_ENGINE="tables")["engine"] == "tables"
    process = run(NUMBA_DISABLE_JIT="1", STOREIO_CRC_ENGINE="isal")
    assert "NUMBA_DISABLE_JIT" in process.stderr


@EVERY_ENGINE
@pytest.mark.long
def test_engines_run_with_bounds_checks(name: str) -> None:
    assert chosen(NUMBA_BOUNDSCHECK="1", STOREIO_CRC_ENGINE=name)["engine"] == name


def test_zlib_takes_long_bodies_in_pieces(tmp_path: Path) -> None:
    package = tmp_path / "storeio"
    package.mkdir()
    (package / "__init__.py").touch()
    for module in (compiled, entries, clmul):
        shutil.copy(module.__file__, package)
    source = Path(crc.__file__).read_text()
    short = source.replace("PIECE_BYTES = 1 << 30", "PIECE_BYTES = 7")
    assert short != source
    (package / "crc.py").write_text(short)
    # The tests at import, up to 5000 bytes long, pass only if the pieces join.
    assert chosen(tmp_path, STOREIO_CRC_ENGINE="zlib")["engine"] == "zlib"
