"""Imports flow one way, and modules and functions stay short: read from the sources with ``ast``."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
CODE: Final = ("storeio", "udfs", "jobs")
MODULE_LINES: Final = 300
FUNCTION_LINES: Final = 60

# What each part of storeio may import of storeio, itself aside. From bytes to report, never back.
FORMAT: Final = {"errors", "uris", "paths", "format"}
KERNELS: Final = {"format", "compiled", "crc"}
WALK: Final = FORMAT | {"kernels", "crc", "splits", "window", "walk"}
PURE: Final = WALK | {
    "dispatch",
    "codes",
    "findings",
    "results",
    "checks",
    "recent",
    "safe",
    "shape",
    "simulate",
    "plan",
    "rebuilt",
    "salvaged",
    "verbs",
}
FILES: Final = PURE | {
    "remote",
    "scan",
    "output.targets",
    "reading.nearby",
    "file_sizes",
    "settings",
    "config",
    "index_files",
}
COMMAND: Final = {"commands.console", "commands.options", "commands.outputs", "process", "report"}
LAYERS: Final = {
    "__init__": {
        "apply",
        "audit",
        "compare",
        "inspect",
        "planning",
        "predict",
        "rebuild",
        "salvage",
        "store",
        "verbs",
    },  # types
    "__main__": {"cli", "process"},
    "errors": set[str](),
    "reading": set[str](),
    "output": set[str](),
    "verbs": set[str](),  # imports what is called when it is called
    "paths": {"errors"},
    "uris": {"errors"},
    "remote": {"errors", "uris", "paths"},
    "format": FORMAT,
    "entries": set[str](),
    "compiled": {"entries"},
    "clmul": {"compiled"},
    "crc": {"compiled", "clmul", "errors"},
    "kernels": KERNELS,
    "splits": FORMAT | {"kernels"},
    "window": {"splits"},
    "walk": WALK,
    "dispatch": WALK,
    "codes": set[str](),
    "findings": FORMAT | {"codes"},
    "safe": set[str](),
    "shape": {"errors"},
    "store": PURE | {"scan", "config", "audit"},
    "results": WALK | {"findings"},
    "checks": PURE,
    "simulate": PURE | {"reading.pieces", "reading.many_files"},  # of the latter the table of pieces
    "plan": PURE,
    "predict": FILES | {"reading.around", "reading.many_files", "audit", "output.staging"},
    "report": PURE | {"compare"},  # its results alone
    "file_sizes": FORMAT,
    "reading.holes": set[str](),
    "reading.local_files": {"errors", "reading.holes"},
    "reading.local_listing": {"errors", "paths", "uris"},
    "scan": FORMAT | {"remote", "reading.holes", "reading.local_files", "reading.local_listing"},
    "reading.nearby": {"errors"},
    "settings": FORMAT | {"results"},
    "config": FORMAT | {"results", "safe", "scan", "file_sizes", "settings"},
    "index_files": FORMAT | {"checks", "results", "scan", "config"},
    "reading.many_files": {"paths", "compiled", "clmul", "crc", "kernels"},
    "reading.around": WALK | {"checks"},
    "reading.pieces": WALK | {"dispatch", "reading.many_files", "checks"},
    "audit": FILES | {"reading.around", "turns", "reading.many_files", "reading.pieces"},
    "fingerprints": FORMAT | {"scan", "uris"},
    "incremental": FILES | {"audit", "reading.many_files", "fingerprints", "report"},
    "output.partials": set[str](),
    "output.staging": {"errors", "output.partials"},
    "output.whole_file": {"errors", "output.partials", "output.staging", "output.targets"},
    "output.targets": {"errors", "uris", "paths"},
    "recent": set[str](),
    "turns": {"errors"},
    "output.publishing": {"errors", "uris", "remote", "output.partials", "output.staging", "output.targets"},
    "rebuilt": FORMAT | {"findings", "results"},
    "rebuild": FILES | {"audit", "compiled", "output.staging", "output.publishing", "turns"},  # it loads kernels ahead
    "linked": PURE | {"scan", "remote", "reading.holes", "reading.local_files", "output.staging", "output.targets"},
    "planning": FILES
    | {"audit", "linked", "output.partials", "rebuild", "rebuilt", "salvage", "output.staging", "predict"},
    "salvaged": {"rebuilt", "results"},
    "compare": FILES | {"audit"},
    "salvage": FILES
    | {
        "reading.around",
        "audit",
        "report",
        "rebuild",
        "output.publishing",
        "output.staging",
        "linked",
        "predict",
        "salvaged",
        "turns",
    },
    "replay": FILES | {"salvage", "inspect", "output.staging", "output.whole_file"},
    "apply": PURE | {"process", "reading.holes", "reading.local_files", "report"},
    "inspect": FILES,
    "history": {"errors", "uris", "report", "output.targets"},
    "process": set[str](),
    "commands": set[str](),
    "commands.examples": set[str](),
    "commands.console": FILES | {"audit", "report"},
    "commands.outputs": FILES | {"commands.console", "output.partials", "output.whole_file"},
    "commands.options": PURE
    | {"output.targets", "commands.console", "commands.outputs", "commands.examples", "report"},
    "commands.inspect_options": FILES | {"commands.options", "inspect"},
    "commands.inspect": FILES | COMMAND | {"commands.inspect_options", "inspect"},
    "commands.check": FILES | COMMAND | {"audit", "history", "output.partials", "predict", "output.whole_file"},
    "commands.simulate": FILES | COMMAND | {"predict"},
    "commands.plan": FILES | COMMAND | {"planning", "predict"},
    "commands.apply": PURE | COMMAND | {"apply", "output.targets"},
    "commands.rebuild": FILES | COMMAND | {"audit", "rebuild", "output.staging"},
    "commands.salvage": FILES
    | COMMAND
    | {"audit", "commands.rebuild", "output.partials", "predict", "replay", "salvage"},
    "commands.diff": FILES | COMMAND | {"compare"},
    "cli": {"crc", "results", "safe"} | COMMAND | {"commands.examples"},  # verbs are imported by name
    "conf": set[str](),
}
# Modules of ``storeio/commands`` that are a verb each, and need no word of explanation.
VERBS: Final = {"check", "apply", "rebuild", "diff", "salvage", "simulate", "inspect", "plan"}
NO_FILES: Final = FORMAT | {
    "kernels",
    "splits",
    "window",
    "walk",
    "dispatch",
    "codes",
    "findings",
    "results",
    "checks",
    "report",
    "safe",
    "shape",
}
TOUCHES_FILES: Final = {"os", "io", "mmap", "pathlib", "logging", "shutil", "tempfile", "glob", "subprocess", "socket"}
SPARK: Final = {"pyspark", "delta", "pyarrow", "pandas", "py4j"}
COMPILED_LAYER: Final = {"numpy", "numba", "llvmlite", "isal", "crcmod", "typing", "collections", "__future__"}


def modules(top: str) -> list[Path]:
    """Return the Python files of a package."""
    return sorted(path for path in (ROOT / top).rglob("*.py") if "conf" not in path.relative_to(ROOT).parts)


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@functools.cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the dotted name of everything a module imports, at any depth, names of packages' modules included."""
    names: list[str] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def part_of(path: Path) -> str:
    """Return the part of storeio that a module belongs to."""
    inside = path.relative_to(ROOT / "storeio").with_suffix("")
    return part_named(inside.parts)


