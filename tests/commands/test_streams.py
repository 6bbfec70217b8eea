"""Standard streams that are closed or full: exit codes stay those of the work, and nothing of the store is written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest

from storeio import audit

pytestmark = pytest.mark.share(2)

FULL = Path("/dev/full")
UNTOLD = [
    "2>&-",
    pytest.param("2>/dev/full", marks=pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")),
    ">&-",
    ">&- 2>&-",
    "<&- >&- 2>&-",
]


def shell(words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Return how a call in a shell ended, which has a store, a damaged one and a plan for it."""
    command = f'"{sys.executable}" -m storeio {words}'
    return subprocess.run(["sh", "-c", command], cwd=directory, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("streams")
    golden.copy_of("base-5.3.3", root / "store")
    golden.copy_of("base-5.3.3", root / "damaged")
    queue = next(path for path in sorted((root / "damaged/consumequeue").rglob("*")) if path.is_file())
    queue.write_bytes(b"\1" + queue.read_bytes()[1:])
    assert shell("plan damaged --out plan.json", root).returncode == 4
    return root


CODES = {"check damaged": 4, "check store": 0, "check nothing": 16, "simulate store": 0, "wrong": 16}


def _calls() -> Iterator[Any]:
    """Yield calls and what of their streams is closed: all for one call, and one for each of the others."""
    for number, (words, code) in enumerate(CODES.items()):
        for place, where in enumerate(UNTOLD):
            text, marks = (where, []) if isinstance(where, str) else (where.values[0], list(where.marks))
            more = [] if number in (0, place) else [pytest.mark.long]
            yield pytest.param(words, code, text, marks=[*marks, *more], id=f"{words} {text}")


@pytest.mark.share(2)
@pytest.mark.parametrize(("words", "code", "where"), list(_calls()))
def test_exit_codes_are_those_of_the_work(words: str, code: int, where: str, world: Path) -> None:
    ran = shell(f"{words} {where}", world)
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.share(2)
@pytest.mark.parametrize("where", UNTOLD)
def test_a_plan_is_carried_out_and_taken_back(where: str, world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "damaged", tmp_path / "damaged")
    shutil.copy(world / "plan.json", tmp_path)
    assert shell(f"apply plan.json damaged {where}", tmp_path).returncode == 1
    assert audit.check(tmp_path / "damaged").exit_code == 0
    assert shell(f"undo damaged {where}", tmp_path).returncode == 1


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["check store", "inspect store --limit 1", "simulate store", "--version"])
def test_a_report_that_cannot_be_written_is_said(words: str, world: Path) -> None:
    ran = shell(f"{words} >/dev/full", world)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (8, 1)
    assert "No space left on device" in ran.stderr
    assert ("standard output" in ran.stderr) == (words != "--version")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_what_was_found_counts_also_if_the_report_is_lost(world: Path) -> None:
    for where in (">/dev/full", "--json /dev/full", "--quiet --json /dev/full", "--json - >/dev/full"):
        ran = shell(f"check damaged store {where}", world)
        assert (ran.returncode, ran.stderr.count("could not be written: No space left")) == (4 | 8, 1)
        assert ("SOUND" in ran.stdout) == ("--json /" in where)  # the other store is looked at all the same


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("where", [">/dev/full", "--json /dev/full"])
def test_what_was_repaired_counts_also_if_the_report_is_lost(where: str, world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "damaged", tmp_path / "damaged")
    shutil.copy(world / "plan.json", tmp_path)
    ran = shell(f"apply plan.json damaged {where}", tmp_path)
    assert (ran.returncode, ran.stderr.count("could not be written: No space left")) == (1 | 8, 1)


@pytest.mark.parametrize("to", ["/dev/stdout", "told"])
def test_json_that_goes_where_reports_go_is_not_overwritten(to: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    words = ["check", str(golden.store("base-5.3.3")), "--json", to]
    with told.open("wb") as stdout:
        subprocess.run([sys.executable, "-m", "storeio", *words], stdout=stdout, cwd=tmp_path, check=True, timeout=60)
    lines = told.read_text().splitlines()
    objects = [json.loads(line) for line in lines if line.startswith("{")]
    assert [found["verdict"] for found in objects] == ["sound"]
    assert sum(line.startswith("SOUND") for line in lines) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["told"]
