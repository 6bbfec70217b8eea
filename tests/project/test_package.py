"""The wheel, as people get it: what is in it, and that it works with what it declares and nothing else.

Environments here hold links to this one's packages, but only to those that the wheel's metadata asks for: that takes no
registry and seconds. The tests marked ``long`` install from the registry that pip is configured for.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest
from packaging.requirements import Requirement

from storeio import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
CASE: Final = "15-clean"  # of 4.9.8: the magic code of one record
PACKAGES: Final = ("storeio", "udfs", "jobs")
CONF: Final = {f"storeio/conf/{name}" for name in ("store.toml", "names.toml", "spark.conf", "log4j2.properties")}

TYPED: Final = """
import storeio
from storeio import inspect

audit = storeio.check("/data/store")
codes: list[str] = [finding.code for finding in audit.findings]
verdict: str = audit.verdict
records: int = sum(len(rows) for _, rows in storeio.open_store("/data/store").records())
for view in inspect.records("/data/store", key="order-4711"):
    print(view.physical_offset + 1, view.topic or "", verdict, codes, records)
"""
MISTYPED: Final = {
    "audit.verdict + 1": "Unsupported operand types",
    "audit.findings[0].cod": 'has no attribute "cod"',
    'storeio.open_store("/data/store").record()': 'has no attribute "record"',
    "storeio.check(4711)": "incompatible type",
    'inspect.records("/data/store", kee="k")': 'Unexpected keyword argument "kee"',
}

Run = subprocess.CompletedProcess[str]


# ---- Environments


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of ``make wheel`` if it is of this tree, else one made the same way."""
    from cluster.standalone import current_wheel

    return current_wheel(tmp_path_factory.mktemp("wheel"))


def asked_for(wheel: Path, extras: Iterable[str] = ()) -> set[str]:
    """Return the names of the packages that the wheel asks for with these extras, and of all that those ask for."""
    found: set[tuple[str, str]] = set()
    left = [(line, extra) for line in requirements(wheel) for extra in ("", *extras)]
    while left:
        line, extra = left.pop()
        wanted = Requirement(line)
        if (wanted.marker is None or wanted.marker.evaluate({"extra": extra})) and (wanted.name, extra) not in found:
            found.add((wanted.name, extra))
            inner = metadata.distribution(wanted.name).requires or []
            left += [(line, extra) for line in inner for extra in ("", *wanted.extras)]
    return {name for name, _ in found}


def requirements(wheel: Path) -> list[str]:
    """Return the wheel's ``Requires-Dist``."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []


def environment(place: Path, wheel: Path, extras: Iterable[str] = ()) -> Path:
    """Return the interpreter of an environment with the wheel, and links to the packages that it asks for."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(place)
    python = place / "bin" / "python"
    asked = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place)
    packages = Path(asked.stdout.strip())
    for name in asked_for(wheel, extras):
        there = metadata.distribution(name)
        for top in {file.parts[0] for file in there.files or []} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(there.locate_file(top)))
    install(python, "--no-deps", "--no-index", str(wheel))
    return python


def install(python: Path, *words: str) -> None:
    """Install with this environment's pip into another one."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *words]
    # What PYTHONPATH names would count as installed.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, env=kept)


def run(python: Path, *words: str, cwd: Path, **more: str) -> Run:
    """Run the interpreter, with nothing of this process's Python set-up."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    kept = {**kept, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", **more}
    return subprocess.run(
        [str(python), *words], cwd=cwd, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment without extras."""
    return environment(tmp_path_factory.mktemp("core"), wheel)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a store that a broker wrote, with one record damaged."""
    (case,) = [case for case in golden.cases("rows-4.9.8") if case["id"] == CASE]
    return golden.damaged("base-4.9.8", case["edits"], tmp_path / "store")


def storeio(python: Path, *words: object, cwd: Path) -> Run:
    """Run the command that the wheel installs."""
    return run(python, str(python.parent / "storeio"), *map(str, words), cwd=cwd)


# ---- What is in it


def test_nothing_more_and_nothing_less(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    info = f"storeio-{__version__}.dist-info"
    ours = {path.relative_to(ROOT).as_posix() for top in PACKAGES for path in (ROOT / top).rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name and not name.startswith("storeio/conf/")}
    assert "udfs/StorePushDown.java" in ours and "storeio/py.typed" in ours
    about = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "top_level.txt", "entry_points.txt")}
    assert names == ours | CONF | about | {f"{info}/licenses/docs/LICENSE"}


def test_extras_stay_extras(wheel: Path) -> None:
    extras = {Requirement(line).name for line in requirements(wheel) if "extra ==" in line}
    assert {"pyspark", "delta-spark", "deltalake", "pyarrow", "jupyterlab", "pytest", "mypy"} <= extras
    assert not extras & asked_for(wheel)


# ---- The core alone


