"""The seconds of an index file's first unit count from the end of the file before it, which may be gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from storebuilder import StoreBuilder

from storeio import audit


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(Path.unlink, id="gone"),
        pytest.param(lambda path: path.write_bytes(bytes(path.stat().st_size)), id="zeros"),
        pytest.param(lambda path: os.truncate(path, 0), id="empty"),
    ],
)
def test_a_lost_file_speaks_against_no_other(damage: Callable[[Path], None], number: int, tmp_path: Path) -> None:
    builder = StoreBuilder(
        tmp_path / "s", step_ms=1500, segment_bytes=16384, units_per_file=50, index_slots=50, index_units=40
    )
    for i in range(150):
        builder.message("T", 0, b"x" * 100, keys=f"k{i}")
    builder.close()
    assert audit.check(tmp_path / "s", jobs=1).exit_code == 0
    files = sorted((tmp_path / "s/index").iterdir())
    damage(files[number])
    found = audit.check(tmp_path / "s", jobs=1).findings
    codes = {finding.code for finding in found if finding.severity != "info"}
    assert "INDEX_UNIT_MISSING" in codes
    assert not codes & {"INDEX_UNIT_WRONG", "LOG_INDEX_DISAGREES"}
