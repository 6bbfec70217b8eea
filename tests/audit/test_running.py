"""Audits of a store on which a broker runs: the store as it was at one moment, whatever is written meanwhile."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import golden_data
import incrementals
import pytest
from applies import hold

import storeio
from storeio.audit import AuditPlan, log_end, node, running
from storeio.audit.moment import Moment
from storeio.audit.running import has_broker, moment_at
from storeio.audit.store_now import StoreNow
from storeio.config import StoreConfig
from storeio.results import Audit
from storeio.scan import Listing

pytestmark = pytest.mark.share(2)

CHECKPOINT_CODES = {"CHECKPOINT_AHEAD", "CHECKPOINT_BEHIND"}  # the checkpoint is that of the whole store
Row = Mapping[str, str]


def stop_of(row: Row) -> int:
    """Return where a record ends."""
    return int(row["phy_offset"]) + int(row["size"])


def odd(found: Audit) -> list[tuple[str, str, int, str]]:
    """Return what is wrong with a store."""
    serious = (f for f in found.findings if f.severity != "info" and f.code not in CHECKPOINT_CODES)
    return [(f.code, f.path, f.position, f.detail) for f in serious]


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Hold a store's lock as a broker does; the store's name is ``store``."""
    broker: subprocess.Popen[str] = hold(root.parent)
    try:
        yield
    finally:
        broker.communicate()


@pytest.fixture
def then(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that audits a store as it was when its log ended at a place."""

    def look(root: Path, log_stop: int, given: Mapping[str, str] | None = None) -> Audit:
        def moment(listing: Listing, config: StoreConfig, shape: tuple[int, int] | None) -> tuple[Listing, Moment]:
            return moment_at(StoreNow(listing.root, config, shape), listing, log_stop, {})

        monkeypatch.setattr("storeio.audit.plan.moment_of", moment)
        return storeio.check(root, given=given, jobs=1)

    return look


@pytest.mark.share(2)
@pytest.mark.parametrize("name", golden_data.STORES)
def test_at_every_moment_a_sound_store_was_sound(name: str, then: Any) -> None:
    rows = golden_data.dump(name)
    chance = random.Random(name)
    size = int(golden_data.options(name)["clFile"])
    borders = [
        i + 1 for i in range(len(rows) - 1) if stop_of(rows[i]) // size != int(rows[i + 1]["phy_offset"]) // size
    ]
    for count in sorted({1, 2, len(rows), *borders[:2], *chance.sample(range(1, len(rows)), 6)}):
        found = then(golden_data.store(name), stop_of(rows[count - 1]))
        assert odd(found) == [], count
        assert (found.lost, found.failed, found.log.records) == ([], [], count)


def test_a_lock_that_another_process_holds_tells_that_a_broker_runs(tmp_path: Path) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    assert not has_broker(str(root))
    with held(root):
        assert has_broker(str(root))
    assert not has_broker(str(root))
    assert not has_broker(str(tmp_path / "nowhere"))


def test_a_look_at_the_lock_ends_no_lock_that_this_process_holds(tmp_path: Path) -> None:
    """POSIX locks of a process end when it closes the file, whichever of its handles that was."""
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    with (root / "lock").open("r+b") as ours:
        fcntl.lockf(ours, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        assert not has_broker(str(root))
        code = f"from storeio.audit.running import has_broker; raise SystemExit(7 * has_broker({str(root)!r}))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


def test_what_a_broker_is_about_to_write_is_no_damage(tmp_path: Path) -> None:
    """The first half of a record, and units of records that are not to be seen yet."""
    name = "base-5.5.1"
    rows, size = golden_data.dump(name), int(golden_data.options(name)["clFile"])
    root = golden_data.copy_of(name, tmp_path / "store")
    (root / "abort").write_text("1")
    half = rows[-4]
    at = int(half["phy_offset"])
    path = root / "commitlog" / f"{at - at % size:020d}"
    data = path.read_bytes()
    path.write_bytes(data[: at % size + 100].ljust(size, b"\0"))
    assert odd(storeio.check(root, jobs=1))  # of a broker that was killed, it is
    with held(root):
        found = storeio.check(root, jobs=1)
    assert odd(found) == []
    assert found.log.max_physical_offset == at
    assert found.log.records == len(rows) - 4
    (note,) = (f.detail for f in found.findings if f.code == "ABORT_PRESENT")
    assert f"ended at {at}" in note


@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1"])
def test_damage_of_what_was_there_is_found_though_a_broker_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_end, "PATIENCE_SECONDS", 0.1)
    rows, size = golden_data.dump(name), int(golden_data.options(name)["clFile"])
    row = rows[20]
    (index,) = (path.name for path in sorted((golden_data.store(name) / "index").iterdir())[:1])
    queue = f"consumequeue/{row['topic']}/{row['queue_id']}/{0:020d}"
    place = int(rows[5]["phy_offset"])
    edits = [
        ["write", f"commitlog/{place - place % size:020d}", place % size + 92, "ffff"],
        ["zero", queue, 20 * int(row["queue_offset"]), 20],
        ["write", f"index/{index}", 40 + 4 * 7, "7fffffff"],
    ]
    root = golden_data.damaged(name, edits, tmp_path / "store")
    quiet = odd(storeio.check(root, jobs=1))
    with held(root):
        assert odd(storeio.check(root, jobs=1)) == quiet
    assert {code for code, *_ in quiet} >= {"LOG_BODY_CRC", "CQ_UNIT_MISSING", "INDEX_CHAIN"}


def without_last_unit(tmp_path: Path) -> tuple[Path, str, int]:
    """Return a store whose last record has no unit, and the unit's file and position."""
    name = "base-5.3.3"
    last, per_file = golden_data.dump(name)[-1], int(golden_data.options(name)["cqEntries"])
    number = int(last["queue_offset"])
    path = f"consumequeue/{last['topic']}/{last['queue_id']}/{number // per_file * per_file * 20:020d}"
    position = number % per_file * 20
    return golden_data.damaged(name, [["zero", path, position, 20]], tmp_path / "store"), path, position


def test_what_is_never_dispatched_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_end, "PATIENCE_SECONDS", 0.1)
    root, path, position = without_last_unit(tmp_path)
    with held(root):
        found = odd(storeio.check(root, jobs=1))
    assert [(code, file, at) for code, file, at, _ in found] == [("CQ_UNIT_MISSING", path, position)]