def test_every_module_imports_without_extras(core: Path, tmp_path: Path) -> None:
    code = """if True:
        import importlib, pkgutil, storeio
        for module in pkgutil.walk_packages(storeio.__path__, "storeio."):
            if module.name != "storeio.__main__":
                try:
                    importlib.import_module(module.name)
                except ImportError as error:
                    print(module.name, error.name)
    """
    found = run(core, "-c", code, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert {line.split()[1] for line in found.stdout.splitlines()} <= {"pyarrow"}  # of the extra remote
    assert all(line.startswith("storeio.remote.") for line in found.stdout.splitlines()), found.stdout


def test_version(core: Path, tmp_path: Path) -> None:
    found = storeio(core, "--version", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    lines = dict(line.rsplit(maxsplit=1) for line in found.stdout.splitlines() if "not installed" not in line)
    assert lines["storeio"] == __version__
    assert {name: lines[name] for name in ("numpy", "numba", "isal")} == {
        name: metadata.version(name) for name in ("numpy", "numba", "isal")
    }


def test_verbs(core: Path, damaged: Path, tmp_path: Path) -> None:
    found = storeio(core, "check", damaged, "--json", tmp_path / "report.json", cwd=tmp_path)
    assert found.returncode == 4, found.stderr
    assert found.stdout.startswith("DAMAGED: 1 error") and "LOG_TORN_RECORD" in found.stdout
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "damaged"
    found = storeio(core, "rebuild", damaged, "--into", tmp_path / "rebuilt", cwd=tmp_path)
    assert found.returncode == 4, found.stderr  # the log stays damaged
    assert (tmp_path / "rebuilt" / "consumequeue").is_dir()
    found = storeio(core, "salvage", damaged, "--into", tmp_path / "saved", cwd=tmp_path)
    assert found.returncode == 0, found.stderr  # nothing is lost
    assert storeio(core, "check", tmp_path / "saved", "--quiet", cwd=tmp_path).stdout.startswith("SOUND")


def test_jobs_without_spark_are_one_line(core: Path, damaged: Path, tmp_path: Path) -> None:
    found = run(core, "-m", "jobs.audit_store", "--store", str(damaged), "--tables", "tables", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (8, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith("storeio: ") and "storeio[spark]" in line


def test_uris_without_arrow_are_one_line(core: Path, tmp_path: Path) -> None:
    found = storeio(core, "check", "s3://bucket/store", cwd=tmp_path)
    assert found.returncode & 24, found.stdout
    (line,) = found.stderr.splitlines()
    assert "pyarrow" in line or "storeio[remote]" in line


# ---- Types


def mypy(core: Path, place: Path, code: str) -> Run:
    """Run mypy on a program, with the types of what is installed in the environment."""
    (place / "program.py").write_text(code)
    cache = str(core.parent.parent / "mypy")  # numpy's types are read once
    return run(
        Path(sys.executable), "-m", "mypy", "--strict", "--python-executable", str(core), "--cache-dir", cache,
        "program.py", cwd=place,
    )  # fmt: skip


@pytest.mark.long
def test_types(core: Path, tmp_path: Path) -> None:
    """A program that is right passes, and each mistake is seen: what is not typed would be Any, and pass, too."""
    found = mypy(core, tmp_path, TYPED + "".join(f"{line}\n" for line in MISTYPED))
    first = len(TYPED.splitlines()) + 1
    said = dict(errors(found.stdout))
    assert said and min(said) >= first, found.stdout
    for number, (line, wanted) in enumerate(MISTYPED.items(), first):
        assert wanted in said.get(number, ""), (line, found.stdout)


def errors(text: str) -> Iterator[tuple[int, str]]:
    """Yield mypy's errors with the line of the program that they are about."""
    for found in re.finditer(r"^program\.py:(\d+): error: (.*)$", text, re.MULTILINE):
        yield int(found[1]), found[2]


# ---- With extras


def audit_with_spark(python: Path, damaged: Path, place: Path) -> None:
    """Audit a damaged store with Spark in an environment, and look at the tables there."""
    from jobs.resolve_jars import jars_dir

    words = ["--store", str(damaged), "--tables", str(place / "tables"), "--json", str(place / "report.json")]
    quick = {"STOREIO_JARS": str(jars_dir()), "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    found = run(python, "-m", "jobs.audit_store", *words, "--master", "local[2]", cwd=place, **quick)
    assert found.returncode == 4, found.stderr
    assert found.stdout.startswith("DAMAGED: 1 error")
    findings = json.loads((place / "report.json").read_text())["findings"]
    code = f"import deltalake; print(len(deltalake.DeltaTable({str(place / 'tables' / 'findings')!r}).to_pandas()))"
    rows = run(python, "-c", code, cwd=place)
    assert rows.stdout.strip() == str(len(findings)), rows.stderr


@pytest.mark.long
@pytest.mark.spark
def test_an_audit_with_the_extra_spark(wheel: Path, damaged: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", wheel, ["spark"])
    audit_with_spark(python, damaged, tmp_path)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Path]:
    """Yield the interpreter of an environment without packages, which is removed afterwards: it becomes a gigabyte."""
    place = tmp_path / "environment"
    venv.EnvBuilder(with_pip=False, symlinks=True).create(place)
    yield place / "bin" / "python"
    shutil.rmtree(place)


@pytest.mark.long
def test_core_from_the_registry(empty: Path, wheel: Path, damaged: Path, tmp_path: Path) -> None:
    install(empty, str(wheel))
    code = "from importlib import metadata as m; print(*(found.name for found in m.distributions()))"
    installed = run(empty, "-c", code, cwd=tmp_path)
    assert {name.lower() for name in asked_for(wheel)} <= set(installed.stdout.lower().split())
    assert "pyspark" not in installed.stdout
    assert storeio(empty, "check", damaged, "--quiet", cwd=tmp_path).returncode == 4


@pytest.mark.long
def test_everything_from_the_registry(empty: Path, wheel: Path, damaged: Path, tmp_path: Path) -> None:
    install(empty, f"{wheel}[spark,remote,codecs,notebooks]")
    audit_with_spark(empty, damaged, tmp_path)
    found = run(empty, "-c", "import ipykernel, jupyterlab, matplotlib, nbclient, pandas", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
