"""Real brokers' message stores, started on a directory: what they make of it and what clients get.

``run`` starts one, in a JVM that has started others where nothing speaks against it (``process.py``). It changes the
directory as any start does: give it a copy.
As a program, ``PYTHONPATH=.:tests python -m broker.brokers VERSION STORE [name=value]...`` times a start, with
``--rebuild`` the rebuild of queues and index.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from broker.jvm import SERVER, escaped, quick
from broker.process import Process, Said, kept

VERSIONS: Final = ("4.9.8", "5.3.3", "5.5.1")
MORE_VERSIONS: Final = ("5.1.4", "5.4.0")  # wrote golden stores, too; kept out of make test for the time they take

LAST_LINES: Final = 8  # of the broker's log, where it does not say otherwise why it refuses

Outcome = Literal["starts", "refuses", "crashes", "hangs"]
Queue = tuple[str, int]  # topic, queue id
Key = tuple[str, str]  # topic, key


@dataclass(frozen=True)
class Delivered:
    """One message as a pull consumer of a queue gets it."""

    topic: str  # of the queue; a light queue's message has another topic itself
    queue_id: int
    unit_offset: int  # where in the queue it was found
    queue_offset: int  # what the message itself says
    physical_offset: int
    size: int  # bytes, the whole record
    unique_key: str
    body_crc: int  # of the bytes delivered
    body_ok: bool  # body_crc is the one that the record holds
    inner: int  # messages that a client makes of it


@dataclass(frozen=True)
class Odd:
    """A pull that gave no message, or one that cannot be decoded."""

    topic: str
    queue_id: int
    asked_offset: int
    status: str


@dataclass(frozen=True)
class New:
    """A message put after the start."""

    topic: str
    queue_id: int
    status: str  # begins with THROWS where the store threw something
    queue_offset: int  # -1 if it was not put
    physical_offset: int
    delivered: bool  # a pull at queue_offset gives it
    found: bool  # its key leads to it, and to nothing else


@dataclass(frozen=True)
class Started:
    """What a broker made of a store. What it did not get to is empty, or None."""

    version: str
    outcome: Outcome
    reason: str  # of another outcome than "starts"
    log: tuple[str, ...]  # the broker's warnings and errors
    loaded_range: tuple[int, int] | None = None  # physical offsets after load: minimum, maximum
    log_range: tuple[int, int] | None = None  # the same once dispatch has caught up
    queues: Mapping[Queue, tuple[int, int]] = field(default_factory=dict)  # minimum, maximum queue offset
    delivered: tuple[Delivered, ...] = ()
    odd: tuple[Odd, ...] = ()
    hits: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)  # physical offsets, ascending
    new: tuple[New, ...] = ()
    unknown_settings: tuple[str, ...] = ()  # that this version does not have
    abort_left: bool | None = None  # the abort file is there after the stop
    load_ms: float | None = None
    start_ms: float | None = None  # until start() returned; 4.x waits there a second at a time
    caught_up_ms: float | None = None  # from the call of start() until dispatch had caught up


def run(
    version: str,
    root: Path,
    options: Mapping[str, Any],
    *,
    consume: bool = True,
    keys: Iterable[Key] = (),
    put: Iterable[Queue] = (),
    stop: Literal["clean", "halt", "loaded"] = "clean",
    timeout: float = 60.0,
    java_options: Sequence[str] | None = None,
    meanwhile: Callable[[], None] | None = None,
    busy: Sequence[str] = (),
) -> Started:
    """Start a broker's store at ``root``, read it as clients do, and stop it.

    Args:
        version: Of the broker, as its artifacts are numbered.
        root: Store root; is changed as by any start.
        options: ``clFile``, ``cqEntries``, ``indexSlots``, ``indexNum``, ``cqExt``, ``cqExtFile``, ``bcqTopics`` and
            ``set.NAME`` for any other setting of the store.
        consume: Pull every queue from its minimum to its maximum.
        keys: To be queried, once each.
        put: Queues that get one new message each, in this order, after everything else.
        stop: ``clean`` as an operator stops a broker, which takes it some seconds; ``halt`` as a killed one;
            ``loaded`` as one killed between load and start, which is asked for nothing.
        timeout: Seconds after which it is said to hang, and killed.
        java_options: Heap and compiler, if not those for starts and small stores; a JVM of its own has them.
        meanwhile: Called while the broker runs, in a JVM of its own, before it is read.
        busy: Topics that get some 2,000 messages a second, in four queues each, as long as that takes.

    Raises:
        UnavailableError: That broker cannot be started on this machine.
        RuntimeError: The program around the broker failed.
    """
    own = java_options is not None or meanwhile is not None
    options_of_jvm = quick(version) if java_options is None else java_options
    with tempfile.TemporaryDirectory(prefix="storeio-broker-") as scratch:
        home = Path(scratch)
        arguments = {"stop": stop, **{name: str(value) for name, value in options.items()}}
        if consume:
            arguments["delivered"] = str(home / "delivered")
        if keys := sorted(set(keys)):
            arguments |= {"keys": str(_write(home / "keys", keys)), "found": str(home / "found")}
        if put := list(put):
            arguments["put"] = str(_write(home / "put", put))
        if meanwhile is not None:
            arguments |= {"pause": str(home), **({"busy": ",".join(busy)} if busy else {})}
        with _jvm(version, options_of_jvm, own=own) as jvm, _while_up(home, meanwhile, timeout):
            return _read(version, home, jvm.start(root, arguments, timeout))


@contextlib.contextmanager
def _jvm(version: str, options: Sequence[str], *, own: bool) -> Iterator[Process]:
    """Yield the JVM for a start: one that is kept for others, or one of its own."""
    if not own:
        yield kept(version, options)
        return
    process = Process(version, options)
    try:
        yield process
    finally:
        process.close()


@contextlib.contextmanager
def _while_up(home: Path, meanwhile: Callable[[], None] | None, timeout: float) -> Iterator[None]:
    """Call something once the broker in the block is up, and then let it go on; what that raises is raised here."""
    if meanwhile is None:
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(_call_when_up, home, meanwhile, timeout)
        yield
        done.result()


def _call_when_up(home: Path, meanwhile: Callable[[], None], timeout: float) -> None:
    end = time.monotonic() + timeout
    while not (home / "up").exists():
        if time.monotonic() > end:
            raise TimeoutError("the broker did not come up")
        time.sleep(0.02)
    try:
        meanwhile()
    finally:
        (home / "go").touch()


def rebuild(version: str, root: Path, options: Mapping[str, Any], *, timeout: float = 600.0) -> Started:
    """Take a store's queues and index away and let the broker build them again; ``load_ms + caught_up_ms`` is the time.

    Which of the two does the work depends on the version: 5.x dispatches in part while it loads. The start is that
    after a clean stop, without a checkpoint.
    """
    for folder in ("consumequeue", "batchconsumequeue", "consumequeue_ext", "index"):
        shutil.rmtree(root / folder, ignore_errors=True)
    for name in ("abort", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    return run(version, root, options, consume=False, stop="halt", timeout=timeout, java_options=SERVER)


def recover(version: str, root: Path, options: Mapping[str, Any], *, timeout: float = 600.0) -> Started:
    """Let a broker load a store as after a crash that left no checkpoint; ``load_ms`` is the time.

    It then begins with the first segment; up to 5.3.3 it dispatches every record again.
    """
    (root / "abort").touch()
    (root / "checkpoint").unlink(missing_ok=True)
    return run(version, root, options, consume=False, stop="loaded", timeout=timeout, java_options=SERVER)


def _write(path: Path, rows: Iterable[tuple[str, str | int]]) -> Path:
    lines = (f"{escaped(str(first))}\t{escaped(str(second))}\n" for first, second in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _rows(path: Path) -> list[list[str]]:
    """Return the cells of a file that the program wrote; none if it did not get that far."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [[_plain(cell) for cell in line.split("\t")] for line in lines]


