"""A moment of a store on which a broker runs: where its log ends, and what of queues and index belongs to that.

What the broker has not dispatched yet is waited for; if it does not come, it is missing.

Source: ``DefaultMessageStore.start`` locks byte 0 of the ``lock`` file; ``DefaultMappedFile`` makes a file and
then maps it, which gives it its length.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from storeio.audit.log_end import LOOK_AGAIN_SECONDS, log_end, wait_for
from storeio.audit.moment import Moment
from storeio.audit.store_now import StoreNow
from storeio.audit.then import QueueEnd, index_then, queue_ends
from storeio.config import StoreConfig
from storeio.errors import UnreadableError
from storeio.format import index as layout
from storeio.paths import CHECKPOINT, COMMITLOG, CONSUMEQUEUE, LOCK
from storeio.scan import Listing, list_store
from storeio.uris import is_remote

FLOCK: Final = "hhqqi"  # type, whence, start, length, process: as Linux has it
MOST_CONTENT: Final = 4096  # bytes of the checkpoint
MADE_SECONDS: Final = 1.0  # in which a new file gets its length


def has_broker(root: str) -> bool:
    """Tell whether another process of this machine holds a store's lock, as a running broker does."""
    path = os.path.join(root, LOCK)
    if is_remote(root) or not sys.platform.startswith("linux") or _is_open_here(path):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        answer = struct.unpack(FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
        return bool(answer[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(handle)


def _is_open_here(path: str) -> bool:
    """Tell whether this process has a file open: closing it once more would end a lock that an ``apply`` holds."""
    with contextlib.suppress(OSError):
        wanted = os.stat(path)
        for handle in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/self/fd/{handle}")
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return True
    return False


def moment_of(listing: Listing, config: StoreConfig, shape: tuple[int, int] | None) -> tuple[Listing, Moment] | None:
    """Return a moment of a store on which a broker runs, and the files that it had then.

    None if no broker runs, the log is empty, or a file that it asks cannot be read: the audit will say so.

    Raises:
        NotAStoreError: It has gone.
    """
    if not has_broker(listing.root):
        return None
    with contextlib.suppress(UnreadableError):
        return _moment_of(listing, StoreNow(listing.root, config, shape))
    return None


def _moment_of(listing: Listing, store: StoreNow) -> tuple[Listing, Moment] | None:
    small = [file for file in listing.files if file.path == CHECKPOINT]
    contents = {file.path: store.read(file.path, 0, min(file.size, MOST_CONTENT)).tobytes() for file in small}
    end = log_end(store, listing)
    if end is None:
        return None
    if listing.of_kind(CONSUMEQUEUE):
        wait_for(store, end)
    return moment_at(store, _with_lengths(list_store(listing.root)), end.log_stop, contents)


def _with_lengths(listing: Listing) -> Listing:
    """Return the files once those that are just being made have their length; what stays empty is damaged."""
    until = time.monotonic() + MADE_SECONDS
    files = {file.path: file for file in listing.files}
    while time.monotonic() < until:
        empty = [file for file in files.values() if not file.size and file.base_offset is not None and not file.is_dir]
        if not empty:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
        for file in empty:
            with contextlib.suppress(OSError):
                files[file.path] = replace(file, size=os.stat(os.path.join(listing.root, file.path)).st_size)
    return replace(listing, files=tuple(files.values()))


def moment_at(
    store: StoreNow, listing: Listing, log_stop: int, contents: Mapping[str, bytes]
) -> tuple[Listing, Moment]:
    """Return the moment at which a store's log ended at ``log_stop``, and the files that it had then.

    Raises:
        UnreadableError: A file could not be read.
    """
    index, gone = index_then(store, listing, log_stop)
    stops = {}
    if index is not None:
        stops[index.path] = layout.units_start(index.slots) + index.units * layout.UNIT_BYTES
    segments = tuple(listing.of_kind(COMMITLOG))
    newer = frozenset(file.path for file in segments if (file.base_offset or 0) >= log_stop)
    for end in (QueueEnd(log_stop, segments, newer), *queue_ends(store, listing, log_stop)):
        gone |= end.newer
        for file in end.files:
            base = file.base_offset or 0
            if base + file.size > end.stop:
                stops[file.path] = max(end.stop - base, 0)
    left = [file for file in listing.files if file.path not in gone]
    # A directory that has only files that were made later was itself.
    later = {os.path.dirname(path) for path in gone} - {os.path.dirname(file.path) for file in left}
    left = [file for file in left if not (file.is_dir and file.path in later)]
    return replace(listing, files=tuple(left)), Moment(log_stop, stops, contents, index)
