"""One number of a queue that is far too great: the audit tells which record's it is, and salvage what it was."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from storeio import audit
from storeio.format import commitlog as log
from storeio.salvage.node import salvage
from tests import golden_data as golden
from tests import salvages
from tests.test_plan_recorded import given_for

BASE = "base-5.3.3"
QUEUE = "topic_1", 0


def places() -> list[int]:
    """Return where the records of the queue lie, by number."""
    rows = [row for row in golden.dump(BASE) if (row["topic"], int(row["queue_id"])) == QUEUE]
    return [int(row["phy_offset"]) for row in sorted(rows, key=lambda row: int(row["queue_offset"]))]


@pytest.mark.parametrize("wild", [2**62 + 17, 2**41, -3])
@pytest.mark.parametrize("number", [0, 1, 2, 60, -2, -1])
def test_the_record_is_named_and_mended(number: int, wild: int, tmp_path: Path) -> None:
    found = places()
    number, place = number % len(found), found[number]
    segment = place - place % 32768
    at = place - segment + log.QUEUE_OFFSET_AT
    edit = ["write", f"commitlog/{segment:020d}", at, struct.pack(">q", wild).hex()]
    root = golden.damaged(BASE, [edit], tmp_path / "store")
    audited = audit.check(root, given=given_for(BASE), jobs=1)
    fields = [f for f in audited.findings if f.code == "LOG_FIELD"]
    assert {f.physical_offset for f in fields} == {place}
    assert wild < 0 or any(f"expected {number}" in f.detail for f in fields)
    assert not [f for f in audited.findings if f.code == "LOG_QUEUE_OFFSET_REPEATED"]
    assert not audited.lost
    result = salvage(root, tmp_path / "new", given=given_for(BASE), jobs=1)
    assert (result.exit_code, result.problems) == (0, [])
    assert salvages.records_of(tmp_path / "new", 32768)[place].raw == salvages.originals_of(BASE)[place].raw
