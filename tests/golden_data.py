"""Stores that real brokers wrote, their records as the broker decodes them, and damages with outcomes.

``golden/`` holds them compressed. A store is unpacked when first asked for, once per process, so tests
must not write into it: they take ``copy_of`` or ``damaged``.
"""

from __future__ import annotations

import atexit
import functools
import json
import lzma
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from storeio.reading.holes import data_stretches

GOLDEN: Final = Path(__file__).parent / "golden"

RICH: Final = tuple(sorted(p.name[:-7] for p in GOLDEN.glob("*.tar.gz") if not p.name.startswith("base-")))
BASES: Final = tuple(sorted(p.name[:-7] for p in GOLDEN.glob("base-*.tar.gz")))
STORES: Final = RICH + BASES
CASES: Final = tuple(sorted(p.name[: -len(".jsonl.xz")] for p in GOLDEN.glob("*.jsonl.xz")))
RETENTION: Final = tuple(sorted(p.name[: -len(".jsonl.xz")] for p in GOLDEN.glob("retention/*.jsonl.xz")))

LARGE: Final = 1 << 20  # brokers' batch queues, 14 MB each, which are holes but for their first units

Edit = list[Any]
Case = dict[str, Any]


@functools.cache
def _unpacked() -> Path:
    """Return this process's directory of unpacked stores; it goes with the process."""
    place = Path(tempfile.mkdtemp(prefix="storeio-golden-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@functools.cache
def store(name: str) -> Path:
    """Return the directory of a sound store; read it, never write it."""
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(_unpacked(), filter="data")
        else:
            archive.extractall(_unpacked())
    for path in (_unpacked() / name).rglob("*"):
        if path.is_file() and path.stat().st_size > LARGE:
            data = path.read_bytes()
            path.write_bytes(data.rstrip(b"\0"))
            os.truncate(path, len(data))
    return _unpacked() / name


def copy_of(name: str, target: Path) -> Path:
    """Return ``target``, made a copy of a sound store that the test may change."""
    shutil.copytree(store(name), target, copy_function=_copy)
    return target


def _copy(source: str, target: str) -> None:
    """Copy a file as ``shutil`` does, and leave its holes as they are."""
    if os.stat(source).st_size <= LARGE:
        shutil.copy2(source, target)
        return
    with open(source, "rb") as old, open(target, "wb") as new:
        new.truncate(os.fstat(old.fileno()).st_size)
        for start, stop in data_stretches(old.fileno(), 0, os.fstat(old.fileno()).st_size):
            new.seek(start)
            new.write(os.pread(old.fileno(), stop - start, start))
    shutil.copystat(source, target)


@functools.cache
def without(name: str, target: Path, *gone: str) -> Path:
    """Return a copy of a store that lost some of its directories."""
    root = copy_of(name, target)
    for path in gone:
        shutil.rmtree(root / path, ignore_errors=True)
    return root


def declare(root: Path, types: dict[str, str | None]) -> None:
    """Write a table of topics, some with a type of queue."""
    table = {
        topic: {"attributes": {"queue.type": kind} if kind else {}, "topicName": topic} for topic, kind in types.items()
    }
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def options(name: str) -> dict[str, Any]:
    """Return the sizes and settings the store was written with; ``clFile``, ``cqEntries`` and so on."""
    loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.options.json").read_text())
    return loaded


def sizes_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the sizes that a golden store was written with, as settings."""
    given = {
        "mappedFileSizeCommitLog": options["clFile"],
        "mappedFileSizeConsumeQueue": 20 * options["cqEntries"],
        "maxHashSlotNum": options["indexSlots"],
        "maxIndexNum": options["indexNum"],
    }
    if "cqExtFile" in options:
        given["mappedFileSizeConsumeQueueExt"] = options["cqExtFile"]
    return {name: str(value) for name, value in given.items()}


def given_for(base: str) -> dict[str, str]:
    """Return the settings with which a sound store was written."""
    return sizes_of(options(base))


def segment(number: int) -> str:
    """Return the path of a segment, by its place, of a store whose segments have 32 KiB, as those of ``base-5.3.3``."""
    return f"commitlog/{number * 32768:020d}"


@functools.cache
def dump(name: str) -> list[dict[str, str]]:
    """Return one dict a record in log order, all values as the broker's decoder printed them."""
    text = lzma.decompress((GOLDEN / f"{name}.dump.tsv.xz").read_bytes()).decode()
    header, *lines = [line.split("\t") for line in text.removesuffix("\n").split("\n")]
    return [dict(zip(header, line, strict=True)) for line in lines]


@functools.cache
def cases(name: str) -> list[Case]:
    """Return the damages of a list such as ``rows-5.3.3``, with what the broker made of them."""
    text = lzma.decompress((GOLDEN / f"{name}.jsonl.xz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


@functools.cache
def retention(version: str) -> list[Case]:
    """Return what a version's own cleaning deleted, run by run; the store is ``base-VERSION`` after ``edits``."""
    text = lzma.decompress((GOLDEN / "retention" / f"{version}.jsonl.xz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def base_of(cases_name: str) -> str:
    """Return the name of the store that the damages of a list start from."""
    return f"base-{cases_name.partition('-')[2]}"


def damaged(name: str, edits: list[Edit], target: Path) -> Path:
    """Return ``target``, made a copy of a sound store with the edits applied."""
    copy_of(name, target)
    apply_edits(target, edits)
    return target


def ahead_of_the_log(name: str) -> list[Edit]:
    """Return edits of a base store: its last record has no unit, and seems to lie far behind the log."""
    at = int(dump(name)[-1]["phy_offset"])
    field = ["write", segment(at // 32768), at % 32768 + 28, f"{2**40:016x}"]
    return [["delete", f"consumequeue/topic_0/0/{4000:020d}"], field]


def apply_edits(root: Path, edits: list[Edit]) -> None:
    """Change the store at ``root`` as each edit says, in order."""
    for kind, path, *arguments in edits:
        _EDITS[kind](root / path, *((root / arguments[0],) if kind == "rename" else arguments))


def _write(path: Path, offset: int, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    _put(path, offset, bytes.fromhex(text))


def _put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _zero(path: Path, offset: int, length: int) -> None:
    _put(path, offset, bytes(length))


def _truncate(path: Path, length: int) -> None:
    with path.open("r+b") as file:
        file.truncate(length)


def _create(path: Path, length: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(length))


def _mkdir(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


_EDITS: Final[dict[str, Callable[..., Any]]] = {
    "write": _write,
    "zero": _zero,
    "truncate": _truncate,
    "create": _create,
    "delete": Path.unlink,
    "rmtree": shutil.rmtree,
    "mkdir": _mkdir,
    "rename": Path.rename,
}


def java_map(pairs: dict[str, str]) -> str:
    """Return the pairs as the dump shows them: Java's sorted map, tabs and line ends escaped."""
    listed = sorted(pairs.items(), key=lambda pair: pair[0].encode("utf-16-be"))
    text = "{" + ", ".join(f"{name}={value}" for name, value in listed) + "}"
    return text.replace("\t", "\\t").replace("\n", "\\n")
