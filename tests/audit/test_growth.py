"""Work grows as a store does, not as its square: how often something is looked at is counted, not how long it takes."""

from __future__ import annotations

import gc
import random
import shutil
import weakref
from itertools import starmap
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rebuilds import settings_of
from storebuilder import StoreBuilder

import storeio
from storeio import linked
from storeio.apply.session import Patience
from storeio.checks.beside import Beside
from storeio.checks.queue_files import QueueFile
from storeio.format.fastjson import decode
from storeio.planning import plan_store, planner, reasons
from storeio.predict.start import next_starts
from storeio.rebuild.node import rebuild
from storeio.results import Progress
from storeio.simulate import pull, tables, topics
from storeio.simulate.disk import Disk
from storeio.simulate.java import quotient
from storeio.simulate.mapped import Mapped, MappedQueue
from storeio.simulate.rules import LINES, rules_of
from storeio.simulate.units_there import QueueUnits

FILES = 300


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often a queue's file is asked for its name."""
    count, name = [0], QueueFile.__dict__["path"]

    def path(file: QueueFile) -> Any:
        count[0] += 1
        return name.__get__(file)

    monkeypatch.setattr(QueueFile, "path", property(path, name.__set__))
    return count


def test_an_audit_does_not_go_through_all_files_of_a_queue_for_each(tmp_path: Path, asked: list[int]) -> None:
    builder = StoreBuilder(tmp_path / "store", units_per_file=1)
    for _ in range(FILES):
        builder.message("t")
    assert storeio.check(builder.close()).verdict == "sound"
    assert asked[0] < 20 * FILES


def test_a_table_is_read_once_for_all_broker_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = StoreBuilder(tmp_path / "store")
    builder.message("t")
    root = builder.close()
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"once":{}}}')
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"once@g":{0:1}}}')
    asked = [0]

    def counted(*args: Any) -> Any:
        asked[0] += 1
        return decode(*args)

    for module in (tables.j, topics):
        monkeypatch.setattr(module, "decode", counted)
    for version in LINES.values():
        assert storeio.simulate(root, broker=version, given=settings_of(builder.settings)).outcome.outcome == "starts"
    assert asked[0] == 3  # that of topics by those who ask for topics, too


def test_predicted_starts_are_not_all_kept(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "store")
    builder.message("t")
    disks: list[weakref.ref[Disk]] = []

    def left(line: str, found: Any) -> int:
        disks.append(weakref.ref(found.disk))
        gc.collect()
        return sum(disk() is not None for disk in disks)

    assert [*starmap(left, next_starts(builder.close(), settings_of(builder.settings)))] == [1] * len(LINES)


def test_a_plan_makes_no_links_to_a_sound_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = StoreBuilder(tmp_path / "store")
    builder.message("t")
    root, made, link = builder.close(), [0], linked._link

    def counted(place: Path, target: Path) -> None:
        made[0] += 1
        link(place, target)

    monkeypatch.setattr(linked, "_link", counted)
    for is_sound in (True, False):
        if not is_sound:
            shutil.rmtree(root / "consumequeue")
        planned = plan_store(root, tmp_path / "plan.json", given=settings_of(builder.settings), jobs=1).plan
        assert bool(planned.actions) is bool(made[0]) is not is_sound


def test_a_message_that_fills_a_gap_of_its_queue_is_not_read_for_each_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = StoreBuilder(tmp_path / "store")
    for number in (0, 1, 2000, 2001):
        builder.message("t", queue_offset=number)
    root, given = builder.close(), settings_of(builder.settings)
    (built,) = rebuild(root, tmp_path / "new", given=given, parts=("queues",)).queues
    shutil.rmtree(root / "consumequeue")
    (tmp_path / "new" / "consumequeue").rename(root / "consumequeue")
    read, message_at = [], pull.message_at

    def counted(*args: Any) -> Any:
        read.append(args)
        return message_at(*args)

    monkeypatch.setattr(pull, "message_at", counted)

    def looked() -> int:
        read.clear()
        got = storeio.simulate(root, broker="5.5.1", given=given).consumers
        assert got is not None and got.messages == built.stop == 2002
        return len(read)

    assert looked() == 0
    monkeypatch.setattr(QueueUnits, "_spread_good", lambda *_: False)  # as where the message is not known to be good
    assert 0 < looked() < 200


