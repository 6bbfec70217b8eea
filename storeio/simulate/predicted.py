"""One predicted start with all that is said of it, and one forecast of the cleaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from storeio.results import EXIT_DAMAGED, EXIT_FAILED, EXIT_SOUND, Setting
from storeio.simulate.broker import Broker
from storeio.simulate.clock import Due
from storeio.simulate.disk import Disk
from storeio.simulate.ends import STARTS
from storeio.simulate.losses import GivenUp
from storeio.simulate.outcome import Outcome
from storeio.simulate.pull import Consumed
from storeio.simulate.retention import Cleaning, Cycle


@dataclass(frozen=True, slots=True, order=True)
class Ahead:
    """A queue that gets no unit before the log has grown to ``until``, a physical offset, where it seems to end."""

    topic: str
    queue_id: int
    until: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """What gets nothing of new messages before the log has grown to where it seems to end.

    ``queues`` get no units before each one's end, of which ``until`` is the largest; where ``every`` is set, nothing
    gets any before that, the index neither. The index gets no keys before ``keys_until``. Physical offsets are 0 where
    nothing is stopped. ``hidden`` are the files that take what is new and in which nobody looks for it, as their names,
    or those of files beside them, are not their places, or as units of a batch queue are out of order: a segment's
    messages reach neither consumers nor queries, of a queue's file consumers miss some. ``in_the_way`` are what lies
    where the next file of a queue, or of the index, would be made: once it is needed, no queue gets anything any more.
    """

    queues: tuple[Ahead, ...] = ()
    until: int = 0
    every: bool = False
    keys_until: int = 0
    hidden: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()


def stopped_by(broker: Broker, *, has_index: bool) -> Stopped | None:
    """Return what dispatch of new messages passes over after a start, None if nothing.

    Source: ``ConsumeQueue.putMessagePositionInfo``, ``IndexService.buildIndex``, and up to 4.9
    ``DefaultMessageStore.start``, which begins at the queues' end; ``CommitLog.getData`` and
    ``ConsumeQueue.getIndexBuffer`` look for what is new; ``RunningFlags.makeLogicsQueueError``.
    """
    end = broker.log.max_offset
    queues = [queue for _, queue in sorted(broker.queues.items())]
    ahead = [Ahead(queue.topic, queue.queue_id, queue.max_physical) for queue in queues if queue.max_physical > end]
    until = max((each.until for each in ahead), default=0)
    hiding = (broker.log.hides, *(queue.hides for queue in queues))
    obstacles = [*(queue.files.in_the_way for queue in queues), broker.index.obstacle if has_index else ""]
    keys_until = broker.index.files[-1].end_offset if has_index and broker.index.files else 0
    found = Stopped(
        tuple(ahead), until, bool(ahead) and broker.reput_from > end, keys_until if keys_until > end else 0,
        tuple(filter(None, hiding)), tuple(dict.fromkeys(filter(None, obstacles))),
    )  # fmt: skip
    return found if found != Stopped() else None


@dataclass(slots=True)
class Prediction:
    """One start of one broker version on one store.

    ``given_up`` and ``consumers`` are None where the log was not read for them. ``emptied`` are the
    deleted files of log and queues that held something, ``stopped`` what new messages do not get into.
    ``keys_lost`` counts the keys of messages that only index files had which the start deletes, as brokers do after
    each crash: messages are there, queries by these keys do not find them.
    ``running_end`` is the end of the log at the moment that was looked at, where a broker runs on the store.
    ``not_simulated`` names what the store or its settings have that is not followed here, so that the
    broker may do otherwise; ``unread`` what could not be read, for which zeros were taken. ``once_mended`` is the
    start once tables of ``config`` and timers' files that refuse this one are mended by hand, None if none do.
    """

    store: str
    line: str
    outcome: Outcome
    given_up: GivenUp | None
    consumers: Consumed | None
    disk: Disk
    settings: tuple[Setting, ...]
    emptied: list[str] = field(default_factory=list)
    stopped: Stopped | None = None
    keys_lost: int = 0
    seconds: float = 0.0
    not_simulated: tuple[str, ...] = ()
    running_end: int | None = None
    unread: tuple[str, ...] = ()
    once_mended: Prediction | None = None

    @property
    def harms(self) -> bool:
        """Whether the broker does not start, gives up or hands out wrongly what is intact, or leaves new ones out."""
        if self.outcome.outcome != STARTS or self.outcome.reason or self.emptied or self.stopped:
            return True
        lost = self.given_up is not None and bool(self.given_up.losses or self.given_up.reissues)
        return lost or (self.consumers is not None and self.consumers.lacking)

    @property
    def exit_code(self) -> int:
        """4 where the start harms; 8 is added where something is not simulated, or could not be read."""
        return (EXIT_DAMAGED if self.harms else EXIT_SOUND) | (EXIT_FAILED if self.not_simulated or self.unread else 0)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The next cleanings of one broker on one store.

    ``now`` is a run at ``now_ms``, None where the broker does not start; ``next_runs`` are those at
    ``next_ms``, the next moment at which segments go by age, until a run deletes nothing. ``not_simulated`` is
    that of a ``Prediction``.
    """

    store: str
    broker: str
    line: str
    outcome: Outcome
    now_ms: int
    disk_used_ratio: float
    cleaning: Cleaning
    now: Cycle | None
    due: tuple[Due, ...]
    next_ms: int | None
    next_runs: tuple[Cycle, ...]
    not_simulated: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """4 where the broker does not start; 8 is added where something is not simulated."""
        code = EXIT_SOUND if self.outcome.outcome == STARTS else EXIT_DAMAGED
        return code | (EXIT_FAILED if self.not_simulated else EXIT_SOUND)
