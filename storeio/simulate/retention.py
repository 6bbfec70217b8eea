"""What a running broker's own cleaning deletes: forecast run by run from a broker after its start.

Each run takes segments of the log first, then files of queues that only point at what is gone, then
index files. A segment's age is the file system's modification time, no time of a message.

Source: ``CleanCommitLogService``, ``CleanConsumeQueueService``, ``MappedFileQueue.deleteExpiredFileByTime``,
``deleteExpiredFileByOffset``, ``IndexService.deleteExpiredFile``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from storeio.errors import UsageError
from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, QUEUE_EXT
from storeio.simulate.broker import Broker
from storeio.simulate.clock import HOUR_MS, is_time
from storeio.simulate.ends import JavaError
from storeio.simulate.progress import Progress, Unread, unread
from storeio.simulate.rules import Rules

Mins = dict[str, tuple[int, int]]
"""First and next queue offset of each queue, by ``topic/queue_id``."""

FIXED_BATCH: Final = 10  # DELETE_FILES_BATCH_MAX of 4.x
HOUR: Final = "the hour of deleteWhen"
SPACE: Final = "the disk is used above diskMaxUsedSpaceRatio, or nearly full"
MANUAL: Final = "asked for by an operator"


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Settings of the broker's cleaning, each with the broker's default.

    ``warning_ratio`` and ``forcible_ratio`` are the shares of a disk from which segments of any age go.
    """

    delete_when: str = "04"
    reserved_hours: int = 72
    max_used_percent: int = 75
    files_per_run: int = FIXED_BATCH
    forcible: bool = True
    warning_ratio: float = 0.90
    forcible_ratio: float = 0.85

    def under(self, rules: Rules) -> Cleaning:
        """Return these settings as a version's getters give them: clamped, or fixed where it has no such setting."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["max_used_percent"] = min(max(self.max_used_percent, 10), 95)
        if rules.deletion_set:
            values["warning_ratio"] = min(max(self.warning_ratio, 0.35), 0.90)
            values["forcible_ratio"] = min(max(self.forcible_ratio, 0.30), 0.85)
        else:
            values["files_per_run"] = FIXED_BATCH
        return Cleaning(**values)


def cleaning_of(settings: Mapping[str, str]) -> Cleaning:
    """Return the settings that a broker.conf gives, defaults for the rest; other names are passed over.

    Raises:
        UsageError: A number or flag that is none.
    """
    default = Cleaning()
    return Cleaning(
        settings.get("deleteWhen", default.delete_when),
        _number(settings, "fileReservedTime", default.reserved_hours),
        _number(settings, "diskMaxUsedSpaceRatio", default.max_used_percent),
        _number(settings, "deleteFileBatchMax", default.files_per_run),
        settings.get("cleanFileForciblyEnable", "true").strip().lower() == "true",
        _number(settings, "diskSpaceWarningLevelRatio", 90) / 100,
        _number(settings, "diskSpaceCleanForciblyRatio", 85) / 100,
    )


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, str(default)).strip()
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}={text}: a whole number is needed") from None


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a run of the cleaning finds, besides the store.

    ``mtimes_ms`` are the segments' modification times by path; one that is not named was written just
    now. ``hour`` is the hour of day in the broker's time zone. ``disk_used_ratio`` is the used share of
    the log's partition, as ``used_ratio`` rounds it, -1 where the broker finds no such path; so is
    ``queue_used_ratio`` for the queues' partition, None where that is the same.
    """

    now_ms: int
    hour: int
    mtimes_ms: Mapping[str, int]
    disk_used_ratio: float = 0.0
    queue_used_ratio: float | None = None
    manual: bool = False


@dataclass(frozen=True, slots=True)
class Cycle:
    """The store after one run of the cleaning, and what the run did.

    ``reasons`` is why the log was looked at, empty if it was not; ``any_age`` that a nearly full disk
    made age no matter; ``stopped`` the exception that ended the run early; ``unread`` the messages that
    went from queues before consumer groups have had them, where that is known.
    """

    min_physical_offset: int
    max_physical_offset: int
    queues: Mins
    commitlog: tuple[str, ...]
    queue_files: tuple[str, ...]
    index_files: int
    deleted: tuple[str, ...]
    deleted_bytes: int
    reasons: tuple[str, ...]
    any_age: bool
    stopped: str
    unread: tuple[Unread, ...]


