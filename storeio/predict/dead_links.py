"""Symbolic links of a store whose file is gone, as a broker finds them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from storeio.paths import ABORT, CHECKPOINT, COMMITLOG, INDEX, LOCK, QUEUE_KINDS
from storeio.simulate.disk import NOWHERE, Disk
from storeio.simulate.metadata import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL

LISTED: Final = frozenset((COMMITLOG, *QUEUE_KINDS, INDEX, TIMER_LOG))  # of which brokers ask what is there
DIRECTORIES: Final = frozenset((*QUEUE_KINDS, INDEX))
OPENED: Final = (CHECKPOINT, LOCK, ABORT, TIMER_CHECK, TIMER_WHEEL)  # which brokers make where they are not there


def add_links(disk: Disk, root: str, unlisted: Iterable[str]) -> None:
    """Put links to nothing on a disk: what brokers list has an empty file there, and what they open is made.

    Where they are to be directories no directory is made.

    Args:
        disk: Of the store, without them.
        root: The store, on this machine.
        unlisted: What could not be listed of it, links among that.
    """
    for path in unlisted:
        place = os.path.join(root, path)
        if not os.path.islink(place) or os.path.exists(place):
            continue
        target = os.path.realpath(place)
        is_made = os.path.isdir(os.path.dirname(target)) and not os.path.islink(target)  # one that leads to itself
        if path.rpartition("/")[0].split("/")[0] in LISTED or (path in OPENED and not is_made):
            disk.create(path, 0)
            disk.files[path].special = "" if is_made else NOWHERE
        elif path in DIRECTORIES:  # below such a link no broker makes anything
            disk.create(path, 0)
            disk.files[path].special = NOWHERE
