"""What tests of the index audit share: stores in memory, and an index built and judged by a plain replay."""

from __future__ import annotations

import functools
import pickle
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import golden_data
import numpy as np
import numpy.typing as npt
import pytest

from storeio.checks import index_bytes
from storeio.checks.index_content import IndexContent, check_content
from storeio.checks.index_finish import finish_content
from storeio.checks.index_outside import units_outside, unjudged
from storeio.checks.index_stretch import IndexFiles
from storeio.checks.index_structure import IndexStructure, check_structure
from storeio.findings import Finding, merge
from storeio.format import index
from storeio.kernels import tables as w
from storeio.kernels.tags import TAGS
from storeio.paths import COMMITLOG, StoreFile
from storeio.splits import cut
from storeio.walk import Walked, walk_split

Bytes = npt.NDArray[np.uint8]

SAMPLES: Final = ("base-4.9.8", "base-5.5.1", "upgraded")
WHOLE: Final = 1 << 26
HEADER: Final = {name: place[1] for name, place in (index.HEADER.fields or {}).items()}


def structure_of(path: str, data: Bytes, slots: int, units: int) -> IndexStructure:
    """Return what a file holds, the same whether it is read in windows or all at once."""
    return _structure_of(path, data.tobytes(), slots, units)


@functools.lru_cache(64)  # most files of a store are as they were when the test before looked
def _structure_of(path: str, content: bytes, slots: int, units: int) -> IndexStructure:
    data = np.frombuffer(content, np.uint8)

    def read(start: int, stop: int) -> Bytes:
        assert 0 <= start <= stop <= len(data)
        return data[start:stop]

    found = check_structure(path, read, len(data), slots, units)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index_bytes, "WINDOW_UNITS", 3)
        patched.setattr(index_bytes, "WINDOW_SLOTS", 5)
        assert check_structure(path, read, len(data), slots, units) == found
    return found


@dataclass
class Store:
    """A store's index files, which tests change, and its log, cut into splits."""

    slots: int
    units: int
    files: dict[str, Bytes]
    walked: list[Walked]

    def units_at(self) -> int:
        return index.units_start(self.slots)

    def audit(self, drop: Callable[[Walked], bool] = lambda _: False, *, travels: bool = False) -> Result:
        """Return what the audit says; splits that ``drop`` selects are missing, as in a gap of the log.

        What splits say ``travels`` between processes if asked.
        """
        structures = IndexFiles(structure_of(path, data, self.slots, self.units) for path, data in self.files.items())
        datas = list(self.files.values())

        def read_units(file_no: int, first: int, stop: int) -> index.Units:
            assert 1 <= first <= stop <= structures[file_no].entries + 1
            at = self.units_at()
            return index.decode_units(datas[file_no][at + 20 * first : at + 20 * stop].data)

        kept = [walked for walked in self.walked if not drop(walked)]
        contents = [check_content(structures, read_units, walked) for walked in kept]
        contents = pickle.loads(pickle.dumps(contents)) if travels else contents
        findings = [finding for each in structures for finding in each.findings]
        findings += finish_content(structures, read_units, contents)
        ends = [int(x.split.base_offset + x.records[0, -1] + x.records[1, -1]) for x in kept if x.count]
        low = min((x.split.base_offset + x.split.start for x in kept), default=0)
        high = max(ends, default=0)
        gaps = unjudged([content.covered for content in contents], low, high)
        beyond: list[int] = []
        for file_no in range(len(structures)):
            outside = units_outside(
                structures,
                file_no,
                read_units,
                gaps,
                min_physical_offset=low,
                max_physical_offset=high,
            )
            findings += outside.findings
            beyond += outside.beyond
        for each, data in zip(structures, datas, strict=True):
            assert sum(each.classes.values()) - each.classes["missing"] == len(data) == each.length
            assert min(each.classes.values()) >= 0
        return Result(structures, contents, merge(findings), beyond)


@dataclass
class Result:
    structures: IndexFiles
    contents: list[IndexContent]
    findings: list[Finding]
    beyond: list[int]

    def codes(self) -> set[str]:
        return {finding.code for finding in self.findings}

    def at(self, path: str, position: int) -> list[Finding]:
        """Return the findings whose bytes include this one."""
        return [f for f in self.findings if f.path == path and f.position <= position < f.position + f.length]


