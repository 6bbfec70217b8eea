"""Incremental audits say exactly what full ones say, whatever changed in between."""

from __future__ import annotations

import math
import random
import shutil
from fractions import Fraction
from pathlib import Path

import golden_data
import pytest
from damage import mutate
from implied import Settings
from incrementals import SPLIT_BYTES, Kept, age, full, short_youth, timeless
from sampled import sampled, seeds
from storebuilder import StoreBuilder

from storeio import audit, fingerprints
from storeio.results import Audit, Unfinished

pytestmark = pytest.mark.share(2)

__all__ = ["short_youth"]
KINDS = ("plain", "ext", "batch", "light")


def grown(root: Path, seed: int, messages: int, kind: str = "plain") -> Path:
    """Return a store of a broker that got so many messages: with more of them, the same store some time later.

    Files that would not have changed are not written again.
    """
    rng = random.Random(seed)
    settings = Settings(
        segment_bytes=32768, ext=kind == "ext", multi_dispatch=kind == "light",
        batch_topics=frozenset({"topic-1"} if kind == "batch" else ()),
    )  # fmt: skip
    fresh = root.with_name(root.name + ".fresh")
    builder = StoreBuilder(fresh, settings=settings)
    for number in range(messages):
        topic = f"topic-{rng.randrange(3)}"
        inner = rng.randrange(1, 4) if topic in settings.batch_topics else None
        light = ("%LMQ%a",) if kind == "light" and rng.random() < 0.4 else ()
        builder.message(
            topic, 0 if inner else rng.randrange(2), rng.randbytes(rng.randrange(10, 900)), tags=rng.choice("abc"),
            keys=f"key-{number}", inner=inner, lmq=light,
        )  # fmt: skip
    builder.close()
    root.mkdir(exist_ok=True)
    for path in sorted(p for p in fresh.rglob("*") if p.is_file()):
        target = root / path.relative_to(fresh)
        data = path.read_bytes()
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    shutil.rmtree(fresh)
    return root


def assert_same(kept: Kept, root: Path, **options: Fraction) -> Audit:
    """Audit both ways; they agree in everything but times."""
    age(root)
    expected = full(root)
    found = kept.audit(root, **options)  # type: ignore[arg-type]
    assert isinstance(found, Audit)
    assert timeless(found) == expected
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_growing_store(kind: str, tmp_path: Path) -> None:
    kept, root = Kept(), tmp_path / "store"
    rng = random.Random(kind)
    messages = 40
    for _ in range(4):
        messages += rng.randrange(1, 80)
        grown(root, 1, messages, kind)
        assert_same(kept, root)
        again = assert_same(kept, root).reading
        assert again is not None and again.parts_known == again.parts
    last = assert_same(kept, grown(root, 1, messages + 1, kind)).reading
    assert last is not None and len(list((root / "commitlog").iterdir())) > 2
    # What lies behind is not looked at again: only splits of the segment, or two, that one message is written to, and
    # files that it makes grow: its queue, a light queue, an ext file, the index.
    assert last.parts - last.parts_known <= 2 * 32768 // SPLIT_BYTES + 4


CHANGED = ("base-5.3.3", "ext-5.5.1", "rich-4.9.8", "rich-5.5.1", "upgraded")


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("name", sampled(CHANGED, ["base-5.3.3", "rich-5.5.1", "upgraded"]))
def test_brokers_stores_with_random_changes(name: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{name}{seed}")
    kept, root = Kept(), golden_data.copy_of(name, tmp_path / "store")
    assert_same(kept, root)
    for _ in range(3):
        files = sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file())
        for _ in range(rng.choice((1, 1, 3))):
            mutate(rng, root, files)
        assert_same(kept, root)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_histories(seed: int, tmp_path: Path) -> None:
    """A store grows, loses its oldest files, and is damaged and healed in between."""
    rng = random.Random(seed)
    kept, root = Kept(), tmp_path / "store"
    kind = KINDS[seed % len(KINDS)]
    messages = rng.randrange(30, 90)
    grown(root, seed, messages, kind)
    for _ in range(5):
        step = rng.choice(("grow", "grow", "damage", "heal", "expire", "queue", "touch", "nothing"))
        files = sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file())
        if step in ("grow", "heal"):
            messages += rng.randrange(1, 50) if step == "grow" else 0
            grown(root, seed, messages, kind)
        elif step == "damage":
            mutate(rng, root, files)
        elif step == "queue":
            mutate(rng, root, [p for p in files if "consumequeue" in p.parts[0]] or files)
        elif step == "expire":
            for part in ("commitlog", "index"):
                old = sorted((root / part).iterdir())[:-1]
                for path in old[: rng.randrange(3)]:
                    path.unlink()
        elif step == "touch":
            (root / rng.choice(files)).touch()
        assert_same(kept, root, recheck=Fraction(rng.choice(("0", "1/5"))))


