"""Where output goes: what people name is looked at before any work is done, and nothing is made here."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from storeio.errors import UsageError, WriteError
from storeio.paths import COMMITLOG, LOCK, OF_A_STORE
from storeio.uris import is_below, is_remote, place_of, refuse_remote, shown

DELTA_LOG: Final = "_delta_log"  # in every directory that is a Delta table
MOUNTS: Final = "/proc/self/mountinfo"  # a line each; the fifth word is where, bytes that part words in octal digits


def followed(path: str | os.PathLike[str]) -> Path:
    """Return where a local path leads, links followed as far as they lead anywhere."""
    return Path(os.path.realpath(path))


def is_mounted(path: str | os.PathLike[str]) -> bool:
    """Tell whether something is mounted just there, as containers do with single files: no new one can get its name."""
    place = os.fsencode(followed(path))
    try:
        with open(MOUNTS, "rb") as lines:
            words = (line.split()[4] for line in lines)
            return any(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), word) == place for word in words)
    except OSError:  # another system
        return os.path.ismount(path)


def is_inside(path: str | os.PathLike[str], root: str | os.PathLike[str]) -> bool:
    """Tell whether a path or URI lies in a directory, local links followed."""
    one, other = place_of(os.fspath(path)), place_of(os.fspath(root))
    if is_remote(one) or is_remote(other):
        return is_remote(one) and is_remote(other) and is_below(one, other)
    return followed(one).is_relative_to(followed(other))


def store_around(path: str | os.PathLike[str]) -> Path | None:
    """Return the store in whose directory a local path lies, as far as names tell; None if it lies in none."""
    besides = {*OF_A_STORE, LOCK} - {COMMITLOG}
    for place in followed(path).parents:
        if os.path.isdir(place / COMMITLOG) and any(os.path.exists(place / name) for name in besides):
            return place
    return None


def refuse_inside(option: str, path: str | os.PathLike[str]) -> None:
    """Raise if what an option names lies in a store or in a Delta table, whichever.

    Brokers may refuse to start with a file more, and a table is rid of what it does not know.

    Raises:
        UsageError: It does.
    """
    if is_remote(os.fspath(path)):
        return
    named = f"{option} {shown(os.fspath(path))}"
    if (root := store_around(path)) is not None:
        raise UsageError(f"{named}: lies inside the store {root}, which is never written")
    for place in followed(path).parents:
        if os.path.isdir(place / DELTA_LOG):
            raise UsageError(f"{named}: lies inside a table of {place.parent}")


def refuse_itself(option: str, other: str | os.PathLike[str], store: str | os.PathLike[str]) -> None:
    """Raise if what an option names as another copy of a store is that store.

    Raises:
        UsageError: It is.
    """
    one, same = place_of(os.fspath(other)), place_of(os.fspath(store))
    if is_inside(one, same) and is_inside(same, one):
        raise UsageError(f"{option} {shown(one)}: is the store itself")


def checked_target(into: str | os.PathLike[str], store: str | os.PathLike[str]) -> Path:
    """Return the directory that is to be made.

    Raises:
        UsageError: It lies in the store, which is never written, is a link or a mount point, or holds something.
        WriteError: It cannot be read.
    """
    place, root = Path(place_of(os.fspath(into))), place_of(os.fspath(store))
    if os.fspath(into) == "-":
        raise UsageError("--into -: standard output is not for this; ./- is a directory of that name")
    if "\0" in str(place) or place.name in ("", "..") or place.is_symlink():
        raise UsageError(f"--into {place}: is a link, or no name for a new directory")
    if not is_remote(root) and is_inside(place, root):
        raise UsageError(f"--into {place}: lies inside the store {root}, which is never written")
    refuse_inside("--into", place)
    try:
        if place.exists() and not place.is_dir():
            raise UsageError(f"--into {place}: is no directory")
        if place.exists() and any(place.iterdir()):
            raise UsageError(f"--into {place}: is not empty")
        if is_mounted(place):
            raise UsageError(f"--into {place}: is a mount point, whose name no new directory can get; name one in it")
    except OSError as error:
        raise WriteError(f"--into {place}: cannot be read: {error.strerror or error}") from error
    return place


def file_target(option: str, target: str, roots: Iterable[str]) -> Path:
    """Return the local file that an option names, which is there as a plain file or not yet.

    Raises:
        UsageError: It lies in one of some directories, which are never written; its directory is not there; or what
            is there is no plain file, and would be replaced by one.
    """
    place = Path(refuse_remote(target, f"{option} writes to a local disk"))
    for root in roots:
        if is_inside(target, root):
            raise UsageError(f"{option} {target}: lies inside {shown(root)}")
    if target == "-":
        raise UsageError(f"{option} -: standard output is not for this; ./- is a file of that name")
    if not place.name or place.is_dir() or not place.parent.is_dir():
        raise UsageError(f"{option} {target}: is no file in a directory that is there")
    refuse_special(option, place)
    return place


def refuse_special(option: str, place: Path) -> None:
    """Raise if something else than a plain file is there, a device, a pipe or a link to one, or one that is mounted.

    Raises:
        UsageError: It is.
    """
    try:
        is_plain = stat.S_ISREG(os.stat(place).st_mode)
    except OSError:
        return  # nothing is there, or a link to nothing
    if not is_plain:
        raise UsageError(f"{option} {place}: is there and no plain file")
    if is_mounted(place):
        raise UsageError(f"{option} {place}: is mounted there, so that no new file can get its name")


def refuse_same(files: Mapping[str, str | os.PathLike[str] | None]) -> None:
    """Raise if two options name one file: of two outputs only the last would be left, of an input nothing.

    Raises:
        UsageError: They do.
    """
    first: dict[Path, str] = {}
    for option, target in files.items():
        text = "-" if target is None else os.fspath(target)
        if text == "-" or is_remote(text):
            continue
        place = followed(place_of(text))
        if place in first:
            raise UsageError(f"{first[place]} and {option} name the same file, {place}")
        first[place] = option
