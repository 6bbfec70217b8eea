"""Properties without a property CRC of which one byte is no text any more: index and queue unit tell keys and tags.

The properties of the records around tell others.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import golden_data as golden
import pytest
from salvages import bytes_of, change_byte, changed_in
from sampled import seeds
from storebuilder import StoreBuilder

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


COMMON = b"CLUSTER\1DefaultCluster\2TRACE_ON\1true\2note\1%d and more\2"


def with_common_properties(root: Path, chance: random.Random) -> tuple[Path, dict[int, bytes]]:
    """Make a store whose messages have the same properties, but for a note; return its segment and its records."""
    builder = StoreBuilder(root, segment_bytes=1 << 16)
    for number in range(40):
        builder.message("T", 0, chance.randbytes(20), properties=COMMON % number)
    path = builder.close() / f"commitlog/{0:020d}"
    return path, bytes_of(root, 1 << 16)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_what_is_the_same_around_is_restored(seed: int, tmp_path: Path) -> None:
    """A name, a separator, or a value with its name; one of another byte alone is another."""
    chance = random.Random(seed)
    path, records = with_common_properties(tmp_path / "store", chance)
    place = chance.choice(sorted(records))
    raw = records[place]
    start = raw.index(b"CLUSTER")
    at = chance.randrange(start, raw.index(b"note\1") + 4)  # not its separator: what parts name and value may be either
    change_byte(
        tmp_path / "store", place + at, raw[at] ^ chance.choice((raw[at] | 0x80, chance.randrange(3, 9))), 1 << 16
    )
    assert path.read_bytes()[place + at] != raw[at]
    result = salvage(tmp_path / "store", tmp_path / "new", jobs=1)
    assert not result.lost and not result.dropped
    assert changed_in(tmp_path / "new", records, 1 << 16) == []
    (restored,) = result.restored
    assert "properties of its neighbours" in restored.evidence


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_what_only_one_message_has_is_not_guessed(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    _, records = with_common_properties(tmp_path / "store", chance)
    place = chance.choice(sorted(records))
    raw = records[place]
    at = raw.index(b"note\1") + 5 + chance.randrange(8)
    change_byte(tmp_path / "store", place + at, raw[at] ^ chance.randrange(3, 9), 1 << 16)
    result = salvage(tmp_path / "store", tmp_path / "new", jobs=1)
    assert (len(result.dropped), result.restored) == (1, [])
