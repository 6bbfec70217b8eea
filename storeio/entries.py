"""Files of compiled code, in a directory that nobody else can write: found, read, written whole or not at all, aged.

Who reads one trusts it as much as the program itself, since it is a pickle.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISVTX

try:
    import fcntl
except ImportError:  # not a POSIX system: no locks, no owners of files, hence no cache
    fcntl = None  # type: ignore[assignment]

MAGIC = b"storeio-kernel-2"  # first bytes of an entry; then the SHA-256 of the rest, then the pickle
KEEP_SECONDS = 14 * 86400  # an entry that no process loaded for so long belongs to an old version
LOCK_TRIES = 30_000  # 10 ms apart; a compiler that holds its lock longer has hung: stop waiting for it
OURS = re.compile(r"-[0-9a-f]{40}\.(bin|lock|[0-9a-f]{32}\.tmp)$")  # names of files in the cache


@functools.cache
def cache_directory() -> Path | None:
    """Directory of the entries that we can write and nobody else can, made if need be; None if there is no such."""
    for path in candidate_directories() if fcntl else ():
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_private(path) and os.access(path, os.W_OK | os.X_OK):
                return path.resolve()
        if path == Path(os.environ.get("STOREIO_CACHE_DIR", "")):
            warnings.warn(f"STOREIO_CACHE_DIR {path} is not used: others can write it or we cannot", stacklevel=2)
    return None


def candidate_directories() -> Iterator[Path]:
    """Places for the entries, best first."""
    if os.environ.get("STOREIO_CACHE_DIR"):
        yield Path(os.environ["STOREIO_CACHE_DIR"])
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with contextlib.suppress(RuntimeError):  # a user without a home directory
        yield (home if home.is_absolute() else Path.home() / ".cache") / "storeio"
    yield from (Path(place) / f"storeio-{os.geteuid()}" for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"))


def is_private(path: Path) -> bool:
    """Tell whether only we, root aside, can write a directory's entries or put another directory in its place."""
    owners, target = (os.geteuid(), 0), path.resolve()
    for place in (target, *target.parents):
        info = place.lstat()
        replaceable = info.st_mode & 0o022 and (place == target or not info.st_mode & S_ISVTX)
        if replaceable or info.st_uid not in owners:
            return False
    # In a sticky directory anyone may leave a link to a directory of ours that is no cache.
    return target.stat().st_uid == os.geteuid() and path.lstat().st_uid in owners


def is_kept(path: Path) -> bool:
    """Tell whether there is an entry, and keep it young: remove_stale goes by its time."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > KEEP_SECONDS / 14:
            os.utime(path)
        return True
    return False


def read_entry(path: Path) -> memoryview | None:
    """Payload of an entry, None if it is missing, cut off or damaged."""
    with contextlib.suppress(OSError):
        data = memoryview(path.read_bytes())
        start = len(MAGIC) + hashlib.sha256().digest_size
        payload = data[start:]  # a view, since copies of a large one take as long as its digest
        return payload if data[:start] == MAGIC + hashlib.sha256(payload).digest() else None
    return None


def write_entry(path: Path, payload: bytes) -> None:
    """Write an entry so that a reader, now or after a crash, sees all of it or none."""
    temporary = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@functools.cache  # once in a process will do
def remove_stale(directory: Path) -> None:
    """Remove entries, locks and torn temporary files that no process used for long."""
    for path in directory.iterdir():
        with contextlib.suppress(OSError):  # another process removes them too
            if OURS.search(path.name) and time.time() - path.stat().st_mtime > KEEP_SECONDS:
                path.unlink()


@contextlib.contextmanager
def locked(entry: Path) -> Iterator[None]:
    """Hold a lock between processes during the body, or no lock where locking is impossible or takes too long."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(entry.with_suffix(".lock").open("ab"))  # closing it unlocks
            for _ in range(LOCK_TRIES):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.01)
        yield
