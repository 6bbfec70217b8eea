"""The stores that the notebooks look at: written by real brokers, some damaged as recorded in ``tests/golden``.

All of it is unpacked into directories that go with the notebook's kernel; the checkout stays as it is.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, Final

TESTS: Final = Path(__file__).resolve().parent.parent / "tests"


def _golden_data() -> ModuleType:
    """Return the tests' module by its file: ``tests`` holds folders named as the packages that they test."""
    spec = importlib.util.spec_from_file_location("golden_data", TESTS / "golden_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_golden: Final = _golden_data()
store: Final = _golden.store  # (name): a sound store, to be read only
copy_of: Final = _golden.copy_of  # (name, target): a copy of it that may be changed
damaged: Final = _golden.damaged  # (name, edits, target): a copy with edits
apply_edits: Final = _golden.apply_edits  # (root, edits): the same in place


def recorded(version: str, case_id: str) -> dict[str, Any]:
    """Return a recorded damage: ``edits`` of ``base-VERSION``, and what the broker of that version then did."""
    found: dict[str, Any] = next(case for case in _golden.cases(f"rows-{version}") if case["id"] == case_id)
    return found


def directory() -> Path:
    """Return a new directory that is removed when the kernel ends."""
    place = Path(tempfile.mkdtemp(prefix="storeio-notebook-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place