def loaded(names: list[int], size: int) -> MappedQueue:
    """Return a directory of files with these names, as a start loads them."""
    entries = [SimpleNamespace(name=str(name), is_dir=False, size=size) for name in names]
    disk: Any = SimpleNamespace(entries=lambda _: entries, delete=lambda _: None)
    queue = MappedQueue(disk, "consumequeue/t/0", size)
    queue.load(rules_of("5.5.1"))
    return queue


def obvious(files: list[Mapped], place: int) -> Mapped | None:
    """Return the file of a place as a broker finds it: the one where it should be, else the first that holds it."""
    if not files or not files[0].base <= place < files[-1].stop:
        return None
    holding = [file for file in files if file.base <= place < file.stop]
    at = quotient(place, 10) - quotient(files[0].base, 10)
    expected = files[at] if 0 <= at < len(files) else None
    return next((file for file in holding if file is expected), holding[0] if holding else None)


@given(
    st.lists(st.integers(-50, 50) | st.integers(2**63 - 30, 2**63 - 1), min_size=1, max_size=12),
    st.booleans(), st.integers(-60, 60) | st.integers(2**63 - 40, 2**63 - 1), st.integers(-60, 60),
)  # fmt: skip
def test_a_place_is_found_among_files_of_any_names(names: list[int], ordered: bool, place: int, end: int) -> None:
    queue = loaded(sorted(names) if ordered else names, 10)
    for _ in range(2):
        assert queue.find(place) is obvious(queue.files, place)
        assert queue.base_behind(place) == min((f.base for f in queue.files if f.base > place), default=None)
        left = [f.base for f in queue.files if f.stop <= end or end >= f.base]
        queue.truncate(end)
        assert [f.base for f in queue.files] == left


def test_places_between_thousands_of_files_are_bisected(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = loaded([20 * number for number in range(FILES)], 10)
    count, stop = [0], Mapped.__dict__["stop"]

    def counted(file: Mapped) -> Any:
        count[0] += 1
        return stop.__get__(file)

    monkeypatch.setattr(Mapped, "stop", property(counted))
    assert [queue.find(20 * number + 15) for number in range(FILES)] == [None] * FILES
    assert count[0] < 20 * FILES


def test_the_bytes_of_all_actions_are_not_added_up_after_each() -> None:
    asked = [0]

    class Counted:
        @property
        def length(self) -> int:
            asked[0] += 1
            return 7

    told: list[Progress] = []
    patience, actions = Patience(told.append), [Counted() for _ in range(FILES)]
    patience.expect(actions)  # type: ignore[arg-type]
    for number in range(FILES):
        patience.done(0, number + 1, "writing")
    for number in reversed(range(FILES)):
        patience.done(number, FILES, "taking back")
    steps = [7 * (number + 1) for number in range(FILES)]
    assert [(progress.done_bytes, progress.total_bytes) for progress in told] == [(n, 7 * FILES) for n in steps * 2]
    assert asked[0] == FILES


def test_units_beside_those_of_other_numbers_are_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, chance = StoreBuilder(tmp_path / "store", segment_bytes=1 << 20), random.Random(1)
    for _ in range(FILES):
        builder.message("t", queue_offset=chance.randrange(1 << 10))
    looked, look_up = [0], Beside._looked_up

    def counted(self: Beside, number: int) -> Any:
        looked[0] += 1
        return look_up(self, number)

    monkeypatch.setattr(Beside, "_looked_up", counted)
    found = storeio.check(builder.close())
    shifted = sum(finding.count for finding in found.findings if finding.code == "CQ_SHIFTED")
    assert shifted > 100 and looked[0] < 2 * FILES


def test_a_plan_does_not_go_through_all_findings_for_each_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, queues = StoreBuilder(tmp_path / "store"), 60
    for number in range(queues):
        builder.message("t", number)
    root = builder.close()
    shutil.rmtree(root / "consumequeue")
    looked = [0]

    def counted(module: ModuleType, name: str) -> None:
        look = getattr(module, name)

        def looking(*args: Any) -> Any:
            looked[0] += max(len(each) for each in args if isinstance(each, list))
            return look(*args)

        monkeypatch.setattr(module, name, looking)

    counted(reasons, "disowned")
    counted(reasons, "of_queue")
    counted(planner, "into_damage")
    planned = plan_store(root, tmp_path / "plan.json", given=settings_of(builder.settings), jobs=1)
    assert len(planned.plan.actions) >= 2 * queues and planned.cures
    assert queues < looked[0] < 20 * queues
