"""A store as far as it can be read: links to its files, and of segments with bad blocks a copy with zeros for these.

What cannot be read is damage like any other from there on, and told apart from it by the first audit alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from storeio.audit import AuditPlan, Concluded
from storeio.checks.ranges import subtract
from storeio.errors import UnreadableError
from storeio.linked import LinkedStore
from storeio.paths import ABORT, CHECKPOINT, COMMITLOG, INDEX, LOCK, QUEUE_KINDS, StoreFile
from storeio.reading.around import Around
from storeio.salvage.strays import nameless
from storeio.scan import data_stretches, not_listed, read_range
from storeio.splits import Split
from storeio.uris import is_remote

AT_ONCE: Final = 16 << 20
OF_AUDITS: Final = (COMMITLOG, INDEX, *QUEUE_KINDS, CHECKPOINT, ABORT, LOCK)


def unread_nameless(plan: AuditPlan) -> list[str]:
    """Return what of files without a number in the log's directory cannot be read, in the words of an audit.

    No audit looks at them; a salvage does, as far as a segment reaches.
    """
    told = []
    for file in nameless(plan) if not is_remote(plan.root) else ():
        around = Around(partial(read_range, plan.root, file.path), file.size, gives_up=False)
        stop = min(file.size, plan.segment_bytes)
        for start in range(0, stop, AT_ONCE):
            around(start, min(start + AT_ONCE, stop))
        told += [f"{file.path}: bytes {low} to {high}: {around.why}" for low, high in around.bad]
    return told


def readable(
    found: Concluded, scratch: Path, look: Callable[[Path], Concluded], besides: Collection[str] = ()
) -> Concluded:
    """Return the audit of a store that can be read, the same if all of its log can, or if it is remote.

    Args:
        found: The store's audit.
        scratch: Directory that can be made.
        look: Audits a store with the settings of this one.
        besides: Files without a number that cannot be read as a whole.

    Raises:
        UnreadableError: The log's directory cannot be listed.
    """
    plan = found.plan
    if is_remote(plan.root) or not (found.view.unread or _others(found) or besides):
        return found
    unlisted = not_listed(plan.listing, (COMMITLOG,))
    for path in unlisted:
        if path in (".", COMMITLOG):
            raise UnreadableError(f"{path}: {dict(plan.listing.unreadable)[path]}")
    store = LinkedStore(plan.listing, scratch)
    for path in (*unlisted, *_others(found)):
        store.remove(path)
    for segment in plan.segments:
        base = segment.base_offset or 0
        if found.view.is_unread(base, base + segment.size):
            _copy(plan, segment, store.root / segment.path)
    for file in nameless(plan):
        if file.path in besides:
            _copy(plan, file, store.root / file.path)
    return look(store.root)


def _others(found: Concluded) -> list[str]:
    """Return the files that could not be read, and are neither log, nor derived from it, nor left out of a salvage."""
    paths = [text.partition(": ")[0] for text in found.audit.failed]
    files = (file for path in paths if (file := found.plan.listing.get(path)) is not None and not file.is_dir)
    return sorted({file.path for file in files if file.path.split("/")[0] not in OF_AUDITS})


def _copy(plan: AuditPlan, segment: StoreFile, target: Path) -> None:
    """Put a copy of what can be read of a segment in place of the link to it; the rest are holes."""
    around = Around(partial(read_range, plan.root, segment.path), segment.size, gives_up=False)
    around.leave_out_cut_records(Split(segment.path, segment.base_offset or 0, segment.size, 0, segment.size))
    target.unlink()
    with target.open("xb") as file:
        file.truncate(segment.size)
        for low, high in subtract((0, segment.size), around.unread):
            for start, stop in data_stretches(plan.root, segment.path, low, high):
                for at in range(start, stop, AT_ONCE):
                    file.seek(at)
                    file.write(around(at, min(at + AT_ONCE, stop)).tobytes())
