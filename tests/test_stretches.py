"""Files of an index or a queue that a stretch needs, found by bisection, against looking at every one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storeio.checks.index_stretch import IndexFiles
from storeio.checks.index_structure import IndexStructure
from storeio.checks.queue_files import Queue, QueueFile

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