class Cleaner:
    """The two cleaning services of one broker; changes the broker's files in memory and its disk's overlay."""

    def __init__(self, broker: Broker, cleaning: Cleaning, progress: Progress | None = None) -> None:
        self.broker, self.cleaning, self.progress = broker, cleaning.under(broker.rules), progress
        self.queues_cleaned_to = 0  # the log's min at the last run that looked at the queues
        self._any_age = False

    def run(self, conditions: Conditions) -> Cycle:
        """Do one run; return the store after it."""
        disk, mins = self.broker.disk, mins_and_maxes(self.broker)
        sizes = {path: file.size for path, file in disk.files.items()}
        before = len(disk.deleted)
        reasons: tuple[str, ...] = ()
        stopped = []
        try:
            reasons = self._reasons(conditions)
            if reasons:
                self._clean_log(conditions)
        except JavaError as error:
            stopped.append(str(error))
        try:
            self._clean_queues()
        except JavaError as error:  # the service goes on at its next run, and only if the log's min has grown
            stopped.append(str(error))
        deleted = tuple(disk.deleted[before:])
        freed = sum(sizes.get(path, 0) for path in deleted)
        return self._cycle(mins, deleted, freed, reasons, "; ".join(stopped))

    def _reasons(self, conditions: Conditions) -> tuple[str, ...]:
        """Return why the log is looked at.

        Raises:
            JavaError: ``deleteWhen`` holds what is no number. Then a full disk deletes nothing either.
        """
        hour = is_time(self.cleaning.delete_when, conditions.hour)
        space = self._space(conditions)
        return tuple(text for text, holds in ((HOUR, hour), (SPACE, space), (MANUAL, conditions.manual)) if holds)

    def _space(self, conditions: Conditions) -> bool:
        """Tell whether space is a reason, and note whether age matters. Source: ``isSpaceToDelete``."""
        cleaning = self.cleaning
        queues = conditions.queue_used_ratio
        ratios = (conditions.disk_used_ratio, conditions.disk_used_ratio if queues is None else queues)
        limit = cleaning.max_used_percent / 100
        nearly_full = min(cleaning.warning_ratio, cleaning.forcible_ratio)
        self._any_age = False
        if self.broker.rules.full_disk_deletes:
            self._any_age = any(ratio > nearly_full for ratio in ratios)
            return self._any_age or any(ratio < 0 or ratio > limit for ratio in ratios)
        for ratio in ratios:
            self._any_age |= ratio > nearly_full
            if ratio < 0 or ratio > limit:
                return True  # 4.x has then not looked at the queues' partition
        return False

    def _clean_log(self, conditions: Conditions) -> None:
        any_age = self._any_age and self.cleaning.forcible
        most = max(self.cleaning.files_per_run, 1)  # the broker counts after it has deleted
        for file in self.broker.log.files[:-1][:most]:
            age_ms = conditions.now_ms - conditions.mtimes_ms.get(file.path, conditions.now_ms)
            if not any_age and age_ms < self.cleaning.reserved_hours * HOUR_MS:
                return  # what is behind a young segment stays, however old
            self.broker.log.drop(file)

    def _clean_queues(self) -> None:
        """Delete files of queues and index that the log has left behind.

        Raises:
            JavaError: A queue cannot be looked at; those after it and the index are not.
        """
        physical_min = self.broker.log.min_offset
        if physical_min <= self.queues_cleaned_to:
            return
        self.queues_cleaned_to = physical_min
        for key in sorted(self.broker.queues):
            queue = self.broker.queues[key]
            for file in queue.files.files[:-1]:
                # Where a file is not full the broker finds no unit at its end, and leaves the rest.
                last = queue.units(file, file.size - queue.unit_bytes, file.size)
                if file.wrote < file.size or int(last["physical_offset"][0]) >= physical_min:
                    break
                queue.files.drop(file)
            queue.correct_min(physical_min)
        index = self.broker.index
        while len(index.files) > 1 and index.files[0].end_offset < physical_min:
            self.broker.disk.delete(index.files.pop(0).path)

    def _cycle(self, mins: Mins, deleted: tuple[str, ...], freed: int, reasons: tuple[str, ...], stopped: str) -> Cycle:
        broker = self.broker
        queues = mins_and_maxes(broker)
        return Cycle(
            broker.log.min_offset,
            broker.log.max_offset,
            queues,
            tuple(broker.disk.below((COMMITLOG,))),
            tuple(broker.disk.below((CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT))),
            len(broker.index.files),
            deleted,
            freed,
            reasons,
            bool(reasons) and self._any_age and self.cleaning.forcible,
            stopped,
            () if self.progress is None else tuple(unread(mins, queues, self.progress)),
        )


def mins_and_maxes(broker: Broker) -> Mins:
    """Return where each queue begins and ends."""
    return {
        f"{topic}/{number}": (queue.min_offset, queue.max_offset)
        for (topic, number), queue in sorted(broker.queues.items())
    }


def forecast(
    broker: Broker, cleaning: Cleaning, conditions: Iterable[Conditions], progress: Progress | None = None
) -> list[Cycle]:
    """Return the store after each of several runs. ``broker`` and its disk have the changes afterwards.

    With ``progress``, each run tells which messages it takes from groups that have not consumed them.
    """
    cleaner = Cleaner(broker, cleaning, progress)
    return [cleaner.run(each) for each in conditions]


def used_ratio(used_bytes: int, usable_bytes: int) -> float:
    """Return the used share of a partition as the broker sees it: whole percents, rounded up.

    ``usable_bytes`` is what an ordinary process may still write; a disk's reserve counts as neither.
    """
    entire = used_bytes + usable_bytes
    return -(-used_bytes * 100 // entire) / 100 if entire > 0 else -1.0


def as_recorded(cycle: Cycle) -> dict[str, Any]:
    """Return a run in the shape of the recorded ones."""
    return {
        "min_physical_offset": cycle.min_physical_offset,
        "max_physical_offset": cycle.max_physical_offset,
        "queues": {name: list(values) for name, values in cycle.queues.items()},
        "files": {
            "commitlog": list(cycle.commitlog),
            "consumequeue": list(cycle.queue_files),
            "index": cycle.index_files,
        },
    }
