"""What a file looks like from outside, so that one that nobody has written to need not be read again.

A fingerprint says that a file was not written, not that its bytes are right: a disk that forgets changes no times.
That is what a schedule's rotation is for.
"""

from __future__ import annotations

import os
import time
from typing import Final

from storeio.scan import Listing
from storeio.uris import is_remote

UNKNOWN: Final = ""
"""The fingerprint of a file that is not to be trusted: it equals no other, not even itself."""

YOUNG_NS: Final = 2_000_000_000
"""A file written so shortly ago may be written again without a new time: clocks of file systems tick this slowly."""


def identity(status: os.stat_result) -> str:
    """Return what changes when a file is written or replaced: size, both times, inode.

    The time of the last change of the inode cannot be set back by a program, as that of the last write can. It
    changes with names and rights, too, which costs reading the file once more and nothing else.
    """
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}"


def fingerprints(listing: Listing) -> dict[str, str]:
    """Return the fingerprint of each plain file of a listing by path, to be taken before the file is read.

    ``UNKNOWN`` where a file has gone, has another size than in the listing, or was written a moment ago. Of a remote
    file it is the size and time that the listing told.
    """
    now_ns = time.time_ns()
    if is_remote(listing.root):
        return {path: _of_version(version, now_ns) for path, version in listing.versions.items()}
    return {
        file.path: _fingerprint(listing.root, file.path, file.size, now_ns) for file in listing.files if not file.is_dir
    }


def _fingerprint(root: str, path: str, size: int, now_ns: int) -> str:
    try:
        status = os.stat(os.path.join(root, path))
    except (OSError, ValueError):
        return UNKNOWN
    # The time of the last write may have been set back, as copying with times does: the other one tells of that.
    if status.st_size != size or max(status.st_mtime_ns, status.st_ctime_ns) > now_ns - YOUNG_NS:
        return UNKNOWN
    return identity(status)


def _of_version(version: str, now_ns: int) -> str:
    written_ns = version.rpartition("-")[2]
    return version if written_ns.isdecimal() and int(written_ns) <= now_ns - YOUNG_NS else UNKNOWN


def is_same(before: str, now: str) -> bool:
    """Tell whether two fingerprints say that nobody wrote to the file in between."""
    return before == now != UNKNOWN
