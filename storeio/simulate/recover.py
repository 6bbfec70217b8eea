"""Recovery of log and queues: where the scan starts, what it accepts, what is cut and deleted.

Source: ``CommitLog.recoverNormally``, ``recoverAbnormally``, ``isMappedFileMatchedRecover``.
"""

from __future__ import annotations

from storeio.format import commitlog as log
from storeio.simulate import rules as r
from storeio.simulate.broker import Broker
from storeio.simulate.ends import JavaError, RefusesError
from storeio.simulate.java import as_long
from storeio.simulate.logscan import EVERY, LogScan
from storeio.simulate.mapped import Mapped
from storeio.simulate.message import Checker


def recover(broker: Broker) -> None:
    """Recover queues and log; where the log has no file, all queues go.

    Raises:
        RefusesError: The broker gives up.
        CrashesError: An error leaves ``load``.
    """
    try:
        for key in sorted(broker.queues):
            broker.queues[key].recover()
        if broker.log.files:
            _recover_log(broker)
        else:
            for queue in broker.queues.values():
                queue.destroy()
        broker.correct_queue_mins()
    except JavaError as error:
        raise RefusesError(f"an exception leaves recovery: {error}", "load exception") from error


def _recover_log(broker: Broker) -> None:
    rules = broker.rules
    checker = broker.checker(recovering=True)
    before = broker.queues_end
    first = clean_start(broker, checker, before) if broker.clean else abort_start(broker, checker)
    broker.start_file = broker.log.files[first].path
    stop = _scan(broker, checker, first, before)
    end = broker.queues_end if rules.end_after_dispatch else before
    if end >= stop:
        for key in sorted(broker.queues):
            broker.queues[key].truncate(stop)
    broker.log.truncate(stop)


def _scan(broker: Broker, checker: Checker, first: int, queues_end: int) -> int:
    """Return where the log ends: at the first record that is none, or a blank one that no file follows.

    Records on the way are dispatched as the version does.
    """
    end = 0
    never = broker.clean and not broker.rules.dispatches_when_clean
    scan = LogScan(broker, checker, after=None if never else queues_end if broker.clean else EVERY)
    for file in broker.log.files[first:]:
        data = broker.source(file, file.size)
        at = 0
        while True:
            at = scan.passed(file, file.size, at)
            checked = checker.check(data, at, file.base, crc=True, body=True)
            if checked.good and checked.size == 0:
                break
            if not checked.good or checked.request is None:
                return as_long(file.base + at)
            if not broker.clean or (broker.rules.dispatches_when_clean and checked.request.offset > queues_end):
                broker.dispatch(checked.request)
            at += checked.size
        end = as_long(file.base + at)
    return end


def clean_start(broker: Broker, checker: Checker, queues_end: int) -> int:
    """Return the number of the file in which the scan begins after a clean stop."""
    files = broker.log.files
    rule = broker.rules.clean_start
    if rule == r.LAST_THREE:
        return max(len(files) - 3, 0)
    i = len(files) - 1
    if rule == r.MAX_QUEUE:
        while i > 0 and files[i].base > queues_end:
            i -= 1
        return i
    left = broker.most_recovered
    while i > 0:
        left -= 1
        first = _first_record(broker, checker, files[i])
        if (first is not None and first[0] <= queues_end) or left == 0:
            return i
        i -= 1
    return i


def abort_start(broker: Broker, checker: Checker) -> int:
    """Return the number of the file in which the scan begins after a crash."""
    files = broker.log.files
    left = broker.most_recovered
    for i in range(len(files) - 1, -1, -1):
        left -= 1
        if _matches(broker, checker, files[i]) or left == 0:
            return i
    return 0


def _matches(broker: Broker, checker: Checker, file: Mapped) -> bool:
    rule, checkpoint = broker.rules.abort_start, broker.checkpoint
    if rule == r.STORE_TIME:
        return _time_matches(broker, file)
    first = _first_record(broker, checker, file)
    if first is None:
        return False
    offset, store_ms = first
    if rule == r.CHECKED_TIME:
        return store_ms <= checkpoint.min_ms
    if checkpoint.queued_offset > 0:
        return offset <= checkpoint.queued_offset
    return store_ms <= checkpoint.logic_ms


def _first_record(broker: Broker, checker: Checker, file: Mapped) -> tuple[int, int] | None:
    """Return offset and store time that a file's first record says, None if it is no whole record."""
    checked = checker.check(broker.source(file, file.size), 0, file.base, crc=True, body=True)
    request = checked.request
    if not checked.good or request is None or request.store_ms == 0:
        return None
    return request.offset, request.store_ms


def _time_matches(broker: Broker, file: Mapped) -> bool:
    """Tell whether a file's first bytes look like a record that is older than the checkpoint."""
    head = broker.bytes_of(file, 0, min(76, file.size))
    if len(head) < 76:
        return False
    magic, sys_flag = (int.from_bytes(head[at : at + 4], "big", signed=True) for at in (log.MAGIC_AT, log.SYS_FLAG_AT))
    if magic != log.MAGIC_V1 and not (magic == log.MAGIC_V2 and broker.rules.long_topics):
        return False
    at = log.BORN_HOST_AT + log.host_bytes(sys_flag)[0]
    store_ms = int.from_bytes(head[at : at + 8], "big", signed=True)
    return store_ms != 0 and store_ms <= broker.checkpoint.min_ms
