"""Dispatch after load: what ``start`` still adds to queues and index, and where it never returns.

Source: ``DefaultMessageStore.start``, ``ReputMessageService.doReput``.
"""

from __future__ import annotations

from typing import Final

from storeio.paths import ABORT, ABORT_COPY, DEVICE, LOCK, PIPE
from storeio.simulate.broker import Broker
from storeio.simulate.ends import CrashesError, HangsError, JavaError
from storeio.simulate.java import as_long
from storeio.simulate.logscan import EVERY, LogScan
from storeio.simulate.mapped import Mapped

WAITS: Final = "Try to finish doing reput the messages fall behind during the starting"  # each second


def start(broker: Broker) -> None:
    """Do what ``start`` does to the files: the abort file is there, and 4.x dispatches; since 5.0 recovery has done so.

    Raises:
        CrashesError: The store cannot be locked, or the abort file not be written.
        HangsError: Dispatch cannot go on, and ``start`` waits for it; or the abort file is none.
    """
    if odd := broker.disk.no_file(LOCK):
        raise CrashesError(f"{LOCK} is {odd}, which cannot be locked", path=LOCK)
    for path in (ABORT, ABORT_COPY) if broker.rules.writes_abort else ():
        odd = broker.disk.no_file(path)
        if odd == PIPE:
            raise HangsError(f"{path} is {odd}, and start waits for somebody at its other end")
        if odd not in ("", DEVICE):
            raise CrashesError(f"{path} is {odd} and cannot be written", path=path)
    if not broker.disk.no_file(ABORT):
        broker.disk.create(ABORT, 0)
    if not broker.rules.reput_from_queues:
        return
    broker.reput_from = max(broker.log.min_offset, broker.queues_end, 0)
    try:
        _reput(broker, broker.reput_from)
    except JavaError as error:
        raise HangsError(f"dispatch throws at the same record again and again: {error}", WAITS) from error
    except CrashesError as error:
        raise HangsError(f"the thread that dispatches ends, and start waits for it: {error.reason}", WAITS) from error
    broker.correct_queue_mins()


def _reput(broker: Broker, offset: int) -> None:
    """Dispatch from an offset to the log's end, by the rules of a master."""
    checker = broker.checker(recovering=False)
    scan = LogScan(broker, checker, after=EVERY)
    log = broker.log
    offset = max(offset, log.min_offset)
    while offset < log.max_offset:
        file = log.find(offset, or_first=offset == 0)
        at = offset % log.size
        if file is None or at >= file.wrote:
            raise HangsError(f"no file holds the log's offset {offset}: start waits for ever", WAITS)
        offset = _reput_chunk(broker, scan, file, at)
    if as_long(log.max_offset - offset) > 0:
        raise HangsError("the log's end is so far below 0 that it seems to lie ahead: start waits for ever", WAITS)


def _reput_chunk(broker: Broker, scan: LogScan, file: Mapped, at: int) -> int:
    """Dispatch a file's records from a position on; return the offset to go on from."""
    size, data = broker.log.size, broker.source(file, file.wrote)
    start, offset = at, as_long(file.base + at)
    read = 0  # bytes that count as read: not those of a record of the wrong size
    while read < len(data) - start:
        passed = scan.passed(file, len(data), at) - at
        at, read, offset = at + passed, read + passed, offset + passed
        if read >= len(data) - start:
            break
        checked = scan.checker.check(data, at, file.base, crc=False, body=False)
        if checked.good and checked.request is not None:
            broker.dispatch(checked.request)
            offset += checked.size
            read += checked.size
            at += checked.size
        elif checked.good:
            return offset + size - offset % size
        elif checked.size > 0:
            offset += checked.size
            at = checked.end
        else:
            return offset + len(data) - start - read
    return offset