def part_named(parts: Sequence[str]) -> str:
    """Return the part of storeio with such a dotted name: a module or a package, of some packages each by itself."""
    return ".".join(parts[: 2 if parts[0] in ("commands", "reading", "output") else 1]).removesuffix(".__init__")


def parts_imported(path: Path) -> set[str]:
    """Return the parts of storeio that a module imports."""
    names = [name.split(".") for name in imports(path)]
    return {part_named(parts[1:]) for parts in names if parts[0] == "storeio" and len(parts) > 1}


@pytest.mark.parametrize("path", modules("storeio"), ids=lambda path: str(path.relative_to(ROOT)))
def test_storeio_imports_downwards(path: Path) -> None:
    part = part_of(path)
    assert part in LAYERS, "a new part needs a row in the table"
    known = parts_imported(path) & LAYERS.keys()  # the rest are names that storeio/__init__ defines
    assert known - LAYERS[part] - {part} == set()


@pytest.mark.parametrize("path", modules("storeio"), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_scan_and_apply_know_files_and_nothing_knows_spark(path: Path) -> None:
    tops = {name.split(".")[0] for name in imports(path)}
    # Where Arrow is there, it reads what is no local path, and writes Parquet.
    assert tops & SPARK <= ({"pyarrow"} if part_of(path) in ("remote", "replay") else set())
    if part_of(path) in NO_FILES:
        assert not tops & TOUCHES_FILES
        calls = [node.func for node in nodes_of(path) if isinstance(node, ast.Call)]
        assert "open" not in {call.id for call in calls if isinstance(call, ast.Name)}


def packages() -> list[Path]:
    """Return where the docstrings of packages are; that of ``storeio`` is for its users, README has its modules."""
    return sorted(
        [*ROOT.glob("storeio/*/**/__init__.py"), *(ROOT / name / "__init__.py" for name in ("jobs", "udfs", "bench"))]
    )


@pytest.mark.parametrize("start", packages(), ids=lambda path: path.parent.name)
def test_packages_say_what_each_module_is_for(start: Path) -> None:
    said = re.findall(r"``(\w+)``", ast.get_docstring(ast.parse(start.read_text())) or "")
    names = {path.stem for path in start.parent.glob("*.py")} | {
        path.parent.name for path in start.parent.glob("*/*.py")
    }
    exempt = {"__init__", "__main__"} | (VERBS if start.parent.name == "commands" else set())
    assert names - exempt - set(said) == set()


@pytest.mark.parametrize("path", modules("storeio/kernels"), ids=lambda path: path.name)
def test_kernels_are_numbers_in_numbers_out(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path)} <= COMPILED_LAYER | {"storeio"}


