"""What a rebuild learns of a damaged store about its brokers: from where on they indexed tags, and of ext units."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final

import golden_data as golden
import pytest
from golden_data import given_for
from rebuilds import QUEUES, tree

from storeio.audit import prepare
from storeio.rebuild.evidence import tags_from
from storeio.rebuild.node import rebuild

STORES: Final = (*golden.BASES, *golden.RICH)


def learned(root: Path, name: str) -> int | None:
    return tags_from(prepare(str(root), given=given_for(name)))


def damage(path: Path, chance: random.Random) -> None:
    """Flip a bit, zero or overwrite some units, or give the header another count."""
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            data[at] ^= 1 << chance.randrange(8)
        case 1:
            data[36:40] = chance.choice([0, 1, 2, 3, 50, 2**31 - 1, chance.randrange(2500)]).to_bytes(4, "big")
        case 2:
            data[at : at + 200] = bytes(len(data[at : at + 200]))
        case _:
            length = min(20 * chance.choice([1, 2, 40]), len(data) - at)
            data[at : at + length] = chance.randbytes(length)
    path.write_bytes(data)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", STORES)
def test_damage_of_the_index_changes_nothing_of_it(name: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    files = sorted((root / "index").iterdir())
    sound = {path: path.read_bytes() for path in files}
    expected = learned(root, name)
    for seed in range(30):
        chance = random.Random(f"{name} {seed}")
        for _ in range(chance.randrange(1, 4)):
            damage(chance.choice(files), chance)
        assert learned(root, name) == expected, seed
        for path, data in sound.items():
            path.write_bytes(data)


@pytest.mark.parametrize("name", ["rich-5.5.1", "base-5.4.0", "base-5.3.3", "upgraded"])
def test_a_header_that_counts_too_few_does_not_hide_units(name: str, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    expected = learned(root, name)
    for path in (root / "index").iterdir():
        data = path.read_bytes()
        path.write_bytes(data[:36] + (2).to_bytes(4, "big") + data[40:])
    assert learned(root, name) == expected


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("name", ["base-4.9.8", "base-5.5.1"])
def test_an_ordinary_queue_s_files_among_ext_files_are_no_ext_units(name: str, kept: bool, tmp_path: Path) -> None:
    root = golden.copy_of(name, tmp_path / "store")
    queue, there = root / "consumequeue/topic_0/0", root / "consumequeue_ext/topic_0/0"
    shutil.copytree(queue, there)
    if not kept:
        shutil.rmtree(queue)
    result = rebuild(root, tmp_path / "new", given=given_for(name))
    assert tree(tmp_path / "new", *QUEUES) == tree(golden.store(name), *QUEUES)
    assert not any(path.startswith("consumequeue_ext") for path in result.files)


def test_units_that_name_ext_units_tell_of_them_where_no_ext_file_does(tmp_path: Path) -> None:
    name = "ext-5.3.3"
    root = golden.copy_of(name, tmp_path / "store")
    for path in (root / "consumequeue_ext").rglob(f"{0:020d}"):
        path.write_bytes(bytes(path.stat().st_size))
    rebuild(root, tmp_path / "new", given=given_for(name))
    assert tree(tmp_path / "new", *QUEUES) == tree(golden.store(name), *QUEUES)