def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fingerprints tell sizes alone, so that every change that keeps the size is hidden."""
    monkeypatch.setattr(fingerprints, "identity", lambda status: f"{status.st_size}")


@pytest.mark.parametrize("place", [2000, 5000, 9000])
def test_index_units_between_splits(place: int, tmp_path: Path) -> None:
    kept, root = Kept(), golden_data.copy_of("base-5.5.1", tmp_path / "store")
    path = next(p for p in sorted(root.rglob("index/*")))
    golden_data.apply_edits(root, [["write", str(path.relative_to(root)), place, "07" * 4000]])
    first = assert_same(kept, root)
    assert "INDEX_UNIT_WRONG" in {f.code for f in first.findings}
    assert timeless(kept.audit(root)) == timeless(first)
    assert kept.ranks == []  # all of it was kept
    golden_data.apply_edits(root, [["write", str(path.relative_to(root)), place + 4000, "0707"]])
    assert_same(kept, root)


def test_missing_index_units_are_told_of_the_file_that_is_there_now(tmp_path: Path) -> None:
    """Splits that no index file has units of name the file where these should be."""
    kept, root = Kept(), grown(tmp_path / "store", 7, 300)
    path, later, *_ = sorted((root / "index").iterdir())
    later.unlink()
    first = assert_same(kept, root)
    assert {f.path for f in first.findings if f.code == "INDEX_UNIT_MISSING"} == {f"index/{path.name}"}
    path.rename(path.with_name(str(int(path.name) + 1)))
    assert_same(kept, root)


@pytest.mark.parametrize("share", ["1/3", "1/10"])
def test_hidden_changes_are_found_within_the_rotation(
    share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden(monkeypatch)
    rng = random.Random(share)
    kept, root = Kept(), grown(tmp_path / "store", 2, 150)
    assert_same(kept, root)
    for path in rng.sample(sorted(p for p in root.rglob("*") if p.is_file()), 6):
        data = bytearray(path.read_bytes())
        for _ in range(3):
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    age(root)
    runs = math.ceil(1 / Fraction(share))
    for _ in range(runs):
        found = kept.audit(root, recheck=Fraction(share))
    # One round has looked at all of it; where that told of a hidden change, what rests on it was looked at, too.
    assert isinstance(found, Audit) and timeless(found) == full(root)


def test_changed_byte_in_an_old_segment_is_found_within_the_rotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden(monkeypatch)
    kept, root = Kept(), grown(tmp_path / "store", 3, 150)
    assert assert_same(kept, root).verdict == "sound"
    segment = sorted((root / "commitlog").iterdir())[1]
    data = bytearray(segment.read_bytes())
    data[300] ^= 1
    segment.write_bytes(data)
    age(root)
    verdicts = [kept.audit(root, recheck=Fraction(1, 10)).verdict for _ in range(10)]
    assert verdicts[0] == "sound" and verdicts[-1] == "damaged"
    assert timeless(kept.audit(root)) == full(root)


def test_changed_byte_in_a_new_segment_is_found_at_once(tmp_path: Path) -> None:
    kept, root = Kept(), grown(tmp_path / "store", 3, 100)
    assert_same(kept, root)
    before = set((root / "commitlog").iterdir())
    grown(root, 3, 160)
    segment = sorted(set((root / "commitlog").iterdir()) - before)[0]
    data = bytearray(segment.read_bytes())
    data[300] ^= 1
    segment.write_bytes(data)
    found = assert_same(kept, root)
    assert segment.name in {
        finding.path.rpartition("/")[2] for finding in found.findings if finding.severity == "error"
    }


def test_unchanged_store_is_hardly_read(tmp_path: Path) -> None:
    kept, root = Kept(), grown(tmp_path / "store", 4, 600)
    first = assert_same(kept, root).reading
    second = assert_same(kept, root).reading
    assert first is not None and second is not None
    size = sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
    assert first.bytes_read >= sum(p.stat().st_size for p in (root / "commitlog").iterdir())
    assert second.parts_known == second.parts and second.bytes_read < 0.05 * size


def test_every_byte_is_read_again_within_the_rotation(tmp_path: Path) -> None:
    kept, root = Kept(), grown(tmp_path / "store", 4, 300)
    assert_same(kept, root)
    looked: dict[object, int] = dict.fromkeys(kept.verdicts(), 0)
    for _ in range(12):
        before = len(kept.rows)
        kept.audit(root, recheck=Fraction(1, 12))
        for row in kept.rows[before:]:
            looked[row["kind"], row["path"], row["start"], row["stop"]] += 1
    assert set(looked.values()) <= {1, 2}  # none was left out, and none came thrice


@pytest.mark.parametrize("is_set_back", [False, True])
def test_a_file_written_a_moment_ago_is_not_trusted(
    is_set_back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, root = Kept(), grown(tmp_path / "store", 5, 30)
    if is_set_back:
        age(root)
    monkeypatch.setattr(fingerprints, "YOUNG_NS", 10**12)  # its files are a moment old, whatever this test takes
    kept.audit(root)
    reading = kept.audit(root).reading
    assert reading is not None and reading.parts_known == 0


def test_time_runs_out_and_the_next_run_goes_on(tmp_path: Path) -> None:
    kept, root = Kept(), grown(tmp_path / "store", 6, 200)
    age(root)
    left = []
    for _ in range(40):
        found = kept.audit(root, recheck=Fraction(1, 2), stop=lambda looked: looked >= 4)
        assert kept.ranks == sorted(kept.ranks)
        if isinstance(found, Audit):
            break
        assert found.verdict == "incomplete" and found.exit_code == 8
        left.append(found.reading.left_bytes)
    assert left == sorted(left, reverse=True) and len(set(left)) == len(left) > 2
    assert timeless(found) == full(root)


def test_time_runs_out_behind_damage(tmp_path: Path) -> None:
    kept, root = Kept(), grown(tmp_path / "store", 6, 200)
    segment = sorted((root / "commitlog").iterdir())[0]
    data = bytearray(segment.read_bytes())
    data[300] ^= 1
    segment.write_bytes(data)
    (root / "commitlog" / "stray").write_bytes(b"x")
    age(root)
    files = len(audit.file_tasks(audit.prepare(str(root))))
    found = kept.audit(root, stop=lambda looked: looked >= files + 4)
    assert isinstance(found, Unfinished)
    assert (found.verdict, found.exit_code) == ("damaged", 12)
    assert {f.code for f in found.findings} <= {f["code"] for f in full(root)["findings"]}
    assert found.reading.left


def test_rotation_that_had_no_time_is_said(tmp_path: Path) -> None:
    kept, root = Kept(), grown(tmp_path / "store", 6, 200)
    assert_same(kept, root)
    found = kept.audit(root, recheck=Fraction(1, 2), stop=lambda looked: looked >= 3)
    assert isinstance(found, Audit) and timeless(found) == full(root)
    assert found.reading is not None and found.reading.due_bytes > 0 and found.reading.parts_rechecked == 3


def test_what_points_into_other_segments_is_not_looked_at_again(tmp_path: Path) -> None:
    """Units that moved to other numbers: a split asks the records that they point at, wherever these lie."""
    kept, root = Kept(), golden_data.copy_of("base-5.3.3", tmp_path / "store")
    files = root / "consumequeue/topic_0/1"
    (files / f"{0:020d}").rename(files / f"{20:020d}")
    age(root)
    assert kept.audit(root, split_bytes=32768).findings
    again = kept.audit(root, split_bytes=32768).reading
    assert again is not None and again.parts_known == again.parts
