"""The notebooks run, show what a person should see, call public functions only, and are kept without outputs."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nbclient
import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

TOP: Final = Path(__file__).resolve().parent.parent.parent
PLACE: Final = TOP / "notebooks"
NAMES: Final = ("tour", "forensics", "fleet_audit")
SECONDS: Final = 600  # of one cell: the machine may be busy

# What notebooks may import: others' modules, and of ours what is documented. None: whatever its __all__ has.
OTHERS: Final = {"matplotlib.pyplot", "numpy", "pandas", "deltalake", "stores", *sys.stdlib_module_names}
OURS: Final[dict[str, set[str] | None]] = {
    "storeio": None,
    "storeio.inspect": None,
    "jobs": {"audit_store"},
    "jobs.common": {"build_session"},
}
JOBS: Final = {"main"}  # of a job's module


def cells(name: str) -> list[Any]:
    """Return the cells of a notebook."""
    found: list[Any] = nbformat.read(PLACE / f"{name}.ipynb", as_version=nbformat.NO_CONVERT).cells
    return found


def code_of(name: str) -> str:
    """Return the code of a notebook as one text."""
    return "\n".join(cell.source for cell in cells(name) if cell.cell_type == "code")


# ---- As they are kept


def test_all_are_known_and_explained() -> None:
    assert {path.stem for path in PLACE.glob("*.ipynb")} == set(NAMES)
    readme = (PLACE / "README.md").read_text()
    assert all(f"`{name}.ipynb`" in readme for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_outputs_are_stored(name: str) -> None:
    raw = json.loads((PLACE / f"{name}.ipynb").read_text())
    assert (raw["nbformat"], raw["nbformat_minor"]) == (4, 5)
    nbformat.validate(raw)
    assert len({cell["id"] for cell in raw["cells"]}) == len(raw["cells"])
    for cell in raw["cells"]:
        assert not cell["metadata"]
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, cell["id"]


def public_names(module: str) -> set[str]:
    """Return what notebooks may take from one of our modules."""
    known = OURS[module]
    return set(importlib.import_module(module).__all__) if known is None else known


def misuse(code: str) -> Iterator[str]:
    """Yield what in a notebook's code is not public, or does not belong into a notebook."""
    ours: dict[str, set[str]] = {}  # by the name that the notebook gave a module of ours
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"defines {node.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in OURS:
                    ours[alias.asname or alias.name] = public_names(alias.name)
                elif alias.name not in OTHERS:
                    yield f"imports {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                if whole in OURS:
                    ours[alias.asname or alias.name] = public_names(whole)
                elif module == "jobs" and alias.name in public_names("jobs"):
                    ours[alias.asname or alias.name] = JOBS
                elif module not in OTHERS and (module not in OURS or alias.name not in public_names(module)):
                    yield f"imports {whole}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            known = ours.get(node.value.id) if isinstance(node.value, ast.Name) else None
            if node.attr.startswith("_") or (known is not None and node.attr not in known):
                yield f"uses {ast.unparse(node)}"


@pytest.mark.parametrize("name", NAMES)
def test_only_public_names(name: str) -> None:
    assert list(misuse(code_of(name))) == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("from storeio.audit import plan", "imports storeio.audit.plan"),
        ("import storeio.kernels", "imports storeio.kernels"),
        ("import requests", "imports requests"),
        ("import storeio\nstoreio.scan", "uses storeio.scan"),
        ("from storeio import inspect\ninspect.api", "uses inspect.api"),
        ("from jobs import tables", "imports jobs.tables"),
        ("from jobs import audit_store as job\njob.run", "uses job.run"),
        ("store._golden", "uses store._golden"),
        ("def helper(): pass", "defines helper"),
    ],
)
def test_what_is_not_public_is_noticed(code: str, said: str) -> None:
    assert list(misuse(code)) == [said]


# ---- As they run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a function that runs a notebook on this interpreter, in a directory of its own, and returns it."""
    spec, work, temporary = tmp_path / "kernels" / "own", tmp_path / "work", tmp_path / "temporary"
    for place in (spec, work, temporary):
        place.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "own", "language": "python"}))
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))  # nobody's settings, and none left behind
    monkeypatch.delenv("MPLBACKEND", raising=False)
    path = os.pathsep.join(filter(None, [str(PLACE), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(temporary)}

    def executed(name: str) -> Outputs:
        manager = AsyncKernelManager(
            kernel_name="own", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(spec.parent)])
        )
        manager.shutdown_wait_time = SECONDS  # so that it can clear up
        notebook = nbformat.read(PLACE / f"{name}.ipynb", as_version=4)
        client = nbclient.NotebookClient(
            notebook, km=manager, timeout=SECONDS, resources={"metadata": {"path": str(work)}}
        )
        client.execute(env=environment, cleanup_kc=True)
        assert [*work.iterdir(), *temporary.glob("storeio-*")] == []
        return Outputs(notebook)

    yield executed


