"""What a whole store gives its clients, and the assertions that a broker gives exactly that.

Expected is what the log's own records say, by the broker's rules of dispatch; nothing here reads a store.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from broker.brokers import Key, Queue, Started, run

TRANSACTION: Final = 0x0C  # bits of the system flag
PREPARED: Final = 0x04
ROLLED_BACK: Final = 0x0C
TAG_KEY: Final = "T#"
LIGHT: Final = "%LMQ%"
LIMITED_RECOVERY: Final = (5, 4)  # from this version on commitLogRecoverMaxNum, by default as many:
RECOVERED_SEGMENTS: Final = 10
CHECKPOINT_BYTES: Final = 4096
SHOWN: Final = 5  # of each kind of difference

# As Java prints a map; the offsets stand beside the names.
_NAMES: Final = re.compile(r"\bINNER_MULTI_DISPATCH=(\S+?)(?:, |\}$)")
_TAGS: Final = re.compile(r"\bTAGS=(\S+?)(?:, |\}$)")
_OFFSETS: Final = re.compile(r"\bINNER_MULTI_QUEUE_OFFSET=(\S+?)(?:, |\}$)")


class _Required(TypedDict):
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    keys: str | None  # as the message has them, with blanks between
    unique_key: str | None


class Record(_Required, total=False):
    """One record of a log; what is not given is not compared."""

    size: int
    body_crc: int
    body_bytes: int
    batch_size: int  # messages in an inner batch
    tags: str
    light_queues: Sequence[tuple[str, int, int]]  # topic, queue id, queue offset: where else it is dispatched to


class Message(TypedDict):
    """One message that a queue has to give."""

    topic: str
    queue_id: int
    unit_offset: int
    record: Record


Keys = dict[Key, tuple[int, ...]]  # physical offsets of the messages with that key, ascending
State = Literal["clean", "abort"]


def records_of(dump: Iterable[Mapping[str, str]], options: Mapping[str, Any]) -> list[Record]:
    """Return the records of a golden dump, whose values are as the broker's own decoder printed them."""
    light = str(options.get("set.enableMultiDispatch")).lower() == "true"
    return [
        Record(
            topic=row["topic"],
            queue_id=int(row["queue_id"]),
            queue_offset=int(row["queue_offset"]),
            physical_offset=int(row["phy_offset"]),
            sys_flag=int(row["sys_flag"]),
            keys=None if row["keys"] == "null" else row["keys"],
            unique_key=None if row["uniq_key"] == "null" else row["uniq_key"],
            size=int(row["size"]),
            body_crc=int(row["body_crc"]),
            body_bytes=int(row["body_len"]),
            batch_size=int(row["batch_size"]),
            tags=tags[1] if (tags := _TAGS.search(row["properties"])) else "",
            light_queues=_light_queues(row) if light else (),
        )
        for row in dump
    ]


def _light_queues(row: Mapping[str, str]) -> list[tuple[str, int, int]]:
    names, offsets = _NAMES.search(row["properties"]), _OFFSETS.search(row["properties"])
    if names is None or offsets is None:
        return []
    return light_queues(names[1], offsets[1], int(row["queue_id"]))


def light_queues(names: str, offsets: str, queue_id: int) -> list[tuple[str, int, int]]:
    """Return where else a record is dispatched to, from its lists of names and of numbers there."""
    pairs = zip(names.split(","), offsets.split(","), strict=True)
    return [(name, 0 if name.startswith(LIGHT) else queue_id, int(offset)) for name, offset in pairs]