@functools.cache
def log_of(name: str) -> dict[int, Bytes]:
    """Return the segments of a golden store by base offset."""
    paths = sorted((golden_data.store(name) / COMMITLOG).iterdir())
    return {int(path.name): np.fromfile(path, np.uint8) for path in paths}


def walk(log: dict[int, Bytes], split_bytes: int) -> list[Walked]:
    """Return the stitched splits of a log."""
    found = []
    for base, data in log.items():
        state = None
        for split in cut(StoreFile(f"commitlog/{base:020d}", COMMITLOG, len(data), base), split_bytes):
            found.append(walk_split(lambda start, stop, data=data: data[start:stop], split, state))  # type: ignore[misc]
            state = found[-1].end
    return found


@functools.cache
def walked_of(name: str, split_bytes: int) -> list[Walked]:
    return walk(log_of(name), split_bytes)


def store(name: str, split_bytes: int = WHOLE) -> Store:
    """Return a golden store whose index files may be changed."""
    options = golden_data.options(name)
    paths = sorted((golden_data.store(name) / "index").iterdir())
    files = {f"index/{path.name}": np.fromfile(path, np.uint8) for path in paths}
    return Store(options["indexSlots"], options["indexNum"], files, walked_of(name, split_bytes))


def put_key(data: bytearray, slots: int, key_hash: int, offset: int, store_ms: int) -> None:
    """Put a key as ``IndexFile.putKey`` does."""
    begin, _, _, _, used, count = struct.unpack_from(">qqqqii", data)
    count = max(count, 1)
    slot_at = 40 + 4 * (key_hash % slots)
    (head,) = struct.unpack_from(">i", data, slot_at)
    head = head if 0 < head <= count else 0
    seconds = max(min(int((store_ms - begin) / 1000), 2**31 - 1), 0) if begin > 0 else 0
    struct.pack_into(">iqii", data, 40 + 4 * slots + 20 * count, key_hash, offset, seconds, head)
    struct.pack_into(">i", data, slot_at, count)
    if count <= 1:
        struct.pack_into(">q", data, 0, store_ms)
        struct.pack_into(">q", data, 16, offset)
    struct.pack_into(">q", data, 8, store_ms)
    struct.pack_into(">qii", data, 24, offset, used + (head == 0), count + 1)


Key = tuple[int, int, int]  # hash, physical offset, store time


def built(keys: Sequence[Key], slots: int, units: int) -> list[bytearray]:
    """Return the index files that a broker would write for these keys."""
    files: list[bytearray] = []
    for key in keys:
        if not files or struct.unpack_from(">i", files[-1], 36)[0] >= units:
            files.append(bytearray(index.file_length(slots, units)))
            if len(files) > 1:
                files[-1][0:8] = files[-1][8:16] = files[-2][8:16]
                files[-1][16:24] = files[-1][24:32] = files[-2][24:32]
        put_key(files[-1], slots, *key)
    return files


def keys_of(splits: Sequence[Walked], *, tags: bool) -> list[Key]:
    """Return all keys of a log."""
    found: list[Key] = []
    for walked in splits:
        hashes, records, kinds = walked.keys[:, (walked.keys[2] != TAGS) | tags]
        offsets = walked.records[w.R_POSITION, records] + walked.split.base_offset
        times = walked.records[w.R_STORE_MS, records]
        found += zip(hashes.tolist(), offsets.tolist(), times.tolist(), strict=True)
        del kinds
    return found


def is_sound(data: bytes, slots: int, units: int) -> bool:
    """Tell by a plain replay whether slots, chains, counts and rest of a file are as a broker writes them."""
    _, _, begin, end, used, count = struct.unpack_from(">qqqqii", data)
    at = 40 + 4 * slots
    if len(data) != at + 20 * units or any(data[at : at + 20]) or not 0 <= count <= units:
        return False
    last: dict[int, int] = {}
    before, first = 0, begin
    for i in range(1, count):
        key_hash, offset, _, previous = struct.unpack_from(">iqii", data, at + 20 * i)
        if key_hash < 0 or last.get(key_hash % slots, 0) != previous or offset < before:
            return False
        last[key_hash % slots] = i
        first = offset if i == 1 else first
        before = offset
    heads = struct.unpack_from(f">{slots}i", data, 40)
    if any(head != last.get(slot, 0) for slot, head in enumerate(heads)) or any(data[at + 20 * max(count, 1) :]):
        return False
    if count < 2:
        return begin == end and used == 0
    return (begin, end) == (first, before) and used in (len(last), count - 1)
