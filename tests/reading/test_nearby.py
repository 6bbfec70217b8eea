"""Small reads through windows, and units read all at once, against the same bytes read one by one."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from storeio.checks.queue_files import Queue, QueueFile, by_number
from storeio.errors import UnreadableError
from storeio.paths import CONSUMEQUEUE
from storeio.reading.nearby import Nearby

Bytes = npt.NDArray[np.uint8]


class Disk:
    """Files in memory; counts reads, and says so where a file is shorter than what is asked for."""

    def __init__(self, **files: bytes) -> None:
        self.files, self.reads = files, 0

    def read(self, path: str, start: int, stop: int) -> Bytes:
        self.reads += 1
        if not 0 <= start <= stop <= len(self.files[path]):
            raise UnreadableError(f"{path}: shorter than {stop}")
        return np.frombuffer(self.files[path], np.uint8)[start:stop]


@pytest.mark.parametrize("seed", range(20))
def test_a_window_gives_what_the_file_holds(seed: int) -> None:
    chance = random.Random(seed)
    disk = Disk(a=chance.randbytes(1000), b=chance.randbytes(257))
    near = Nearby(disk.read, {"a": 1000, "b": 257}, window_bytes=64, most=3)
    for _ in range(300):
        path = chance.choice("ab")
        start = chance.randrange(len(disk.files[path]))
        stop = min(start + chance.choice((0, 1, 8, 9, 100)), len(disk.files[path]))
        assert near.read(path, start, stop).tobytes() == disk.files[path][start:stop]


def test_neighbours_are_read_once() -> None:
    disk = Disk(a=bytes(range(256)) * 4)
    near = Nearby(disk.read, {"a": 1024}, window_bytes=256, most=2)
    for at in range(0, 1024, 8):
        assert near.read("a", at, at + 8).tolist() == [k % 256 for k in range(at, at + 8)]
    assert disk.reads == 4


def test_a_file_that_became_shorter_gives_what_is_left() -> None:
    disk = Disk(a=bytes(range(100)))
    near = Nearby(disk.read, {"a": 400}, window_bytes=256, most=2)
    assert near.read("a", 90, 98).tolist() == list(range(90, 98))
    with pytest.raises(UnreadableError):
        near.read("a", 96, 104)


@pytest.mark.parametrize("seed", range(20))
def test_units_by_number(seed: int) -> None:
    """Of a queue with a missing file: bytes and what is absent, as if each stretch were read by itself."""
    chance = random.Random(seed)
    disk = Disk(a=chance.randbytes(200), c=chance.randbytes(200))
    files = (QueueFile("a", 0, 200, 200), QueueFile("c", 400, 200, 200))
    queue = Queue(CONSUMEQUEUE, "t", 0, 200, files)
    numbers = np.array(sorted(chance.sample(range(30), 12)), np.int64)
    units_of = by_number(queue, disk.read, numbers, runs=2)
    before = disk.reads
    for first, stop in ((int(n), int(n) + 1) for n in numbers):
        data, absent = units_of(first, stop)
        expected, gone = queue.read(disk.read, first * 20, stop * 20)
        assert data.tobytes() == expected.tobytes()
        assert absent == gone
    assert disk.reads - before <= len(numbers)  # those that were expected: ours were read before
    far = np.array([0, 10**6], np.int64)
    data, absent = by_number(queue, disk.read, far, runs=2)(10**6, 10**6 + 1)
    assert (data.tolist(), absent) == ([0] * 20, [(2 * 10**7, 2 * 10**7 + 20)])
