"""Two halves of a segment side by side come to what one record after the other does, wherever the second begins."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import numpy.typing as npt
import pytest
from storebuilder import StoreBuilder, forged

from storeio.format import commitlog as log
from storeio.simulate import skipping
from storeio.simulate.skipping import Asks, Skipper

SEGMENT = 64 << 10
BASE = 5 * SEGMENT
BODY_AT = 88  # of a record whose hosts are IPv4
MOST = 1 << 30
Bytes = npt.NDArray[np.uint8]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halve small segments, too."""
    monkeypatch.setattr(skipping, "HALVED_BYTES", 4096)
    monkeypatch.setattr(skipping, "LOOK_AHEAD_BYTES", 400)
    monkeypatch.setattr(skipping, "SEARCHED_AT_ONCE", 512)


def segment(body: bytes = b"") -> bytearray:
    """Return a segment of records, one of them with this body around its middle."""
    builder = StoreBuilder(base=BASE, segment_bytes=SEGMENT)
    while builder.end < BASE + SEGMENT - 1000:
        about_middle = BASE + SEGMENT // 2 - 600 < builder.end < BASE + SEGMENT // 2 - 200
        builder.message("topic", 0, body if body and about_middle else b"b" * 100)
    ((_, data),) = builder.segment_files()
    return bytearray(data)


def starts(data: bytes) -> list[int]:
    """Return where records start, and where the last one ends."""
    found = [0]
    while struct.unpack_from(">i", data, found[-1] + log.MAGIC_AT)[0] == log.MAGIC_V1:
        found.append(found[-1] + struct.unpack_from(">i", data, found[-1])[0])
    return found


def skipper(data: bytes) -> Skipper:
    """Return what passes the records of a segment."""
    array = np.frombuffer(data, np.uint8)
    return Skipper(lambda start, stop: array[start:stop], BASE, SEGMENT, Asks(np.zeros(1, np.int64), MOST, True, True))


def passed(data: bytes, *, halves: bool) -> tuple[int, int]:
    """Return where passing all records of a segment ends, and the largest of them."""
    found = skipper(data)
    at = found.passed(0, starts(data)[-1], SEGMENT if halves else 1024, SEGMENT)
    return at, found.largest


def test_a_sound_segment() -> None:
    data = bytes(segment())
    ends = starts(data)
    largest = max(stop - start for start, stop in itertools.pairwise(ends))
    assert passed(data, halves=True) == passed(data, halves=False) == (ends[-1], largest)


@pytest.mark.parametrize("wanted", [1 / 8, 3 / 8, 1 / 2, 5 / 8, 7 / 8])
def test_damage_ends_both_at_the_same_record(wanted: float) -> None:
    data = segment()
    at = next(start for start in starts(data) if start >= wanted * SEGMENT)
    data[at + log.BODY_CRC_AT] ^= 1
    assert passed(bytes(data), halves=True)[0] == passed(bytes(data), halves=False)[0] == at


def test_a_record_in_a_body_where_the_second_half_begins() -> None:
    """The search for a start finds the forged record first; what follows from it must not count."""
    start = next(at for at in starts(segment()) if SEGMENT // 2 - 600 < at < SEGMENT // 2 - 200)
    body = bytearray(2000)
    for inside in range(0, 1800, 200):
        piece = forged(BASE + start + BODY_AT + inside)
        body[inside : inside + len(piece)] = piece
    data = bytes(segment(bytes(body)))
    near = skipper(data).start_near(SEGMENT // 2)
    assert near is not None
    assert near not in starts(data)
    assert passed(data, halves=True) == passed(data, halves=False)
    assert passed(data, halves=True)[0] == starts(data)[-1]
