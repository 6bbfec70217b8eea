"""Troubles that the tests of a cluster make: processes end, or wait, at a place that a test has chosen.

The interpreter of the cluster's drivers and workers imports this at its start; the product knows nothing of it. A
test asks by making a file in the directory that ``STOREIO_FAULTS`` names, and the first process that comes to the place
takes it by renaming: ``die-<place>`` ends that process with SIGKILL, ``hold-<place>`` has it wait until
the test ends it.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

WHERE = Path(os.environ.get("STOREIO_FAULTS", "/nowhere"))


def claimed(kind: str, done: str, place: str) -> bool:
    """Tell whether this process is the one that is to have a trouble; its id then ends the file's name."""
    try:
        os.rename(WHERE / f"{kind}-{place}", WHERE / f"{done}-{place}-{os.getpid()}")
    except OSError:
        return False
    return True


def die() -> None:
    """End this process as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def hold(place: str) -> None:
    """Wait at a place until the test ends this process."""
    if claimed("hold", "held", place):
        while True:
            time.sleep(1)


def holding(place: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that may have to wait before its work."""

    @functools.wraps(work)
    def held(*args: Any, **rest: Any) -> Any:
        hold(place)
        return work(*args, **rest)

    return held


def tearing(write: Callable[..., int]) -> Callable[..., int]:
    """Return a write to a file of a rebuild after whose first half the process may end."""

    @functools.wraps(write)
    def torn(handle: int, position: int, data: bytes | memoryview) -> int:
        hold("write")
        if len(data) and claimed("die", "died", "write"):
            write(handle, position, memoryview(data).cast("B")[: -(-memoryview(data).nbytes // 2)])
            die()
        return write(handle, position, data)

    return torn


def cutting(write: Callable[..., int]) -> Callable[..., int]:
    """Return a write of what splits hold, after whose first half the process may end."""

    @functools.wraps(write)
    def cut(place: Path, *parts: Iterable[memoryview]) -> int:
        if claimed("die", "died", "spill"):
            data = b"".join(itertools.chain(*parts))
            place.write_bytes(data[: -(-len(data) // 2)])
            die()
        return write(place, *parts)

    return cut


def listing(append: Callable[..., None]) -> Callable[..., None]:
    """Return an append to a table that may have to wait before the one that makes a run visible."""

    @functools.wraps(append)
    def held(frame: Any, path: str, session: Any) -> None:
        if path.endswith("/runs"):
            hold("runs")
        append(frame, path, session)

    return held


def ending(messages: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Return what reads the messages of a segment, and may end the process behind the first of them."""

    @functools.wraps(messages)
    def ended(*args: Any, **rest: Any) -> Iterator[Any]:
        for message in messages(*args, **rest):
            yield message
            if claimed("die", "died", "messages"):
                die()

    return ended


PLACES: dict[str, tuple[str, Callable[..., Any]]] = {
    "storeio.audit.split": ("audit_split", functools.partial(holding, "audit")),
    "storeio.rebuild.lay": ("write_all", tearing),
    "storeio.rebuild.spill": ("_write", cutting),
    "storeio.replay": ("messages", ending),
    "jobs.tables": ("append", listing),
}


class Loader:
    """A module's own loader, which changes one function of it afterwards."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self.inner.exec_module(module)
        name, change = PLACES[module.__name__]
        setattr(module, name, change(getattr(module, name)))


class Finder:
    """Finds the modules of ``PLACES`` where everybody else does."""

    def __init__(self) -> None:
        self.finding = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name not in PLACES or self.finding:
            return None
        self.finding = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.finding = False
        if spec is not None:
            spec.loader = Loader(spec.loader)  # type: ignore[assignment]
        return spec


if "STOREIO_FAULTS" in os.environ:
    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