def _plain(cell: str) -> str:
    if "\\" not in cell:
        return cell
    return "\\".join(part.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r") for part in cell.split("\\\\"))


def _read(version: str, home: Path, said: Said) -> Started:
    """Return what the events and the files of one start, and the exit code if it has one, amount to."""
    events: dict[str, list[dict[str, Any]]] = {}
    for event in said.events:
        events.setdefault(event["event"], []).append(event)
    log = tuple(said.log.splitlines())
    outcome, reason = _outcome(events, said, log)
    loaded = events.get("loaded", [{}])[0]
    started = events.get("started", [{}])[0]
    rows = _rows(home / "delivered")[1:] if "delivered" in events else []
    hits = _rows(home / "found") if "queried" in events else []
    return Started(
        version,
        outcome,
        reason,
        log,
        loaded_range=(loaded["min"], loaded["max"]) if loaded.get("ok") else None,
        log_range=(started["min"], started["max"]) if started else None,
        queues={(queue["topic"], queue["queueId"]): (queue["min"], queue["max"]) for queue in events.get("queue", [])},
        delivered=tuple(_delivered(row) for row in rows if row[4]),
        odd=tuple(Odd(row[0], int(row[1]), int(row[2]), row[3]) for row in rows if not row[4]),
        hits={(topic, key): tuple(sorted(map(int, found.split(",")))) if found else () for topic, key, found in hits},
        new=tuple(_new(event) for event in events.get("put", [])),
        unknown_settings=tuple(event["name"] for event in events.get("unknown setting", [])),
        abort_left=events["stopped"][0]["abort"] if "stopped" in events else None,
        load_ms=loaded.get("loadMs"),
        start_ms=started.get("startMs"),
        caught_up_ms=started.get("caughtUpMs"),
    )


def _outcome(events: Mapping[str, Sequence[Mapping[str, Any]]], said: Said, log: Sequence[str]) -> tuple[Outcome, str]:
    stage = "after the start" if "started" in events else "in start" if "loaded" in events else "in load"
    if "stopped" in events:
        return "starts", ""
    if said.code is None:
        return "hangs", stage
    if "Could not find or load main class" in said.error:
        raise RuntimeError(said.error)
    if "loaded" in events and not events["loaded"][0]["ok"]:
        lines = [line for line in log if line.startswith(("WARN", "ERROR"))]  # the others belong to stacks
        return "refuses", "; ".join(lines[-LAST_LINES:]) or "load answered false"
    thrown = events["failed"][0]["error"] if "failed" in events else f"exit code {said.code}: {said.error[-300:]}"
    return "crashes", f"{stage}: {thrown}"


def _delivered(row: Sequence[str]) -> Delivered:
    topic, queue_id, unit, _, queue_offset, physical, size, unique_key, crc, ok, inner = row
    return Delivered(
        topic, int(queue_id), int(unit), int(queue_offset), int(physical), int(size), unique_key, int(crc),
        ok == "true", int(inner),
    )  # fmt: skip


def _new(event: Mapping[str, Any]) -> New:
    return New(
        event["topic"], event["queueId"], event["status"], event["queueOffset"], event["physicalOffset"],
        event["delivered"], event["found"],
    )  # fmt: skip


def main() -> None:
    """Print, as JSON, how long one start took."""
    parser = argparse.ArgumentParser(prog="python -m broker.brokers", description=main.__doc__)
    parser.add_argument("version")
    parser.add_argument("store", type=Path, help="is changed as by any start")
    parser.add_argument("options", nargs="*", metavar="name=value", help="clFile, cqEntries, indexSlots, set.NAME ...")
    parser.add_argument("--rebuild", action="store_true", help="delete queues and index first")
    arguments = parser.parse_intermixed_args()
    options = dict(option.split("=", 1) for option in arguments.options)
    if arguments.rebuild:
        started = rebuild(arguments.version, arguments.store, options)
    else:
        started = run(
            arguments.version, arguments.store, options, consume=False, stop="halt", timeout=600.0, java_options=SERVER
        )
    figures = {"loadMs": started.load_ms, "startMs": started.start_ms, "caughtUpMs": started.caught_up_ms}
    print(json.dumps({"version": started.version, "outcome": started.outcome, "reason": started.reason, **figures}))


if __name__ == "__main__":
    main()
