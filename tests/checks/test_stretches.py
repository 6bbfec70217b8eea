"""Files of an index or a queue that a stretch needs, found by bisection, against looking at every one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from storeio.checks.index_stretch import IndexFiles
from storeio.checks.index_structure import IndexStructure
from storeio.checks.locate import numbers_of
from storeio.checks.queue_files import Queue, QueueFile
from storeio.format import consumequeue

NUMBERS = st.integers(0, 60)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans(), st.integers(0, 3)), max_size=8), NUMBERS, NUMBERS)
def test_index_files_near_a_stretch(rows: list[tuple[int, int, bool, int]], start: int, length: int) -> None:
    files = IndexFiles(
        IndexStructure(f"index/{i}", 0, 1, 9, entries, 0, 0, begin, begin + size, ordered, (), {}, ())
        for i, (begin, size, ordered, entries) in enumerate(rows)
    )
    near, stop = files.near(start, start + length), start + length
    wanted = {
        i
        for i, file in enumerate(files)
        if file.entries
        and (not file.ordered or (file.begin_physical_offset < stop and file.end_physical_offset >= start))
    }
    assert wanted <= set(near)
    assert near == sorted(near, key=lambda i: (files[i].begin_physical_offset, i))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=6), NUMBERS, st.integers(0, 40))
def test_pieces_of_a_queue(rows: list[tuple[int, int]], start: int, length: int) -> None:
    files, end = [], 0
    for number, (gap, size) in enumerate(rows):
        files.append(QueueFile(f"consumequeue/T/0/{number}", end + gap, size))
        end += gap + max(size, 1)
    queue = Queue("consumequeue", "T", 0, 5, tuple(files))
    held = {p: file.path for file in files for p in range(file.base, file.base + file.size)}
    found = {p: file and file.path for file, low, high in queue.pieces(start, start + length) for p in range(low, high)}
    assert found == {p: held.get(p) for p in range(start, start + length)}
    path, position = queue.path_at(start)
    own = next((file for file in files if file.base <= start < file.base + max(file.size, 1)), None)
    assert own is None or (path, position) == (own.path, start - own.base)
    assert own is not None or start not in held


class Counted(tuple[QueueFile, ...]):
    """Files that count how often somebody goes through them all."""

    rounds = 0

    def __iter__(self) -> Iterator[QueueFile]:
        self.rounds += 1
        return super().__iter__()


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=40))
def test_a_queue_of_many_files_is_not_gone_through_for_each_look(steps: list[int]) -> None:
    units, files = consumequeue.UNIT_BYTES, []
    at = 0
    for number, step in enumerate(steps):  # a file with one unit each, -1 for none
        at += max(step, 0)
        real = (0, 0, True, at, at) if step >= 0 else (-1, -1, True, -1, -1)
        files.append(QueueFile(f"{number}", number * units, units, units if step >= 0 else 0, *real))
    places = {file.path: file.first_physical for file in files}
    counted = Counted(files)
    queue = Queue("consumequeue", "T", 0, units, counted)

    def read(path: str, start: int, stop: int) -> npt.NDArray[np.uint8]:
        unit = np.array([(max(places[path], 0), 1 if places[path] >= 0 else 0, 0)], consumequeue.UNIT)
        return unit.view(np.uint8)[start:stop]

    for low in range(at + 2):
        wanted = [number for number, file in enumerate(files) if file.first_physical == low]
        assert numbers_of(queue, read, np.array([low])).tolist() == [wanted[0] if wanted else -1]
    assert counted.rounds <= 4