def messages_of(records: Iterable[Record]) -> list[Message]:
    """Return what consumers have to get: all but prepared and rolled back messages, light queues included.

    In a light queue prepared and rolled back messages take an offset, but no unit: brokers append the next one behind
    the last all the same, so that from there on units stand before the offsets that the messages name.
    """
    messages = []
    ends: dict[Queue, int] = {}
    for record in records:
        if record["sys_flag"] & TRANSACTION in (PREPARED, ROLLED_BACK):
            continue
        own = Message(
            topic=record["topic"], queue_id=record["queue_id"], unit_offset=record["queue_offset"], record=record
        )
        messages.append(own)
        for topic, queue_id, offset in record.get("light_queues", ()):
            unit = ends.get((topic, queue_id), offset)
            ends[topic, queue_id] = unit + 1
            messages.append(Message(topic=topic, queue_id=queue_id, unit_offset=unit, record=record))
    return messages


def keys_of(records: Iterable[Record], *, tags: bool = False) -> Keys:
    """Return where every key and unique key leads: all but those of rolled back messages are indexed.

    Args:
        records: Of the log.
        tags: The index was written by 5.4 or later, which give each tag a key, too.
    """
    found: dict[Key, list[int]] = {}
    for record in records:
        if record["sys_flag"] & TRANSACTION == ROLLED_BACK:
            continue
        tag = TAG_KEY + record.get("tags", "") if tags and record.get("tags") else ""
        for key in (record["unique_key"], *(record["keys"] or "").split(" "), tag):
            if key:
                found.setdefault((record["topic"], key), []).append(record["physical_offset"])
    return {key: tuple(sorted(offsets)) for key, offsets in found.items()}


def assert_whole(
    started: Started, messages: Sequence[Message], keys: Mapping[Key, Sequence[int]], log_end: int | None = None
) -> None:
    """Assert that a broker started and gave exactly these messages, each once at its own queue offset, and these hits.

    Args:
        started: A start that consumed and was asked for all ``keys``.
        messages: What ``messages_of`` gives, or what a repair promises to be left of it.
        keys: What ``keys_of`` gives. A key that has to lead nowhere has no offsets.
        log_end: The log's end that the broker has to keep, in bytes.
    """
    assert started.outcome == "starts", f"broker {started.version} {started.outcome}: {started.reason}"
    differences = [
        *_delivery_differences(started, messages),
        *_content_differences(started, messages),
        *_hit_differences(started.hits, keys),
    ]
    if log_end is not None and started.log_range is not None and started.log_range[1] != log_end:
        differences.insert(0, f"the log ends at {started.log_range[1]}, not at {log_end}")
    assert not differences, f"broker {started.version}:\n" + "\n".join(differences)


def _delivery_differences(started: Started, messages: Sequence[Message]) -> list[str]:
    """Return what was not delivered, or was and should not be: queue, place in it, place in the log, once each."""
    expected = Counter(
        (message["topic"], message["queue_id"], message["unit_offset"], message["record"]["physical_offset"])
        for message in messages
    )
    given = Counter((got.topic, got.queue_id, got.unit_offset, got.physical_offset) for got in started.delivered)
    return [
        *_shown("not delivered (topic, queue, offset, physical offset)", sorted((expected - given).elements())),
        *_shown("delivered, not expected", sorted((given - expected).elements())),
        *_shown("pulls without a message", started.odd),
    ]


def _content_differences(started: Started, messages: Sequence[Message]) -> list[str]:
    """Return delivered messages that are not what their record is: own queue offset, size, body, inner messages."""
    expected = {
        (message["topic"], message["queue_id"], message["record"]["physical_offset"]): message["record"]
        for message in messages
    }
    wrong = []
    for got in started.delivered:
        record = expected.get((got.topic, got.queue_id, got.physical_offset))
        if record is None:
            continue
        pairs = {
            "queue offset": (got.queue_offset, record["queue_offset"]),
            "size": (got.size, record.get("size", got.size)),
            "body": (got.body_crc, record.get("body_crc", got.body_crc) if record.get("body_bytes", 1) else 0),
            "body as its CRC says": (got.body_ok, True),
            "unique key": (got.unique_key, record["unique_key"] or got.unique_key),
            "inner messages": (got.inner, record.get("batch_size", got.inner)),
        }
        bad = [f"{name} {is_!r}, not {should!r}" for name, (is_, should) in pairs.items() if is_ != should]
        if bad:
            wrong.append(f"{got.topic}/{got.queue_id} at {got.unit_offset}: {', '.join(bad)}")
    return _shown("delivered, but not as it was stored", wrong)


