"""What a fresh clone relies on: the Makefile's targets, the Java check, the packaging."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.java import java_problem, parse_version

ROOT = Path(__file__).parents[2]
LINE = "java 17 or 21 is needed for Spark: apt-get install openjdk-17-jre-headless (found: {})"

JAVA_8 = 'java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)'
JAVA_11 = 'openjdk version "11.0.22" 2024-01-16\nOpenJDK Runtime Environment (build 11.0.22+7)'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)'
JAVA_21 = 'openjdk version "21" 2023-09-19'
JAVA_25_EA = 'openjdk version "25-ea" 2025-09-16'


def fake_java(folder: Path, version: str, *, exit_code: int = 0) -> Path:
    """Return a program named java that prints ``version`` on standard error, as java does."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{version}\nEND\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def path_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on PATH, empty; ``JAVA_HOME`` is not set."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


@pytest.mark.parametrize(
    ("text", "version"),
    [(JAVA_8, 8), (JAVA_11, 11), (JAVA_17, 17), (JAVA_21, 21), (JAVA_25_EA, 25), ("", None), ("no java here", None)],
)
def test_java_version_is_the_major_one(text: str, version: int | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", [JAVA_17, JAVA_21])
def test_java_that_will_do_is_no_problem(path_folder: Path, text: str) -> None:
    fake_java(path_folder, text)
    assert java_problem() is None


def test_missing_java_is_one_line(path_folder: Path) -> None:
    assert java_problem() == LINE.format("none")


@pytest.mark.parametrize(("text", "version"), [(JAVA_8, 8), (JAVA_11, 11)])
def test_old_java_is_one_line(path_folder: Path, text: str, version: int) -> None:
    java = fake_java(path_folder, text)
    assert java_problem() == LINE.format(f"java {version} at {java}")


def test_java_that_does_not_run_is_one_line(path_folder: Path) -> None:
    java = fake_java(path_folder, "Unable to locate a Java Runtime.", exit_code=1)
    assert java_problem() == LINE.format(f"java of unknown version at {java}")


def test_java_home_comes_before_path(path_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(path_folder, JAVA_17)
    java = fake_java(tmp_path / "jdk" / "bin", JAVA_11)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java_problem() == LINE.format(f"java 11 at {java}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java_problem() == LINE.format(f"none in JAVA_HOME={tmp_path / 'gone'}")


def test_package_is_named_for_the_machine(path_folder: Path) -> None:
    fake_java(path_folder, "").rename(path_folder / "brew")
    assert java_problem() == "java 17 or 21 is needed for Spark: brew install openjdk@17 (found: none)"


@pytest.mark.parametrize("version", [None, JAVA_11])
def test_make_setup_stops_with_that_line_alone(path_folder: Path, version: str | None) -> None:
    make = shutil.which("make", path=os.defpath + ":/usr/local/bin")
    if make is None:
        pytest.skip("make is not in a system folder")
    found = "none" if version is None else f"java 11 at {fake_java(path_folder, version)}"
    run = subprocess.run(
        [make, "--no-print-directory", "setup", f"PYTHON={sys.executable}"],
        cwd=ROOT, env={"PATH": str(path_folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = (run.stdout + run.stderr).splitlines()
    assert run.returncode != 0
    assert [line for line in lines if not re.match(r"make(\[\d+\])?: \*\*\*", line)] == [LINE.format(found)]


def test_java_check_runs_before_anything_is_installed(path_folder: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-S", "-I", str(ROOT / "jobs" / "java.py")], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (1, "", LINE.format("none") + "\n")


def test_every_target_is_in_the_help() -> None:
    text = (ROOT / "Makefile").read_text()
    public = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split()) - {"java", "jars", "brokers"}
    explained = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    assert explained == public


def test_ci_is_executable_and_calls_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "make test"


def test_conf_travels_with_the_package() -> None:
    link = ROOT / "storeio" / "conf"
    assert link.is_symlink()
    assert link.resolve() == (ROOT / "conf").resolve()


@pytest.mark.parametrize("name", ["Makefile", "pyproject.toml", ".ci/run", "jobs/resolve_jars.py", "conf/spark.conf"])
def test_set_up_names_no_host(name: str) -> None:
    assert not re.search(r"https?://", (ROOT / name).read_text())


def test_what_ci_runs_is_a_script() -> None:
    found = subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
