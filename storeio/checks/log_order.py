"""A split's records against units that stand in the order of the log: those of batch queues and of light queues."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storeio.checks import ext_units
from storeio.checks.deliver_times import OTHER_LEVELS, is_deliver_time
from storeio.checks.locate import numbers_behind, stretch
from storeio.checks.queue_files import Queue, Read
from storeio.checks.queue_units import Checked, record_side
from storeio.dispatch import Implied
from storeio.findings import Finding
from storeio.format import consumequeue
from storeio.kernels import tables as w
from storeio.paths import BATCHQUEUE
from storeio.walk import Walked

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


def check_in_log_order(
    queue: Queue, ext: Queue | None, implied: Implied, walked: Walked, read: Read, *, optional: bool
) -> Checked:
    """Return the comparison of units that stand in log order: batch queues and light queues.

    ``optional`` units are only expected where the queue has files.
    """
    checked = Checked(compared=len(implied.record))
    if optional and not queue.files:
        checked.whole = True
        return checked
    prefix = "BCQ" if queue.kind == BATCHQUEUE else "CQ"
    units = implied.batch_units() if queue.kind == BATCHQUEUE else implied.units()
    physical = implied.physical()
    low, high = int(physical[0]), int(physical[-1]) + 1
    checked.stretches.append((low, high))
    numbers, disk = stretch(queue, read, low, high)
    place, hit = _places(disk["physical_offset"].astype(np.int64), physical)
    numbers, disk, rows = numbers[place], disk[place], np.flatnonzero(hit)
    checked.covered += [(int(n), int(n) + 1) for n in numbers.tolist()]
    differs = disk != units[hit]
    if ext is not None and differs.any():
        differs &= ~_has_ext_unit(ext, read, disk, implied, hit)
        checked.whole = True  # what decides stands in the ext file
    is_other = differs & _has_other_delay(disk, implied, hit) if prefix == "CQ" else np.zeros(len(disk), np.bool_)
    for i in np.flatnonzero(differs).tolist():
        number, row = int(numbers[i]), int(rows[i])
        if is_other[i]:
            checked.findings.append(_differing(queue, implied, number, row, "CQ_DELAY_LEVEL", OTHER_LEVELS))
            continue
        detail = f"expected {units[row].tolist()}, found {disk[i].tolist()}"
        checked.findings.append(_differing(queue, implied, number, row, f"{prefix}_UNIT_WRONG", detail))
        checked.classed.append(("garbage", number, number + 1, int(physical[row])))
        checked.findings += record_side(walked, int(implied.record[row]), queue, number, detail)
    if prefix == "CQ" and len(rows):
        checked.findings += _out_of_order(queue, implied, rows, numbers, read)
    checked.findings += _missing(queue, implied, ~hit, read, prefix)
    checked.whole |= bool(checked.findings)
    return checked


def _places(offsets: Numbers, physical: Numbers) -> tuple[Numbers, Mask]:
    """Return which units point at records that have one, in the records' order, and which records these are.

    ``offsets`` are the units' and in no order, ``physical`` the records'.
    """
    order = np.argsort(offsets, kind="stable")
    place = np.searchsorted(offsets[order], physical)
    hit = place < len(order)
    hit[hit] = offsets[order][place[hit]] == physical[hit]
    return order[place[hit]], hit


def _differing(queue: Queue, implied: Implied, number: int, row: int, code: str, detail: str) -> Finding:
    """Return the finding that a unit is not what its record implies."""
    path, position = queue.path_at(number * queue.unit_bytes)
    return Finding(
        code, path, position, queue.unit_bytes, queue.topic, queue.queue_id, int(implied.queue_offset[row]),
        implied.physical_at(row), 1, detail,
    )  # fmt: skip


def _has_ext_unit(ext: Queue, read: Read, disk: npt.NDArray[np.void], implied: Implied, which: Mask) -> Mask:
    """Tell which units differ from what some records imply only in that their tags codes stand in the ext file.

    Brokers put none there for a queue that a record lists.
    """
    own = np.ones(len(disk), np.bool_) if implied.own is None else implied.own[which]
    same = disk["size"] == implied.column(w.R_SIZE)[which]
    codes, times = implied.column(w.R_TAGS_CODE)[which], implied.column(w.R_STORE_MS)[which]
    return own & same & ext_units.agrees(ext, read, disk, codes, times)


def _has_other_delay(disk: npt.NDArray[np.void], implied: Implied, which: Mask) -> Mask:
    """Tell which units of delayed messages have the deliver time of other delay levels than are known."""
    marks, times = implied.column(w.R_MARKS)[which], implied.column(w.R_STORE_MS)[which]
    same = disk["size"] == implied.column(w.R_SIZE)[which]
    return same & ((marks & w.MARK_SCHEDULED) != 0) & is_deliver_time(disk["tags_code"].astype(np.int64), times)


def _out_of_order(queue: Queue, implied: Implied, rows: Numbers, numbers: Numbers, read: Read) -> list[Finding]:
    """Return a finding for each unit beside which another one of its file is not where the log has its record.

    Args:
        queue: A light queue.
        implied: Its records.
        rows: Those that have a unit.
        numbers: Where these units stand.
        read: Reads files of the store.
    """
    findings, size = [], queue.unit_bytes
    follows = np.diff(numbers) == 1
    at_edge = ~np.append(follows, False) | ~np.append(False, follows)
    for i in np.flatnonzero(at_edge & (numbers >= 0)).tolist():  # those of files with a negative name are told so
        number, physical = int(numbers[i]), implied.physical_at(int(rows[i]))
        first = max(number - 1, 0)
        units = consumequeue.decode(queue.read(read, first * size, (number + 2) * size)[0].tobytes())
        real = consumequeue.is_written(units) & ~consumequeue.is_pre_blank(units)
        apart = np.sign(units["physical_offset"].astype(np.int64) - physical)
        if (real & (apart != np.sign(np.arange(first, number + 2) - number))).any():
            path, position = queue.path_at(number * size)
            detail = "a unit beside it stands on the other side than its record in the log"
            findings.append(
                Finding("CQ_SHIFTED", path, position, size, queue.topic, queue.queue_id, number, physical, 1, detail)
            )
    return findings


def _missing(queue: Queue, implied: Implied, mask: Mask, read: Read, prefix: str) -> list[Finding]:
    """Return findings for units that the queue lacks, each where it would stand: without bytes, between two others."""
    findings: list[Finding] = []
    rows = np.flatnonzero(mask)
    if not len(rows):
        return findings
    places = numbers_behind(queue, read, implied.physical()[rows])
    cuts = np.flatnonzero((np.diff(rows) != 1) | (np.diff(places) != 0)) + 1
    for part in np.split(np.arange(len(rows)), cuts):
        a, b, at = int(rows[part[0]]), int(rows[part[-1]]) + 1, queue.gap_before(int(places[part[0]]))
        path, position = queue.path_at(at * queue.unit_bytes)
        code = f"{prefix}_UNIT_MISSING" if queue.files else f"{prefix}_MISSING"
        findings.append(
            Finding(
                code, path, position, 0, queue.topic, queue.queue_id, int(implied.queue_offset[a]),
                implied.physical_at(a), b - a, "no unit points at the record",
            )
        )  # fmt: skip
    return findings