def test_what_is_dispatched_a_moment_later_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, path, _ = without_last_unit(tmp_path)
    looks = iter((False, True))

    def dispatch(_: float) -> None:
        if next(looks, None):
            shutil.copyfile(golden_data.store("base-5.3.3") / path, root / path)

    monkeypatch.setattr(log_end.time, "sleep", dispatch)
    with held(root):
        assert odd(storeio.check(root, jobs=1)) == []


@pytest.mark.parametrize("most_seconds", [log_end.MOST_SECONDS, 0.2])
def test_a_broker_is_waited_for_while_it_goes_on_with_its_dispatch(
    most_seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded one takes longer for all of it than for each."""
    name = "base-5.3.3"
    per_file = int(golden_data.options(name)["cqEntries"])
    last = {(row["topic"], row["queue_id"]): int(row["queue_offset"]) for row in golden_data.dump(name)}
    paths = {
        f"consumequeue/{topic}/{queue_id}/{number // per_file * per_file * 20:020d}": number % per_file * 20
        for (topic, queue_id), number in last.items()
    }
    edits = [["zero", path, position, 20] for path, position in paths.items()]
    root, left, clock = golden_data.damaged(name, edits, tmp_path / "store"), list(paths), [0.0]

    def dispatch(_: float) -> None:
        clock[0] += 0.06
        if left and round(clock[0] / 0.06) % 2 == 0:
            path = left.pop()
            shutil.copyfile(golden_data.store(name) / path, root / path)

    monkeypatch.setattr(log_end, "PATIENCE_SECONDS", 0.15)
    monkeypatch.setattr(log_end, "MOST_SECONDS", most_seconds)
    monkeypatch.setattr(log_end.time, "sleep", dispatch)
    monkeypatch.setattr(log_end.time, "monotonic", lambda: clock[0])
    with held(root):
        found = odd(storeio.check(root, jobs=1))
    assert {code for code, *_ in found} == ({"CQ_UNIT_MISSING"} if most_seconds < 1 else set())


@pytest.mark.parametrize("made", [True, False], ids=["made", "damaged"])
def test_a_file_that_is_just_being_made_has_no_length_yet(
    made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "base-5.3.3"
    root = golden_data.copy_of(name, tmp_path / "store")
    last = golden_data.dump(name)[-1]
    files = sorted((root / "consumequeue" / last["topic"] / last["queue_id"]).iterdir())
    size = files[-1].stat().st_size
    new = [files[-1].with_name(f"{int(files[-1].name) + size:020d}"), root / "index" / "99990101000000000"]
    lengths = size, min((root / "index").iterdir()).stat().st_size
    for path in new:
        path.touch()

    def give_lengths(_: float) -> None:
        for path, length in zip(new, lengths if made else (0, 0), strict=True):
            os.truncate(path, length)

    monkeypatch.setattr(running, "MADE_SECONDS", 0.2)
    monkeypatch.setattr(running.time, "sleep", give_lengths)
    with held(root):
        found = odd(storeio.check(root, jobs=1))
    assert {(code, root / path) for code, path, *_ in found} == (set() if made else {("CQ_LENGTH", new[0])})


@pytest.mark.parametrize("damage", ["empty log", "no queue can be read", "hostile topic"])
def test_a_moment_that_cannot_be_had_is_no_error(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_end, "PATIENCE_SECONDS", 0.1)
    name = "base-5.3.3"
    root = golden_data.copy_of(name, tmp_path / "store")
    if damage == "empty log":
        for path in (root / "commitlog").iterdir():
            path.write_bytes(bytes(path.stat().st_size))
    elif damage == "no queue can be read":
        file = next(path for path in (root / "consumequeue").rglob("0*") if path.is_file())
        file.unlink()
        file.symlink_to("/proc/self/mem")
    else:
        last, size = golden_data.dump(name)[-1], int(golden_data.options(name)["clFile"])
        at = int(last["phy_offset"])
        path = root / "commitlog" / f"{at - at % size:020d}"
        data, topic = bytearray(path.read_bytes()), last["topic"].encode()
        where = data.index(topic, at % size)
        data[where : where + len(topic)] = b"../../\0"[: len(topic)].ljust(len(topic), b"x")
        path.write_bytes(data)
    with held(root):
        found = storeio.check(root, jobs=1)
    assert found.exit_code != 0
    assert running.has_broker(str(root)) is False


def test_a_segment_that_retention_takes_meanwhile_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    prepare, first = node.prepare, min((root / "commitlog").iterdir())

    def prepare_and_delete(*given: Any, **named: Any) -> AuditPlan:
        plan = prepare(*given, **named)
        first.unlink(missing_ok=True)
        return plan

    monkeypatch.setattr(node, "prepare", prepare_and_delete)
    with held(root):
        found = storeio.check(root, jobs=1)
    assert (odd(found), found.failed) == ([], [])
    assert found.log.min_physical_offset == int(golden_data.options("base-5.3.3")["clFile"])


def test_what_is_written_into_a_mapped_file_is_seen_by_the_next_incremental_audit(tmp_path: Path) -> None:
    """The file's times do not tell of it: they change when pages are flushed."""
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    place, size = (
        int(golden_data.dump("base-5.3.3")[-2]["phy_offset"]),
        int(golden_data.options("base-5.3.3")["clFile"]),
    )
    incrementals.age(root)
    kept = incrementals.Kept()
    with held(root):
        first = kept.audit(root)
        assert isinstance(first, Audit)
        assert odd(first) == []
        path = root / "commitlog" / f"{place - place % size:020d}"
        written_ns = path.stat().st_mtime_ns
        golden_data.apply_edits(root, [["write", str(path.relative_to(root)), place % size + 92, "ffff"]])
        os.utime(path, ns=(written_ns, written_ns))
        second = kept.audit(root)
    assert isinstance(second, Audit)
    assert "LOG_BODY_CRC" in {code for code, *_ in odd(second)}
    assert second.reading is not None
    assert 0 < second.reading.parts_known < second.reading.parts
