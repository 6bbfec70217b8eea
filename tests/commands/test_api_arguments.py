"""Numbers and names that functions of the library do not take: an error of the library, and nothing done."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest

import storeio
from storeio.errors import StoreError, UnreadableError, UsageError
from storeio.predict.retention import forecast_retention
from storeio.report.simulation import warning_sentence
from storeio.salvage.chosen import Choice
from storeio.store import MOST_MISSING_BYTES

ROOT = "base-5.3.3"

Call = Callable[[Path, Path], Any]


@pytest.mark.parametrize(
    "call",
    [
        lambda root, _: storeio.check(root, jobs=0),
        lambda root, _: storeio.check(root, jobs=-3),
        lambda root, _: storeio.check(root, split_bytes=0),
        lambda root, new: storeio.rebuild(root, new, jobs=-1),
        lambda root, new: storeio.salvage(root, new, jobs=0),
        lambda root, new: storeio.salvage(root, new, donors=[root]),
        lambda root, new: storeio.salvage(root, new, losses="all"),
        lambda root, new: storeio.plan(root, new, donors=[root], goal="salvage", allow_log=True),
        lambda root, new: storeio.plan(root, new, goal="everything"),
        lambda root, _: storeio.diff(root, root),
        lambda root, _: storeio.simulate(root, heap_bytes=0),
        lambda root, _: storeio.simulate(root, heap_bytes=2**63),
        lambda root, _: forecast_retention(root, heap_bytes=2**63),
        lambda root, _: storeio.open_store(root).units("topic_0", 0, kind="queue"),
        lambda root, _: storeio.plan(f"{root}\0"),
        lambda root, _: storeio.undo(f"{root}\0"),
        lambda root, new: storeio.rebuild(root, f"{new}\0"),
        lambda root, _: storeio.inspect.units(root, limit=-1),
        lambda root, _: storeio.inspect.index_entries(root, limit=-1),
        lambda root, _: storeio.inspect.units(root, queue_offset=(5, 2)),
        lambda root, _: storeio.inspect.body(root, next(storeio.inspect.records(root)), -1),
    ],
)
def test_refused(call: Call, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        call(golden.store(ROOT), tmp_path / "new")
    assert isinstance(told.value, StoreError)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_chosen_by_numbers_below_zero(tmp_path: Path) -> None:
    choice = Choice(frozenset({("topic_0", None)}), queue_offsets=(-5, -3))
    found = storeio.salvage(golden.store(ROOT), tmp_path / "new", choice=choice)
    assert sum(queue.in_log for queue in storeio.check(tmp_path / "new").queues) == 0
    assert found.exit_code == 0


def test_all_that_the_package_names_is_there_at_once() -> None:
    words = "import storeio; print([name for name in storeio.__all__ if getattr(storeio, name, None) is None])"
    ran = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("name", ["plan", "simulate", "rebuild", "salvage", "apply", "diff", "check", "undo"])
def test_a_verb_says_what_it_takes(name: str) -> None:
    names = list(inspect.signature(getattr(storeio, name)).parameters)
    assert "arguments" not in names and len(names) > 1


def test_settings_need_not_be_texts() -> None:
    given = {"enableMultiDispatch": True, "mappedFileSizeCommitLog": 32768, "messageDelayLevel": "106751991168d 1s"}
    found = storeio.check(golden.store(ROOT), given=given)
    assert {s.value for s in found.settings if s.name in given} >= {"true", "32768"}
    assert found.exit_code == 0


def test_one_donor_need_not_stand_in_a_list(tmp_path: Path) -> None:
    root = golden.damaged(ROOT, [["zero", "commitlog/00000000000000000000", 0, 4096]], tmp_path / "store")
    saved = storeio.salvage(root, tmp_path / "new", donors=str(golden.store(ROOT)), given=golden.given_for(ROOT))
    assert (saved.lost_count, saved.exit_code) == (0, 0)


def test_of_a_version_that_is_not_known_it_is_said() -> None:
    newer = storeio.simulate(golden.store(ROOT), broker="5.09.01")
    assert newer.outcome.broker == "5.9.1"
    assert "broker 5.9.1 (not known yet, by the rules of 5.5.1) starts" in warning_sentence(newer)
    assert "not known" not in warning_sentence(storeio.simulate(golden.store(ROOT), broker="5.5.1"))


def test_a_stray_name_far_away_allocates_nothing(tmp_path: Path) -> None:
    root = golden.copy_of(ROOT, tmp_path / "store")
    store = storeio.open_store(root)
    assert len(store.units("topic_0", 0))
    first = sorted((root / "consumequeue/topic_0/0").iterdir())[0]
    (first.parent / f"{MOST_MISSING_BYTES * 20:020d}").write_bytes(first.read_bytes())
    with pytest.raises(UnreadableError, match="consumequeue/topic_0/0: its files hold"):
        storeio.open_store(root).units("topic_0", 0)