class Outputs:
    """What a notebook shows."""

    def __init__(self, notebook: Any) -> None:
        self.cells = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}

    def text(self, cell: str) -> str:
        """Return what a cell prints and what it ends with, as plain text."""
        parts = [out.text if out.output_type == "stream" else self._plain(out) for out in self.cells[cell]]
        return "".join(parts)

    @staticmethod
    def _plain(out: Any) -> str:
        return str(out.get("data", {}).get("text/plain", ""))

    def rows(self, cell: str) -> int:
        """Return how many rows the table has that a cell ends with."""
        (html,) = [str(out.data["text/html"]) for out in self.cells[cell] if "text/html" in out.get("data", {})]
        return html.partition("<tbody>")[2].count("<tr>")

    def figures(self) -> list[str]:
        """Return the cells that show a picture."""
        return [name for name, outs in self.cells.items() for out in outs if "image/png" in out.get("data", {})]

    def errors(self) -> str:
        """Return what went to standard error, less what matplotlib says at its first use on a machine."""
        lines = [out.text for outs in self.cells.values() for out in outs if out.get("name") == "stderr"]
        return "".join(line for line in lines if not line.startswith("Matplotlib is building the font cache"))


@pytest.mark.slow
def test_tour(run: Any) -> None:
    shown = run("tour")
    assert shown.errors() == ""
    assert shown.figures() == ["byte-classes", "sizes", "times", "queue-growth"]
    assert "sound - 1657 records in 15 segments" in shown.text("check")
    assert "1657 records, 936870 bytes" in shown.text("records")
    assert shown.rows("files") == 7 and shown.rows("topics") == 8
    fields = shown.text("one-record")
    assert all(name in fields for name in ("magic", "body_crc", "queue_offset", "properties_length", "da a3 20 a7"))
    assert "43 queues; all have as many units as the log has records of them: True" in shown.text("queues")
    assert "74 units, each at a record of the queue: True" in shown.text("units")
    found = re.search(r"(\d+) messages have the key (\S+) of (\d+) ", shown.text("by-key"))
    assert found and found[1] == found[3] and int(found[1]) > 1
    assert shown.rows("by-key") == int(found[1]) <= shown.rows("index")
    assert "logic_timestamp_ms" in shown.text("checkpoint")
    assert "verdict: sound" in shown.text("notes")


@pytest.mark.slow
def test_forensics(run: Any) -> None:
    shown = run("forensics")
    assert shown.errors() == ""
    assert shown.figures() == ["given-up"]
    assert shown.text("find").startswith("DAMAGED: 1 error")
    assert all(word in shown.text("find") for word in ("LOG_TORN_RECORD", "Cause:", "Remedy:"))
    assert shown.rows("around") == 5 and "no magic code" in shown.text("around")
    assert "0b ad be ef" in shown.text("hex")
    assert "queue offset 165: physical offset 262144, 282 bytes" in shown.text("unit")
    assert shown.rows("simulate") == 7
    given_up = [int(line.split()[3]) for line in shown.text("simulate").splitlines() if " starts " in line]
    assert given_up == [153, 153, 0, 0, 0, 0, 0]
    recorded = shown.text("recorded")
    assert "predicted: True" in recorded and "False" not in recorded
    assert "got 696 messages - predicted: 696" in recorded
    assert "cures: True" in shown.text("plan") and shown.rows("plan") == 1
    assert shown.text("apply").startswith("applied - 1 action")
    assert shown.text("prove-check").startswith("before: damaged - after: sound")
    assert shown.text("prove-simulate").startswith("SAFE: every broker line starts")
    proof = shown.text("prove-bytes")
    assert "1 file was changed: commitlog/00000000000000262144" in proof
    assert "positions [4, 5, 6, 7] old 0badbeef new daa320a7" in proof
    assert "equal to the store that the broker wrote: True" in proof
    assert "undone - every name and byte as before: True" in shown.text("undo")
    assert "finds it again: damaged" in shown.text("undo")


@pytest.mark.slow
@pytest.mark.spark
def test_fleet_audit(run: Any) -> None:
    shown = run("fleet_audit")
    assert shown.figures() == ["read", "drift-figure", "history-figure"]
    assert re.findall(r"^exit code (\d+)", shown.text("nights"), re.MULTILINE) == ["0", "4", "4", "4"]
    assert shown.text("nights").count("SOUND:") == 6
    verdicts = [line.split() for line in shown.text("runs").splitlines() if line.startswith("broker-")]
    assert verdicts == [
        ["broker-a", "sound", "sound", "damaged", "damaged"],
        ["broker-b", "sound", "damaged", "sound", "sound"],
        ["broker-c", "sound", "damaged", "damaged", "damaged"],
    ]
    assert shown.rows("drift") == 6 and "-11" in shown.text("drift")
    (cleared,) = [line.split() for line in shown.text("history").splitlines() if "CQ_MISSING" in line]
    assert cleared[-4:] == ["1", "2", "2", "3.0"]
    assert [line.split() for line in shown.text("rates").splitlines()[2:]] == [
        ["1", "0", "0", "0", "0"],
        ["2", "4", "0", "4", "1"],
        ["3", "9", "1", "12", "90"],
        ["4", "0", "0", "12", "90"],
    ]
    assert "LOG_GAP" in next(line for line in shown.text("first").splitlines() if line.startswith("0"))
    assert shown.rows("sql") == shown.rows("first") == 6
    assert shown.rows("place") == 3 and shown.text("place").count("body CRC differs") == 1
