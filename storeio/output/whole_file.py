"""A file that appears whole or not at all: written beside its place, flushed, and then it gets its name."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storeio.output.partials import partial_name
from storeio.output.staging import explained, flush, flush_names
from storeio.output.targets import is_mounted

OWN_FILES: Final = "/dev/fd"  # names of what this process has open
USUAL_MODE: Final = 0o666  # less what the umask takes


@contextlib.contextmanager
def whole_file(place: Path) -> Iterator[Path]:
    """Give an empty file beside a file's place; with what was written there it gets the name, unless the block fails.

    A file that is replaced was no more open to others than the new one is.

    Raises:
        WriteError: It cannot be made there, or not be given its name.
    """
    partial = place.with_name(partial_name(place.name))
    try:
        with explained(str(place)):
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _mode_of(place)))
        yield partial
        with explained(str(place)):
            flush(partial)
            partial.replace(place)
        flush_names(place.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def is_replaceable(place: str | os.PathLike[str]) -> bool:
    """Tell whether another file may take a name: nothing is there, or a plain file that this process has not open.

    A pipe or a device has readers of its own, and so has ``/dev/stdout``, which may be a plain file. A file beside
    which nothing may be made, or that is mounted there, can still be written itself.
    """
    try:
        found = os.stat(place)
    except OSError:
        return True
    if not stat.S_ISREG(found.st_mode) or not os.access(os.path.dirname(os.path.realpath(place)), os.W_OK):
        return False
    return not is_mounted(place) and not any(os.path.samestat(found, other) for other in _open_files())


def _open_files() -> Iterator[os.stat_result]:
    try:
        names = os.listdir(OWN_FILES)
    except OSError:
        names = ["0", "1", "2"]
    for name in names:
        with contextlib.suppress(OSError):  # the one that listed them is closed
            yield os.fstat(int(name))


def _mode_of(place: Path) -> int:
    try:
        return stat.S_IMODE(os.stat(place).st_mode) & USUAL_MODE
    except FileNotFoundError:  # a name that nothing can have is told now, and not when all is written
        return USUAL_MODE
