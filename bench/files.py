"""The files of a generated store: log segments, queue files, index files, as a broker lays them out.

Each writer takes arrays in arrival order and keeps nothing but where it stands, and the hash slots
of one index file.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench import encode
from storeio import paths
from storeio.format import checkpoint, consumequeue, index
from storeio.format import commitlog as log

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def write_at(path: Path, position: int, data: Bytes | bytes, length: int) -> None:
    """Write bytes into a file that is made with its full length, sparse, where it is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with path.open("r+b", buffering=0) as file:
        if file.seek(0, 2) != length:
            file.truncate(length)
        file.seek(position)
        view = memoryview(data) if isinstance(data, bytes) else data.data
        while view:
            view = view[file.write(view) :]


class LogWriter:
    """Appends encoded records; ``end`` is the physical offset behind the last."""

    def __init__(self, root: Path, segment_bytes: int) -> None:
        self._directory = root / paths.COMMITLOG
        self._segment_bytes = segment_bytes
        self.largest_record = segment_bytes - log.BLANK_HEAD_BYTES
        self.end = 0

    def next_segment(self) -> int:
        """Return the physical offset at which the segment behind the current one begins."""
        return self.end - self.end % self._segment_bytes + self._segment_bytes

    def room(self) -> int:
        """Return the bytes that records may still take in the current segment."""
        return self.next_segment() - self.end - log.BLANK_HEAD_BYTES

    def append(self, data: Bytes) -> None:
        """Write records that fit into the room."""
        self._write(data)
        self.end += len(data)

    def close_segment(self) -> None:
        """Write the blank record that closes the current segment."""
        self._write(log.encode_blank(self.next_segment() - self.end))
        self.end = self.next_segment()

    def _write(self, data: Bytes | bytes) -> None:
        base = self.end - self.end % self._segment_bytes
        write_at(self._directory / paths.file_name(base), self.end - base, data, self._segment_bytes)


