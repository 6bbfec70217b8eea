"""Queue ext files: the chain of units in a file, and units that consume queue units name by address.

Source: ``org.apache.rocketmq.store.ConsumeQueueExt``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from storeio.checks.deliver_times import is_deliver_time
from storeio.checks.queue_files import Queue, Read
from storeio.checks.ranges import Ranges, meeting
from storeio.findings import Finding
from storeio.format import queueext
from storeio.kernels.search import first_nonzero
from storeio.paths import StoreFile

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def agrees(ext: Queue, read: Read, disk: npt.NDArray[np.void], tags_code: Numbers, store_ms: Numbers) -> Mask:
    """Tell which units hold the address of an ext unit that has their record's tags code and time.

    A deliver time of other delay levels counts, too; no other code is that large.

    Args:
        ext: The queue's ext files; positions are bytes.
        disk: Consume queue units as they stand, shape ``(n,)``.
        tags_code, store_ms: What the records say, shape ``(n,)``.
    """
    codes = disk["tags_code"].astype(np.int64)
    result = np.zeros(len(disk), bool)
    rows = np.flatnonzero(queueext.is_address(codes))
    positions = queueext.position_of(codes[rows])
    for file in ext.files:
        inside = (positions >= file.base) & (positions <= file.base + file.size - queueext.HEAD_BYTES)
        if not inside.any():
            continue
        at = positions[inside] - file.base
        low = int(np.min(at))
        data = read(file.path, low, int(np.max(at)) + queueext.HEAD_BYTES)
        heads = data[(at - low)[:, None] + np.arange(queueext.HEAD_BYTES)].view(queueext.HEAD)[:, 0]
        codes, times = heads["tags_code"].astype(np.int64), store_ms[rows[inside]]
        good = (codes == tags_code[rows[inside]]) | is_deliver_time(codes, times)
        good &= (heads["store_timestamp_ms"] == times) & (heads["bitmap_length"] >= 0)
        good &= heads["size"] >= queueext.HEAD_BYTES
        good &= heads["size"] == heads["bitmap_length"] + queueext.HEAD_BYTES
        result[rows[inside]] = good
    return result


def check_chain(
    file: StoreFile, read: Callable[[int, int], Bytes], stretches: Ranges
) -> tuple[list[Finding], dict[str, int]]:
    """Return what is wrong with one ext file's chain of sizes, and its bytes by class.

    ``read`` gives the file's bytes, of which all outside of the stretches are zero.
    A closed file ends in a size that is not positive, with at least 4 bytes free.
    """
    at = start = 0
    data = read(0, 0)
    findings: list[Finding] = []
    while at <= file.size - queueext.HEAD_BYTES:
        if at + queueext.HEAD_BYTES > start + len(data):
            start, data = at, _around(file, read, stretches, at)
        head = data[at - start : at - start + queueext.HEAD_BYTES].view(queueext.HEAD)[0]
        size = int(head["size"])
        if size <= 0:
            break
        room = file.size - at - queueext.END_SPARE_BYTES
        if size < queueext.HEAD_BYTES or size > room or size != queueext.HEAD_BYTES + int(head["bitmap_length"]):
            findings.append(_finding(file, "EXT_CHAIN", at, file.size - at, f"unit size {size} at {at}"))
            return findings, {"record": at, "garbage": file.size - at}
        at += size
    end = at + 2 if read(at, min(at + 2, file.size)).tobytes() == b"\xff\xff" else at
    dirty, first = 0, file.size
    for low, high in meeting(stretches, end, file.size):
        rest = read(max(low, end), high)
        dirty += int(np.count_nonzero(rest))
        first = min(first, max(low, end) + int(first_nonzero(rest, 0, len(rest)))) if dirty else first
    if dirty:
        findings.append(_finding(file, "EXT_CHAIN", first, file.size - first, "bytes behind the last unit"))
    classes = {"record": at, "blank": end - at, "garbage": dirty, "zero": file.size - end - dirty}
    return findings, classes


def _around(file: StoreFile, read: Callable[[int, int], Bytes], stretches: Ranges, at: int) -> Bytes:
    """Return the file's bytes from a unit on, up to the end of what is no hole; its head at least."""
    stop = at + queueext.HEAD_BYTES
    return read(at, max([min(high, file.size) for _, high in meeting(stretches, at, stop)] + [stop]))


def _finding(file: StoreFile, code: str, position: int, length: int, detail: str) -> Finding:
    return Finding(code, file.path, position, length, file.topic, file.queue_id, detail=detail)
