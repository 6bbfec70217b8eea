"""Where a run of tests has its temporary files: in memory, in a directory of its own that goes with it.

Tests make and remove some hundred thousand small files: on a disk that takes longer than all that is tested. Where the
disk matters, tests look at the order of what is written.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
LEAST_ROOM: Final = 8 << 30
PREFIX: Final = "storeio-tests-"
YOUNG_S: Final = 60  # a run that began just now may not hold its directory yet


def in_memory() -> Path | None:
    """Have this process and its children make temporary files in memory; None where TMPDIR or room say otherwise.

    Processes of one run share what the first of them made.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return None
    remove_remains(MEMORY)
    if shutil.disk_usage(MEMORY).free < LEAST_ROOM:
        return None
    place = begun(MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    return place


def is_in_memory() -> bool:
    """Tell whether temporary files of this process are made in memory."""
    return Path(tempfile.gettempdir()).is_relative_to(MEMORY)


def begun(parent: Path) -> Path:
    """Return a new directory that this process holds until it ends, however it ends."""
    place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX)
    return place


def remove_remains(parent: Path) -> None:
    """Remove the directories of runs that ended without doing so; in memory each costs some hundred MiB of it."""
    for place in parent.glob(f"{PREFIX}*"):
        try:
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # somebody else's, or gone by now
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(handle).st_ctime > YOUNG_S:
                shutil.rmtree(place, ignore_errors=True)
        except OSError:
            pass  # its run goes on
        finally:
            os.close(handle)
