"""A rebuild of a log that is not laid out as a log is doubtful, as an audit says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import golden_data
import pytest

import storeio
from storeio.report.rebuilding import rebuilt_object, render_rebuilt

pytestmark = pytest.mark.share(1)


def segment(root: Path, number: int) -> Path:
    return sorted((root / "commitlog").iterdir())[number]


def without_log(root: Path) -> None:
    shutil.rmtree(root / "commitlog")


def leading_nowhere(root: Path) -> None:
    without_log(root)
    (root / "commitlog").symlink_to("/nowhere/at/all")


def segment_nowhere(root: Path) -> None:
    segment(root, 3).unlink()
    (root / "commitlog" / f"{3 * 32768:020d}").symlink_to("/nowhere/at/all")


LAYOUTS: list[tuple[Callable[[Path], object], str]] = [
    (without_log, "LOG_MISSING"),
    (leading_nowhere, "LOG_MISSING"),
    (segment_nowhere, "LOG_GAP"),
    (lambda root: segment(root, -1).write_bytes(b""), "LOG_LENGTH"),
    (lambda root: (root / "commitlog" / "x").touch(), "STRAY_FILE"),
    (lambda root: (root / "commitlog" / "x").mkdir(), "STRAY_DIRECTORY"),
]


@pytest.mark.parametrize(("edit", "code"), LAYOUTS)
def test_a_rebuild_says_what_is_wrong_with_the_log_as_an_audit_does(
    edit: Callable[[Path], object], code: str, tmp_path: Path
) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    edit(root)
    made = storeio.rebuild(root, tmp_path / "out", jobs=1)
    known = {(f.code, f.path, f.position, f.detail) for f in storeio.check(root, jobs=1).findings}
    assert code in {f.code for f in made.log}
    assert {(f.code, f.path, f.position, f.detail) for f in made.log} <= known
    assert (made.exit_code, rebuilt_object(made)["verdict"]) == (4, "doubtful")
    assert " mv " not in render_rebuilt(made)


def test_names_of_other_directories_do_not_make_a_rebuild_doubtful(tmp_path: Path) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    (root / "consumequeue" / "topic_0" / "0" / "x").touch()
    (root / "commitlog.old").mkdir()
    made = storeio.rebuild(root, tmp_path / "out", jobs=1)
    assert (made.exit_code, made.log) == (0, [])
    assert " mv " in render_rebuilt(made)
