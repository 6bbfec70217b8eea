"""Sentences on what new messages do not get into after a start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from storeio.paths import COMMITLOG, INDEX
from storeio.report.tables import counted
from storeio.safe import printable
from storeio.simulate.outcome import STOPS
from storeio.simulate.predicted import Ahead, Stopped

FEW: Final = 5  # names in a sentence


def stopped_sentences(found: Stopped) -> Iterator[str]:
    """Yield what gets nothing of new messages, and until when."""
    if found.every:
        _, seem = _named(found.queues)
        into = "any queue or the index"
        yield f"puts no new message into {into} before the log has grown to {found.until}, where {seem}."
    ends = sorted({each.until for each in found.queues}) if not found.every else []
    for until in ends[:FEW]:
        names, seem = _named([each for each in found.queues if each.until == until])
        yield f"puts no new message into {names} before the log has grown to {until}, where {seem}."
    if len(ends) > FEW:
        yield f"does so with {counted(sum(each.until > ends[FEW - 1] for each in found.queues), 'more queue')}."
    if found.keys_until:
        yield f"puts no key of a new message into the index before the log has grown to {found.keys_until}, its end."
    for path in found.hidden[:FEW]:
        whole = path.startswith(f"{COMMITLOG}/")
        end = "the log" if whole else "its queue"
        lost = "consumers and queries do not get them" if whole else "consumers miss some, and get others late"
        yield f"takes {printable(path)} for the end of {end}, and looks for new messages elsewhere: {lost}."
    if len(found.hidden) > FEW:
        yield f"does so with {counted(len(found.hidden) - FEW, 'more file')}."
    if found.in_the_way:
        names = ", ".join(map(printable, found.in_the_way[:FEW])) + _more(len(found.in_the_way))
        whose = "the index" if found.in_the_way == (INDEX,) else "a queue"
        yield f"cannot make the next file of {whose} where {names} is; once a message needs one, {STOPS}."


def _named(queues: Sequence[Ahead]) -> tuple[str, str]:
    """Return the names of queues, and that they seem to end somewhere."""
    names = ", ".join(f"{printable(each.topic)}/{each.queue_id}" for each in queues[:FEW]) + _more(len(queues))
    return names, f"{names} {'seems' if len(queues) == 1 else 'seem'} to end"


def _more(count: int) -> str:
    return f" and {count - FEW} more" if count > FEW else ""