@pytest.mark.parametrize("path", modules("udfs"), ids=lambda path: path.name)
def test_spark_adapters_know_no_format(path: Path) -> None:
    tops = {name.split(".")[0] for name in imports(path)}
    assert "struct" not in tops
    assert not {part.partition(".")[0] for part in parts_imported(path)} & {"apply", "cli", "commands"}
    called = {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)}
    assert "frombuffer" not in called


def test_apply_is_imported_where_something_is_written() -> None:
    found = {path for top in CODE for path in modules(top) if parts_imported(path) & {"apply", "commands.apply"}}
    outside = {str(path.relative_to(ROOT)) for path in found if part_of_or_top(path) != "apply"}
    # The first for types alone; the command line imports its verbs by name.
    assert outside == {"storeio/__init__.py", "storeio/commands/apply.py", "jobs/apply_repair.py"}


def part_of_or_top(path: Path) -> str:
    """Return the part of storeio, or the package outside it."""
    top = path.relative_to(ROOT).parts[0]
    return part_of(path) if top == "storeio" else top


@pytest.mark.parametrize("top", CODE)
def test_modules_are_short(top: str) -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules(top)}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES} == {}


@pytest.mark.parametrize("top", CODE)
def test_functions_are_short(top: str) -> None:
    long = {}
    for path in modules(top):
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = length
    assert long == {}


def test_tests_lie_in_folders_named_as_what_they_test_and_share_no_tests() -> None:
    """What two of them need is in a module of its own beside the folders."""
    packages = {path.parent.name for path in (ROOT / "storeio").rglob("__init__.py")} | {"udfs", "jobs", "notebooks"}
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path.parent != ROOT / "tests"]
    assert {path.parent.name for path in tests} - packages == {"broker", "cluster", "project"}
    shared = {f"{path}: {name}" for path in tests for name in imports(path) if ".test_" in f".{name}"}
    assert shared == set()
