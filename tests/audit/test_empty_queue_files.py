"""Files of zeros behind a queue's last unit: harmless, until a recovery finds its end in one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import builts
import golden_data as golden
import pytest
from golden_data import given_for
from rebuilds import settings_of

from storeio import audit
from storeio.apply import apply_plan
from storeio.planning import plan_store
from storeio.predict.start import simulate

FILE_BYTES: Final = 1000  # 50 units
VERSIONS: Final = ("4.9.8", "5.3.3", "5.5.1")


def codes_of(root: Path, given: dict[str, str]) -> set[tuple[str, str]]:
    """Return what is found worth a warning, and where."""
    found = audit.check(root, given=given, jobs=1).findings
    return {(finding.code, finding.path) for finding in found if finding.severity != "info"}


def assert_moved_aside(root: Path, given: dict[str, str], place: Path, version: str) -> None:
    """A plan moves files aside, nothing else, and the store is sound then."""
    planned = plan_store(root, place / "plan.json", broker=version, given=given, jobs=1)
    assert planned.cures
    assert {(action.kind, action.risk) for action in planned.plan.actions} == {("move", "derived")}
    assert apply_plan(place / "plan.json", root).exit_code == 1
    assert codes_of(root, given) == set()
    assert not simulate(root, broker=version, given=given).harms


@pytest.mark.parametrize("gap", [0, 1])
@pytest.mark.parametrize(("messages", "files"), [(30, 1), (30, 2), (30, 3), (100, 1), (100, 2), (100, 4), (130, 4)])
def test_what_harms_is_found_and_moved_aside(messages: int, files: int, gap: int, tmp_path: Path) -> None:
    store = builts.built(tmp_path, builts.messages(*[0] * messages))
    given = settings_of(store.builder.settings)
    first = -(-messages // 50) + gap
    empty = [f"consumequeue/T/0/{(first + i) * FILE_BYTES:020d}" for i in range(files)]
    for path in empty:
        (store.root / path).write_bytes(bytes(FILE_BYTES))
    harm = [simulate(store.root, broker=version, given=given).harms for version in VERSIONS]
    assert len(set(harm)) == 1
    assert codes_of(store.root, given) == ({("CQ_UNWRITTEN", path) for path in empty} if harm[0] else set())
    if harm[0]:
        assert_moved_aside(store.root, given, tmp_path, "5.3.3")


@pytest.mark.parametrize("files", [2, 3])
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_batch_queues_behind_three_files_of_zeros_are_not_read(version: str, files: int, tmp_path: Path) -> None:
    """Brokers 5.3.3 and 5.5.1 deliver none of their messages then, and number new ones from 0 on."""
    name, size = f"rich-{version}", 46 * 300_000
    empty = [f"batchconsumequeue/bcq_a/0/{(1 + i) * size:020d}" for i in range(files)]
    root = golden.damaged(name, [["create", path, size] for path in empty], tmp_path / "store")
    given = given_for(name)
    found = simulate(root, broker=version, given=given)
    assert found.consumers is not None
    messages = [row for row in golden.dump(name) if (row["topic"], row["queue_id"]) == ("bcq_a", "0")]
    assert found.consumers.missed == (len(messages) if files == 3 else 0)
    assert codes_of(root, given) == ({("BCQ_UNWRITTEN", path) for path in empty} if files == 3 else set())
    if files == 3:
        assert_moved_aside(root, given, tmp_path, version)
