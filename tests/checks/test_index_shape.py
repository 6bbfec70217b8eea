"""How many slots and units index files have is told from the files, damaged ones included."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import golden_data
import numpy as np
import pytest
from golden_data import given_for
from indexes import (
    Bytes,
    Store,
    built,
    store,
)

from storeio import audit
from storeio.apply import apply_plan
from storeio.checks.index_shape import infer_shape
from storeio.format import index
from storeio.planning import plan_store
from storeio.rebuild.node import rebuild

pytestmark = pytest.mark.share(2)


def samples_of(whole: Store) -> list[tuple[str, int, Callable[[int, int], Bytes]]]:
    return [(path, len(data), lambda a, b, data=data: data[a:b]) for path, data in whole.files.items()]  # type: ignore[misc]


@pytest.mark.parametrize("name", golden_data.STORES)
def test_shape_is_inferred(name: str) -> None:
    whole = store(name)
    assert infer_shape(samples_of(whole)) == (whole.slots, whole.units)
    for data in whole.files.values():
        data[:40] = 255
        data[whole.units_at() : whole.units_at() + 40] ^= 3
    assert infer_shape(samples_of(whole)) == (whole.slots, whole.units)


def test_shape_outvotes_a_damaged_file() -> None:
    whole = store("base-5.5.1")
    first, second, third = whole.files
    whole.files[first] = np.frombuffer(random.Random(1).randbytes(len(whole.files[first])), np.uint8)
    whole.files[second] = whole.files[second][:5000]
    assert infer_shape(samples_of(whole)) == (200, 800)
    whole.files[third] = whole.files[third][:0]
    assert infer_shape(samples_of(whole)) != (0, 0)


@pytest.mark.parametrize("more", [20, 100, 16840])
def test_of_two_files_the_full_one_tells(more: int) -> None:
    whole = store("base-5.3.3")
    _, second = whole.files  # the first one is full
    whole.files[second] = np.append(whole.files[second], np.zeros(more, np.uint8))
    assert infer_shape(samples_of(whole)) == (200, 800)
    whole.files[second] = whole.files[second][:10000]
    assert infer_shape(samples_of(whole)) == (200, 800)


def test_a_file_that_is_not_the_last_is_full_and_tells_how_many_units_there_are() -> None:
    """Bytes behind it, and a header of the last one that is damaged, make no room for more."""
    whole = store("base-4.9.8")
    first, second = whole.files
    whole.files[first] = np.append(whole.files[first], np.zeros(40, np.uint8))
    whole.files[second][36:40] = 255
    assert infer_shape(samples_of(whole)) == (200, 800)


@pytest.mark.parametrize("name", ["rich-5.3.3", "ext-5.3.3"])
def test_units_that_begin_elsewhere_are_no_units(name: str) -> None:
    """4096 bytes more leave no number of slots that is theirs."""
    whole = store(name)
    for path, data in whole.files.items():
        longer = np.append(data, np.zeros(4096, np.uint8))
        assert infer_shape([(path, len(longer), lambda a, b, longer=longer: longer[a:b])]) is None  # type: ignore[misc]


@pytest.mark.parametrize("length", [21020, 8211, 2400])
def test_an_only_file_that_was_cut_off_tells_its_slots(length: int) -> None:
    """With these a broker finds its keys: it makes the file longer, and slots begin where they did."""
    whole = store("ext-5.3.3")
    ((path, data),) = whole.files.items()
    whole.files[path] = data[:length]
    count = int(index.decode_header(data[:40].data)["unit_count"])
    assert infer_shape(samples_of(whole)) == (whole.slots, count)
    whole.files[path] = data[:2000]  # no unit is left
    assert infer_shape(samples_of(whole)) is None


@pytest.mark.parametrize("name", golden_data.STORES)
def test_a_hole_does_not_make_another_shape(name: str) -> None:
    """Where it takes all slots, or all units that are looked at, nothing is told rather than another shape."""
    whole = store(name)
    told = 0
    for path, data in whole.files.items():
        for at in range(0, len(data), 4096):
            holed = data.copy()
            holed[at : at + 4096] = 0
            shape = infer_shape([(path, len(data), lambda a, b, holed=holed: holed[a:b])])  # type: ignore[misc]
            assert shape in (None, (whole.slots, whole.units))
            told += shape is not None and holed.any()
    assert told >= 3 * len(whole.files)


def test_a_default_file_that_was_cut_off_before_its_units() -> None:
    head = built([(7919 * i, 100 * i, 5000) for i in range(1, 3000)], 5_000_000, 3000)[0]
    for length in (200_001, 4_000_000, 20_000_040):
        cut_off = np.frombuffer(bytes(head[:length]), np.uint8)
        assert infer_shape([("a", length, lambda a, b, data=cut_off: data[a:b])]) == (5_000_000, 20_000_000)  # type: ignore[misc]


def test_no_index_is_planned_of_a_shape_that_nothing_tells(tmp_path: Path) -> None:
    """With the brokers' default, which the file's length contradicts, no broker would find a key any more."""
    root = golden_data.copy_of("ext-5.3.3", tmp_path / "store")
    (file,) = (root / "index").iterdir()
    whole = file.read_bytes()
    file.write_bytes(bytes(4096) + whole[4096:])
    plan = plan_store(root, tmp_path / "plan.json", broker="5.3.3", jobs=1)
    assert not plan.cures
    assert [action for action in plan.plan.actions if action.path.startswith("index/")] == []
    assert any("give maxHashSlotNum and maxIndexNum" in sentence for sentence in plan.plan.left)
    given = given_for("ext-5.3.3")
    assert plan_store(root, tmp_path / "given.json", broker="5.3.3", given=given, jobs=1).cures


def test_an_index_with_a_hole_is_mended_though_no_setting_is_given(tmp_path: Path) -> None:
    root = golden_data.copy_of("ext-5.3.3", tmp_path / "store")
    (file,) = (root / "index").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:20480] + bytes(4096) + whole[24576:])
    assert plan_store(root, tmp_path / "plan.json", broker="5.3.3", jobs=1).cures
    apply_plan(tmp_path / "plan.json", root)
    assert [path.read_bytes() for path in (root / "index").iterdir()] == [whole]


def test_default_shape_goes_by_length_and_survives_a_cut() -> None:
    def unread(start: int, stop: int) -> Bytes:
        raise AssertionError

    assert infer_shape([("a", 420_000_040, unread)]) == (5_000_000, 20_000_000)
    assert infer_shape([]) is None
    assert infer_shape([("a", 0, lambda a, b: np.zeros(b - a, np.uint8))]) is None
    head = built([(7 * i, 100 * i, 5000) for i in range(1, 60)], 5_000_000, 100)[0]
    cut_off = np.frombuffer(bytes(head), np.uint8)
    assert infer_shape([("a", len(cut_off), lambda a, b: cut_off[a:b])]) == (5_000_000, 100)
    odd = cut_off[:-3]
    assert infer_shape([("a", len(odd), lambda a, b: odd[a:b])]) == (5_000_000, 20_000_000)


@pytest.mark.parametrize("seed", range(6))
def test_shape_of_any_bytes(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        size = chance.choice([0, 1, 39, 40, 80, 84, chance.randrange(20000)])
        data = np.frombuffer(chance.choice([chance.randbytes(size), bytes(size), b"\xff" * size]), np.uint8)
        shape = infer_shape([("a", size, lambda a, b, data=data: data[a:b])])  # type: ignore[misc]
        assert shape is None or index.file_length(*shape) in (size, 420_000_040)


@pytest.mark.parametrize("content", [b"", b"\x01", bytes(40), bytes(42040)])
def test_an_only_file_without_a_unit_is_no_index(content: bytes, tmp_path: Path) -> None:
    """A broker makes such a file longer and finds no key in it."""
    root = golden_data.copy_of("ext-5.3.3", tmp_path / "store")
    (file,) = (root / "index").iterdir()
    whole = file.read_bytes()
    file.write_bytes(content)
    found = audit.check(root, jobs=1)
    assert [(f.code, f.severity, f.count) for f in found.findings if f.severity != "info"] == [
        ("INDEX_MISSING", "warning", struct.unpack_from(">i", whole, 36)[0] - 1)
    ]
    given = given_for("ext-5.3.3")
    assert plan_store(root, tmp_path / "plan.json", broker="5.3.3", given=given, jobs=1).cures
    apply_plan(tmp_path / "plan.json", root)
    assert [path.read_bytes() for path in (root / "index").iterdir()] == [whole]


@pytest.mark.parametrize("given", [{"maxHashSlotNum": "500"}, {"maxIndexNum": "900"}, {"maxIndexNum": "700"}])
def test_one_that_is_given_alone_counts(given: dict[str, str], tmp_path: Path) -> None:
    """A broker that was set otherwise since finds no key in the files that there are; in those that are made, all."""
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    both = {"maxHashSlotNum": "200", "maxIndexNum": "800"} | given
    found = audit.check(root, given=given, jobs=1)
    assert {s.name: s.value for s in found.settings if s.name in both} == both
    assert found.findings == audit.check(root, given=both, jobs=1).findings
    assert found.exit_code == 4
    rebuild(root, tmp_path / "made", given=given, jobs=1)
    rebuild(root, tmp_path / "expected", given=both, jobs=1)
    made, expected = (sorted((tmp_path / name / "index").iterdir()) for name in ("made", "expected"))
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in expected]
    planned = plan_store(root, tmp_path / "plan.json", broker="5.5.1", given=given, jobs=1)
    assert planned.cures
    apply_plan(tmp_path / "plan.json", root)
    assert audit.check(root, given=given, jobs=1).exit_code == 0


def test_one_that_is_given_as_the_files_have_it_changes_nothing() -> None:
    root = golden_data.store("base-5.5.1")
    for given in ({"maxHashSlotNum": "200"}, {"maxIndexNum": "800"}):
        found = audit.check(root, given=given, jobs=1)
        assert (found.exit_code, found.findings) == (0, audit.check(root, jobs=1).findings)
