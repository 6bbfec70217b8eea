"""The files in conf/schedule, as far as this machine has the tools that read them."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "conf" / "schedule"
HOME = "/opt/storeio"
PYTHON = f"{HOME}/.venv/bin/python"
FIELD_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def commands() -> dict[str, list[str]]:
    """Return the words behind the interpreter of every call of a job, by file and number."""
    found = {}
    for path in sorted(FOLDER.glob("*.service")):
        (line,) = [line for line in path.read_text().splitlines() if line.startswith("ExecStart=")]
        found[path.name] = shlex.split(line.partition("=")[2])[1:]
    for number, line in enumerate(cron_jobs()):
        words = shlex.split(line)
        found[f"cron {number}"] = words[next(i for i, word in enumerate(words) if word.endswith("bin/python")) + 1 :]
    for name, words in dag_values().items():
        found[f"dag {name}"] = words[1:]
    return found


def cron_jobs() -> list[str]:
    """Return the lines of the cron file that start something."""
    lines = (FOLDER / "storeio.cron").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#") and not re.match(r"[A-Z]+=", line)]


def dag_values() -> dict[str, list[str]]:
    """Return the commands of the DAG, of its assignments alone: Airflow is not needed for them."""
    tree = ast.parse((FOLDER / "storeio_airflow.py").read_text())
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AugAssign)]
    wanted = [node for node in assigned if "timedelta" not in ast.unparse(node) and "datetime" not in ast.unparse(node)]
    values: dict[str, list[str]] = {}
    exec(compile(ast.Module(wanted, []), "dag", "exec"), values)
    return {name: values[name] for name in ("AUDIT", "MAINTAIN")}


def test_there_are_two_commands_each() -> None:
    assert sorted(words[1] for words in commands().values()) == ["jobs.audit_store"] * 3 + ["jobs.maintain_tables"] * 3


@pytest.mark.parametrize("name", sorted(commands()))
def test_jobs_take_the_arguments(name: str) -> None:
    from jobs import audit_store, maintain_tables
    from jobs.stores import schedule_of

    module, *words = commands()[name][1:]
    if module == "jobs.audit_store":
        args = schedule_of(audit_store.parser().parse_args(words))
        assert args.incremental and args.time_budget == 7200 and args.recheck.denominator == 30
    else:
        parsed: argparse.Namespace = maintain_tables.parser().parse_args(words)
        assert parsed.keep_days > 30  # the rotation must have come round before


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_units_as_systemd_reads_them(tmp_path: Path) -> None:
    """What is verified are copies whose interpreter exists."""
    for path in FOLDER.iterdir():
        if path.suffix in (".service", ".timer"):
            (tmp_path / path.name).write_text(path.read_text().replace(PYTHON, sys.executable))
    units = sorted(map(str, tmp_path.iterdir()))
    assert len(units) == 4
    done = verified(units)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "storeio-audit.timer").write_text("[Timer]\nOnCalendar=at noon\n")
    assert verified(units).stderr  # else it would have looked at nothing


def verified(units: list[str]) -> subprocess.CompletedProcess[str]:
    """Return what systemd says of unit files."""
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_cron_lines() -> None:
    """There is no tool that parses a cron file without installing it: five numbers or stars, a user, no bare %."""
    for line in cron_jobs():
        *fields, user, command = line.split(maxsplit=6)
        for field, (low, high) in zip(fields, FIELD_LIMITS, strict=True):
            assert field == "*" or low <= int(field) <= high
        assert user == "storeio" and "%" not in command
        assert command.startswith(f"cd {HOME} && ")
        assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0


def test_dag_compiles_and_names_what_airflow_has() -> None:
    source = (FOLDER / "storeio_airflow.py").read_text()
    compile(source, "storeio_airflow.py", "exec")
    if importlib.util.find_spec("airflow") is None:
        pytest.skip("apache-airflow is not installed: the DAG was compiled, not loaded")
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(FOLDER), include_examples=False)
    assert bag.import_errors == {}
    assert set(bag.dags) == {"storeio_audit", "storeio_maintain"}
