"""Properties without a property CRC of which one byte is no text any more: index and queue unit tell keys and tags."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import golden_data as golden
import pytest
from salvages import bytes_of, change_byte, changed_in
from sampled import seeds

from storeio.format import commitlog as log
from storeio.format import properties as p
from storeio.salvage.node import salvage

NAME = "rich-4.9.8"
SEGMENT = int(golden.options(NAME)["clFile"])


def damaged(root: Path, chance: random.Random, name: str) -> tuple[dict[int, bytes], int]:
    """Damage a byte of one property of a message, so that its properties are no text; return all records, and where."""
    golden.copy_of(NAME, root)
    records = bytes_of(root, SEGMENT)
    with_it = [
        at
        for at, raw in records.items()
        if (record := log.decode_record(raw)).topic != log.SCHEDULE_TOPIC.encode()
        and not record.sys_flag & log.SYS_TRANSACTION
        and name in p.parse(record.properties)
        and record.properties.isascii()
    ]
    place = chance.choice(with_it)
    raw = records[place]
    properties = log.decode_record(raw).properties
    start, stop = p.value_place(properties, name)
    at = len(raw) - len(properties) + chance.randrange(start, stop)
    change_byte(root, place + at, raw[at] ^ chance.choice((raw[at] | 0x80, chance.randrange(3, 9))), SEGMENT)
    return records, place


@pytest.mark.parametrize("seed", seeds(2, 25))
@pytest.mark.parametrize("name", [p.KEYS, p.UNIQUE_KEY, p.TAGS])
def test_a_key_or_tag_is_restored(name: str, seed: int, tmp_path: Path) -> None:
    records, place = damaged(tmp_path / "store", random.Random(seed), name)
    result = salvage(tmp_path / "store", tmp_path / "new", jobs=1)
    assert not result.lost and not result.dropped
    assert changed_in(tmp_path / "new", records, SEGMENT) == []
    (restored,) = result.restored
    assert restored.physical_offset == place
    assert ("tags code of its unit" if name == p.TAGS else "keys in the index") in restored.evidence


@pytest.mark.parametrize("seed", seeds(2, 10))
@pytest.mark.parametrize(("name", "is_told"), [(p.TAGS, True), (p.KEYS, False)])
def test_without_an_index_tags_alone_are(name: str, is_told: bool, seed: int, tmp_path: Path) -> None:
    records, place = damaged(tmp_path / "store", random.Random(seed), name)
    shutil.rmtree(tmp_path / "store/index")
    salvage(tmp_path / "store", tmp_path / "new", jobs=1)
    changed = changed_in(tmp_path / "new", records, SEGMENT)
    assert changed == ([] if is_told else [place])