def _hit_differences(hits: Mapping[Key, Sequence[int]], keys: Mapping[Key, Sequence[int]]) -> list[str]:
    wrong = [
        f"{topic}#{key}: found {list(hits.get((topic, key), ()))}, not {sorted(offsets)}"
        for (topic, key), offsets in keys.items()
        if sorted(hits.get((topic, key), ())) != sorted(offsets)
    ]
    return _shown("keys that lead elsewhere", wrong)


def _shown(what: str, items: Sequence[object]) -> list[str]:
    if not items:
        return []
    more = [f"  and {len(items) - SHOWN} more"] if len(items) > SHOWN else []
    return [f"{what}: {len(items)}", *(f"  {item}" for item in items[:SHOWN]), *more]


def as_after(root: Path, state: State) -> Path:
    """Return ``root``, made to look stopped cleanly, or killed before its checkpoint said anything.

    A broker that finds the latter trusts neither queues nor index: it reads the log from its first segment and
    builds the index again.
    """
    if state == "clean":
        (root / "abort").unlink(missing_ok=True)
    else:
        (root / "abort").touch()
        (root / "checkpoint").write_bytes(bytes(CHECKPOINT_BYTES))
    return root


def keys_built_again(keys: Mapping[Key, Sequence[int]], root: Path, version: str) -> Keys:
    """Return what is left of ``keys`` after a start that deletes the index and builds it from the log it recovers.

    Up to 5.3 that is the whole log, later its last segments: what lies before them is not found by key any more.
    """
    segments = sorted(int(path.name) for path in (root / "commitlog").glob("*") if path.name.isdigit())
    limited = tuple(map(int, version.split("."))) >= LIMITED_RECOVERY
    start = segments[-RECOVERED_SEGMENTS] if limited and len(segments) > RECOVERED_SEGMENTS else 0
    return {key: tuple(offset for offset in offsets if offset >= start) for key, offsets in keys.items()}


def broker_accepts(
    root: Path,
    version: str,
    options: Mapping[str, Any],
    messages: Sequence[Message],
    keys: Mapping[Key, Sequence[int]],
    *,
    log_end: int | None = None,
    put: Sequence[Queue] = (),
    states: Sequence[State] = ("clean", "abort"),
    timeout: float = 60.0,
) -> dict[State, Started]:
    """Assert that a broker finds a store whole after either stop, and return both starts.

    The store itself is not touched: each start gets a copy. It is stopped by halting, so nothing is said about that.
    After ``abort`` only those keys are asked for that this broker indexes again.
    """
    starts: dict[State, Started] = {}
    for state in states:
        with tempfile.TemporaryDirectory(prefix="storeio-store-") as scratch:
            copy = as_after(shutil.copytree(root, Path(scratch) / "store"), state)
            expected = keys if state == "clean" else keys_built_again(keys, copy, version)
            starts[state] = run(version, copy, options, keys=keys, put=put, stop="halt", timeout=timeout)
        try:
            assert_whole(starts[state], messages, expected, log_end)
        except AssertionError as error:
            raise AssertionError(f"after a stop as in {state!r}: {error}") from None
    return starts


def assert_new_messages(started: Started, put: Sequence[Queue]) -> None:
    """Assert that each queue gave its new messages the offsets after its last one, and clients can have them."""
    ends = {queue: maximum for queue, (_, maximum) in started.queues.items()}
    assert [(new.topic, new.queue_id) for new in started.new] == list(put)
    for new in started.new:
        queue = (new.topic, new.queue_id)
        assert (new.status, new.queue_offset) == ("PUT_OK", ends.get(queue, 0)), new
        assert new.delivered, new
        assert new.found, new
        ends[queue] = new.queue_offset + 1
