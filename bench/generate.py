"""A sound store of any size, written as a broker of 5.3 would have written it, at memory speed.

``python -m bench.generate ROOT --total-bytes N --body-bytes N`` makes one by hand.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from bench import encode, pagecache, stream
from bench.files import IndexWriter, LogWriter, QueueWriter, write_rest
from storeio import crc
from storeio.format import index
from storeio.format import properties as text

Numbers = npt.NDArray[np.int64]

BATCH_BYTES: Final = 16 << 20  # encoded at once; with its arrays this bounds the memory


@dataclass(frozen=True, slots=True)
class Generated:
    """What a generated store holds; ``log_bytes`` ends behind the last record."""

    root: Path
    records: int
    log_bytes: int
    queue_units: int
    index_units: int


def generate(
    root: Path | str,
    *,
    total_bytes: int,
    body_bytes: int,
    segment_bytes: int = 1 << 30,
    topics: int = 4,
    queues: int = 4,
    units_per_file: int = 300_000,
    index_slots: int = index.DEFAULT_SLOTS,
    index_units: int = index.DEFAULT_UNITS,
    seed: int = 1,
    tags: bool = True,
    keys: int = 1,
    unique_keys: bool = True,
) -> Generated:
    """Write a sound store whose log ends at most at ``total_bytes`` and return what it holds.

    Args:
        root: Directory that does not exist or is empty.
        body_bytes: Of each message; at least 1.
        index_units: Capacity of an index file, unit 0 included, which is never used.
        keys: Words in each message's KEYS; 0 for messages without.

    Raises:
        FileExistsError: ``root`` holds something.
        ValueError: A message does not fit into a segment or the store, or a number makes no sense.
    """
    if min(body_bytes, topics, queues, units_per_file, index_slots, index_units - 1) < 1 or keys < 0:
        raise ValueError("sizes and counts are at least 1, and an index file has a unit besides unit 0")
    root = _empty_directory(root)
    names = stream.topic_names(topics)
    traffic = stream.Traffic(names, queues, body_bytes, stream.TAG_NAMES if tags else (), keys, unique_keys, seed)
    store = _Store(traffic, LogWriter(root, segment_bytes), QueueWriter(root, names, queues, units_per_file),
                   IndexWriter(root, index_slots, index_units))  # fmt: skip
    return store.fill(root, total_bytes)


def _empty_directory(root: Path | str) -> Path:
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise FileExistsError(f"{root} is not empty")
    return root


class _Store:
    """The three kinds of files, and what every message needs on its way into them."""

    def __init__(self, traffic: stream.Traffic, log: LogWriter, queues: QueueWriter, index: IndexWriter) -> None:
        self.log = log
        self.queues = queues
        self.index = index
        self.last_ms = 0
        self._traffic = traffic
        self._pool = stream.body_pool(traffic.seed, traffic.body_bytes)
        self._topics = encode.texts(traffic.topics)
        self._tags = encode.texts(traffic.tags)
        self._seeds = np.array([text.java_hash(name.decode() + "#") % 2**32 for name in traffic.topics], np.int64)
        self._codes = np.array([text.java_hash(name.decode()) for name in traffic.tags] or [0], np.int64)
        self._buffer = np.empty(0, dtype=np.uint8)

    def fill(self, root: Path, total_bytes: int) -> Generated:
        """Write messages until the next one would end behind ``total_bytes``, then what belongs to a clean stop."""
        rows = max(BATCH_BYTES // (self._traffic.body_bytes + 256), 1)
        for batch in stream.batches(self._traffic, rows):
            if not self._append(batch, total_bytes):
                break
        if not self.log.end:
            raise ValueError(f"not one message fits into {total_bytes} bytes")
        self.index.close()
        write_rest(root, last_ms=self.last_ms, rolled_ms=self.index.rolled_ms)
        units = int(self.queues.counts.sum())
        return Generated(root, units, self.log.end, units, self.index.units)

    def _append(self, batch: stream.Batch, total_bytes: int) -> bool:
        """Write a batch, over as many segments as it takes; False once the store is large enough."""
        at = 0
        ends = np.cumsum(batch.size)
        while at < len(batch):
            done = int(ends[at - 1]) if at else 0
            room = min(self.log.room(), total_bytes - self.log.end)
            stop = int(np.searchsorted(ends, done + room, side="right"))
            if stop > at:
                self._append_part(batch.part(at, stop))
                at = stop
                continue
            size = int(batch.size[at])
            if size > self.log.largest_record:
                raise ValueError(f"a message of {size} bytes does not fit into a segment")
            if max(self.log.end, self.log.next_segment() if size > self.log.room() else 0) + size > total_bytes:
                return False
            self.log.close_segment()
        return True

    def _append_part(self, part: stream.Batch) -> None:
        """Write messages that fit into the current segment."""
        ends = np.cumsum(part.size)
        physical = self.log.end + ends - part.size
        queue = part.topic * self._traffic.queues + part.queue_id
        queue_offset = self.queues.append(queue, physical, part.size, self._codes[part.tag])
        if len(self._buffer) < ends[-1]:
            self._buffer = np.empty(int(ends[-1]), dtype=np.uint8)
        hashes = np.empty((len(part), self._traffic.keys + self._traffic.unique_keys), dtype=np.int64)
        rows = np.empty((len(part), encode.ROWS), dtype=np.int64)
        columns = (
            ends - part.size, part.size, part.queue_id, queue_offset, physical, part.topic, part.tag, part.producer,
            part.store_ms, part.born_ms, part.body_at, part.number, part.properties_bytes,
        )  # fmt: skip
        for k, column in enumerate(columns):
            rows[:, k] = column
        wrong = encode.put_records(
            self._buffer, rows, part.keys, self._pool, self._traffic.body_bytes, self._topics, self._seeds,
            self._tags, self._traffic.unique_keys, crc.ADDRESS, crc.KIND, hashes,
        )  # fmt: skip
        assert not wrong, "a record's parts do not add up to its size"
        self.log.append(self._buffer[: ends[-1]])
        self._append_index(hashes, physical, part.store_ms)
        self.last_ms = int(part.store_ms[-1])

    def _append_index(self, hashes: Numbers, physical: Numbers, store_ms: Numbers) -> None:
        width = hashes.shape[1]
        self.index.prepare(int(store_ms[0]))
        if width:
            self.index.append(hashes.ravel(), np.repeat(physical, width), np.repeat(store_ms, width))


def main() -> None:
    """Write a store as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("root", type=Path)
    parser.add_argument("--total-bytes", type=int, required=True)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--segment-bytes", type=int, default=1 << 30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    made = generate(**vars(given))
    pagecache.drop(made.root)  # to be found as on a disk, not in the pages in which it happened to be written
    print(made)


if __name__ == "__main__":
    main()
