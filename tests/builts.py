"""Small sound stores of one segment that a test damages and salvages."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import golden_data as golden
import salvages
from implied import Settings
from rebuilds import settings_of
from storebuilder import StoreBuilder

from storeio import audit
from storeio.salvage.node import salvage
from storeio.salvaged import Salvaged


@dataclass
class Built:
    """A sound store that is damaged by its test."""

    root: Path
    builder: StoreBuilder
    before: dict[int, bytes]

    def put(self, at: int, data: bytes) -> None:
        """Write at a physical offset of the log, which is one segment."""
        self.write("commitlog/" + "0" * 20, at, data)

    def unit(self, queue: str, number: int, data: bytes, *, at: int = 0, size: int = 20) -> None:
        """Write into a unit of a queue."""
        self.write(f"{queue}/{'0' * 20}", number * size + at, data)

    def write(self, path: str, at: int, data: bytes) -> None:
        """Write into a file."""
        with (self.root / path).open("r+b") as file:
            file.seek(at)
            file.write(data)

    def saved(self, place: Path) -> tuple[Salvaged, dict[int, bytes]]:
        """Return a salvage that leaves a sound store, and the records of that."""
        given = settings_of(self.builder.settings)
        result = salvage(self.root, place / "new", given=given, jobs=1)
        assert result.problems == []
        assert audit.check(place / "new", given=given, jobs=1).exit_code == 0
        return result, salvages.bytes_of(place / "new", self.builder.settings.segment_bytes)

    def assert_restored(self, place: Path) -> None:
        """Nothing is lost: all records are as they were."""
        result, now = self.saved(place)
        assert (result.lost, result.dropped, result.unnamed) == ([], [], 0)
        assert now == self.before


def built(place: Path, write: Callable[[StoreBuilder], Any], **settings: Any) -> Built:
    """Return a store of one segment with what was written."""
    builder = StoreBuilder(place / "store", settings=Settings(**settings))
    write(builder)
    builder.close()
    if builder.settings.batch_topics:
        golden.declare(place / "store", dict.fromkeys(builder.settings.batch_topics, "BatchCQ"))
    return Built(place / "store", builder, salvages.bytes_of(place / "store", builder.settings.segment_bytes))


def messages(*queues: int) -> Callable[[StoreBuilder], None]:
    """Write messages of equal size to queues of a topic, one behind the other."""

    def write(builder: StoreBuilder) -> None:
        for queue_id in queues:
            builder.message("T", queue_id, b"x" * 50)

    return write


def places(store: Built) -> list[int]:
    """Return where the records of a store lie."""
    return sorted(store.before)


def queue_id(number: int) -> bytes:
    """Return the bytes of a queue id."""
    return struct.pack(">i", number)
