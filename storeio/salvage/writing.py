"""What of a salvaged store is copied: the log as it was decided, and all that is neither log nor derived from it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from storeio.audit import AuditPlan
from storeio.errors import UnreadableError
from storeio.output.staging import Staging
from storeio.paths import ABORT, CHECKPOINT, COMMITLOG, INDEX, LOCK, QUEUE_DATABASES, QUEUE_KINDS, StoreFile, file_name
from storeio.report.salvaging import MARK
from storeio.salvage import holes
from storeio.salvage.decide import Decision
from storeio.salvage.survey import Survey
from storeio.scan import data_stretches
from storeio.uris import is_remote

AT_ONCE: Final = 16 << 20
# A database of queues would lead consumers to where lost messages lay.
BUILT: Final = (COMMITLOG, INDEX, *QUEUE_KINDS, *(path.partition("/")[0] for path in QUEUE_DATABASES))
LEFT: Final = (ABORT, LOCK, CHECKPOINT, MARK)


def write_log(known: Survey, decision: Decision, staging: Staging) -> None:
    """Write the segments: what stays as it is, and what is new; zeros are not written."""
    size = known.segment_bytes
    staging.make_directory(COMMITLOG)  # nothing may be left of it, and what is made then is a store all the same
    for base in decision.segments:
        path = f"{COMMITLOG}/{file_name(base)}"
        staging.write(path, 0, b"", size=size)
        low, high = (
            bisect_left(decision.patches, at, key=lambda patch: patch.physical_offset) for at in (base, base + size)
        )
        inside = decision.patches[low:high]
        for start, stop in _between(base, min(base + size, _zero_from(known, decision, base)), inside):
            for low in range(start, stop, AT_ONCE):
                data = known.read(low, min(low + AT_ONCE, stop))
                if data.strip(b"\0"):
                    staging.write(path, low - base, data, size=size)
        for patch in inside:
            at = patch.physical_offset - base
            staging.write(path, at, patch.bytes.head, size=size)
            staging.write(path, at + len(patch.bytes) - len(patch.bytes.tail), patch.bytes.tail, size=size)


def _zero_from(known: Survey, decision: Decision, base: int) -> int:
    """Return where what stays of a segment ends: behind the log's end there are only zeros."""
    return decision.stop if base <= decision.stop <= base + known.segment_bytes else base + known.segment_bytes


def _between(start: int, stop: int, patches: Sequence[holes.Patch]) -> Iterator[tuple[int, int]]:
    """Yield what of a range no patch covers."""
    at = start
    for patch in patches:
        if patch.physical_offset > at:
            yield at, min(patch.physical_offset, stop)
        at = max(at, patch.stop)
    if at < stop:
        yield at, stop


def copy_others(known: Survey, staging: Staging) -> list[str]:
    """Copy what is neither log nor derived from it: configuration, consumers' offsets, timers.

    A file that cannot be read is not made at all: half of it could be taken for all. Return the reasons.
    """
    not_copied: list[str] = []
    for file in known.plan.listing.files:
        if file.path.split("/")[0] in BUILT or file.path in LEFT:
            continue
        if file.is_dir:
            staging.make_directory(file.path)
            continue
        try:
            if not is_remote(known.plan.root):
                for _ in _pieces(known.plan, file):  # before anything of it is written
                    pass
            staging.write(file.path, 0, b"", size=file.size)
        except UnreadableError as error:
            not_copied.append(str(error))
            continue
        for low, data in _pieces(known.plan, file):
            staging.write(file.path, low, data, size=file.size)
    return not_copied


def _pieces(plan: AuditPlan, file: StoreFile) -> Iterator[tuple[int, bytes]]:
    """Yield a file's bytes with their positions, not what holes hold.

    Raises:
        UnreadableError: They cannot be read.
    """
    for start, stop in data_stretches(plan.root, file.path, 0, file.size):
        for low in range(start, stop, AT_ONCE):
            yield low, plan.read(file.path, low, min(low + AT_ONCE, stop)).tobytes()