class QueueWriter:
    """Appends units to consume queues, numbered topic by topic; hands out their queue offsets."""

    def __init__(self, root: Path, topics: tuple[bytes, ...], queues: int, units_per_file: int) -> None:
        self._root = root
        self._topics = [topic.decode() for topic in topics]
        self._queues = queues
        self._file_bytes = units_per_file * consumequeue.UNIT_BYTES
        self.counts: Numbers = np.zeros(len(topics) * queues, dtype=np.int64)

    def append(self, queue: Numbers, physical_offset: Numbers, size: Numbers, tags_code: Numbers) -> Numbers:
        """Write one unit a record, all arguments of shape ``(n,)``; return the queue offsets they got."""
        order = np.argsort(queue.astype(np.int32), kind="stable")
        counts = np.bincount(queue, minlength=len(self.counts))
        starts = np.cumsum(counts) - counts
        sorted_queue = queue[order]
        queue_offset = np.empty(len(queue), dtype=np.int64)
        queue_offset[order] = np.arange(len(queue)) - starts[sorted_queue] + self.counts[sorted_queue]
        units = consumequeue.encode(physical_offset[order], size[order], tags_code[order])
        for q in np.flatnonzero(counts):
            self._write(int(q), units[starts[q] : starts[q] + counts[q]])
        return queue_offset

    def _write(self, q: int, units: consumequeue.Units) -> None:
        directory = paths.queue_directory(paths.CONSUMEQUEUE, self._topics[q // self._queues], q % self._queues)
        position = int(self.counts[q]) * consumequeue.UNIT_BYTES
        self.counts[q] += len(units)
        data = units.tobytes()
        while data:
            base = position - position % self._file_bytes
            piece = data[: base + self._file_bytes - position]
            write_at(self._root / directory / paths.file_name(base), position - base, piece, self._file_bytes)
            position += len(piece)
            data = data[len(piece) :]


class IndexWriter:
    """Appends index units to files that roll when they are full."""

    def __init__(self, root: Path, slots: int, units: int) -> None:
        self._directory = root / paths.INDEX
        self._units_per_file = units
        self._length = index.file_length(slots, units)
        self._slots = np.zeros(slots, dtype=np.int32)
        self._header = np.zeros((), dtype=index.HEADER)
        self._name_ms = 0  # 0: there is no file yet
        self.units = 0
        self.rolled_ms = 0  # end of the last file that was full and has a successor

    def append(self, key_hash: Numbers, physical_offset: Numbers, store_ms: Numbers) -> None:
        """Write one unit a key, all arguments of shape ``(n,)``."""
        at = 0
        while at < len(key_hash):
            self.prepare(int(store_ms[at]))
            stop = min(at + self._units_per_file - int(self._header["unit_count"]), len(key_hash))
            self._put(key_hash[at:stop], physical_offset[at:stop], store_ms[at:stop])
            at = stop

    def prepare(self, now_ms: int) -> None:
        """Begin a file where there is none or the last is full; every message does so, also one without keys."""
        if self._name_ms == 0 or self._header["unit_count"] >= self._units_per_file:
            self._roll(now_ms)

    def _roll(self, now_ms: int) -> None:
        """Begin a new file, which inherits the end of the one before as its begin and end."""
        if self._name_ms:
            self.close()
            self.rolled_ms = int(self._header["end_timestamp_ms"])
            self._slots[:] = 0
            self._header["begin_timestamp_ms"] = self._header["end_timestamp_ms"]
            self._header["begin_physical_offset"] = self._header["end_physical_offset"]
        self._name_ms = max(now_ms, self._name_ms + 1)  # two files that roll in one millisecond would collide
        self._header["slots_used"] = 0
        self._header["unit_count"] = 1

    def close(self) -> None:
        """Write header and slots of the current file; without one there is nothing to write."""
        if self._name_ms:
            self._write(0, self._header.tobytes() + self._slots.astype(">i4").tobytes())

    def _put(self, key_hash: Numbers, physical_offset: Numbers, store_ms: Numbers) -> None:
        header = self._header
        first = int(header["unit_count"])
        previous = np.empty(len(key_hash), dtype=np.int32)
        header["slots_used"] += encode.chain(self._slots, key_hash, first, previous)
        # The first unit's time is still relative to the begin that the file inherited.
        inherited = int(header["begin_timestamp_ms"])
        if first == 1:
            header["begin_timestamp_ms"], header["begin_physical_offset"] = store_ms[0], physical_offset[0]
        units = np.empty(len(key_hash), dtype=index.UNIT)
        units["key_hash"], units["physical_offset"], units["previous"] = key_hash, physical_offset, previous
        units["seconds"] = (store_ms - int(header["begin_timestamp_ms"])) // 1000
        if first == 1:
            units["seconds"][0] = (int(store_ms[0]) - inherited) // 1000 if inherited else 0
        header["end_timestamp_ms"], header["end_physical_offset"] = store_ms[-1], physical_offset[-1]
        header["unit_count"] += len(key_hash)
        self.units += len(key_hash)
        self._write(index.units_start(len(self._slots)) + first * index.UNIT_BYTES, units.tobytes())

    def _write(self, position: int, data: bytes) -> None:
        moment = datetime.fromtimestamp(self._name_ms / 1000, tz=timezone.utc)
        name = f"{moment:%Y%m%d%H%M%S}{self._name_ms % 1000:03d}"
        write_at(self._directory / name, position, data, self._length)


def write_rest(root: Path, *, last_ms: int, rolled_ms: int) -> None:
    """Write what a broker of 5.x that was stopped cleanly leaves besides: checkpoint, lock, abort.bak."""
    fields = np.zeros((), dtype=checkpoint.CHECKPOINT)
    fields["physical_timestamp_ms"] = fields["logic_timestamp_ms"] = last_ms
    fields["index_timestamp_ms"] = rolled_ms
    write_at(root / paths.CHECKPOINT, 0, fields.tobytes(), checkpoint.FILE_BYTES)
    write_at(root / paths.LOCK, 0, b"lock", 4)
    write_at(root / "abort.bak", 0, b"", 0)
