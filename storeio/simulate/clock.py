"""When a broker deletes by time: the hours of ``deleteWhen``, and when each segment's turn comes.

Source: ``UtilAll.isItTimeToDo``, ``CleanCommitLogService.isTimeToDelete``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from storeio.format.properties import java_int, java_split
from storeio.simulate.ends import JavaError

HOUR_MS: Final = 3_600_000
DAY_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class Due:
    """When a segment may go by time alone: old enough at ``expires_ms``, deleted at ``deletable_ms``.

    ``deletable_ms`` is the first moment of a deletion hour at which no older segment holds it up, None
    for the last segment, which never goes, and where ``deleteWhen`` names no hour.
    """

    path: str
    expires_ms: int
    deletable_ms: int | None


def is_time(delete_when: str, hour: int) -> bool:
    """Tell whether ``deleteWhen`` names an hour of the day.

    Raises:
        JavaError: A part of it is no number, and no part before that is the hour.
    """
    for part in java_split(delete_when, ";"):
        number = java_int(part)
        if number is None:
            raise JavaError(f"deleteWhen={delete_when}: {part!r} is no number")
        if number == hour:
            return True
    return False


def deletion_hours(delete_when: str) -> list[int]:
    """Return the hours of the day at which ``deleteWhen`` deletes, sorted; those that Java's reading reaches."""
    found = []
    for hour in range(DAY_HOURS):
        try:
            if is_time(delete_when, hour):
                found.append(hour)
        except JavaError:
            continue
    return found


def hour_of(now_ms: int, zone_offset_ms: int) -> int:
    """Return the hour of day in a time zone that is ``zone_offset_ms`` ahead of UTC."""
    return (now_ms + zone_offset_ms) // HOUR_MS % DAY_HOURS


def due_times(
    paths: Iterable[str],
    mtimes_ms: Mapping[str, int],
    *,
    reserved_hours: int,
    delete_when: str,
    zone_offset_ms: int = 0,
    now_ms: int | None = None,
) -> list[Due]:
    """Return when each segment becomes deletable by time.

    Args:
        paths: Segments in the log's order; the last one stays for ever.
        mtimes_ms: Modification times by path. One that is not named counts as written at ``now_ms``.
        reserved_hours: ``fileReservedTime``.
        delete_when: ``deleteWhen``.
        zone_offset_ms: The broker's time zone, ahead of UTC; a change to summer time is not foreseen.
        now_ms: Nothing is deletable before. None: whenever it was.
    """
    order = list(paths)
    hours = deletion_hours(delete_when)
    earliest = now_ms
    found = []
    for i, path in enumerate(order):
        expires = mtimes_ms.get(path, now_ms or 0) + reserved_hours * HOUR_MS
        earliest = expires if earliest is None else max(earliest, expires)
        at = None if i == len(order) - 1 else _next_time(earliest, hours, zone_offset_ms)
        found.append(Due(path, expires, at))
    return found


def _next_time(start_ms: int, hours: list[int], zone_offset_ms: int) -> int | None:
    """Return the first moment from ``start_ms`` on that lies in one of the hours of the day."""
    if not hours:
        return None
    if hour_of(start_ms, zone_offset_ms) in hours:
        return start_ms
    whole = start_ms + zone_offset_ms - (start_ms + zone_offset_ms) % HOUR_MS
    for ahead in range(1, DAY_HOURS + 1):
        at = whole + ahead * HOUR_MS - zone_offset_ms
        if hour_of(at, zone_offset_ms) in hours:
            return at
    return None
