"""Actions for what lies wrong in a store's directories and in the log itself, where the truth is known.

What would need bytes that are gone is salvage, and no action here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final

from storeio.checks.numbering import COPY
from storeio.checks.places import is_segment, may_belong
from storeio.checks.segments import PREALLOCATED
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import commitlog as log
from storeio.paths import COMMITLOG, LOCK, file_name, parse_number
from storeio.plan import model
from storeio.plan.digest import FILE
from storeio.plan.overlay import Folder
from storeio.planning.draft import Draft, Why
from storeio.planning.limits import RefusedError
from storeio.planning.misplaced import intact_record_at, lacking, misplaced_in, record_bytes
from storeio.planning.target import NOWHERE
from storeio.results import Audit
from storeio.salvage.evidence import property_crc_agrees
from storeio.salvage.exchanged import PLACE
from storeio.scan import data_stretches

Planner = Callable[[Draft, Finding, Audit, int], None]
OF_MISSING_FILES: Final = frozenset(("LOG_GAP",))
OF_NAMES: Final = ("LOG_SEGMENT_MISNAMED", "MISALIGNED_NAME")  # what decides on a file comes before what changes it
STRAY_FILE: Final = "STRAY_FILE"
STRAYS: Final = (STRAY_FILE, "STRAY_DIRECTORY", "QUEUE_ELSEWHERE", "QUEUE_TYPE")
LACKING: Final = "holds intact records that the log lacks: salvage them"
PROVEN: Final = "records of other places, as their checksums prove: salvage puts them there, or takes them out"
COPIED: Final = "copies of other records, which consumers would get again: salvage takes them out"
EXCHANGED: Final = "records at the places that these name say other places, too: salvage puts each where it belongs"
MOST_ZEROED: Final = 64 << 20  # bytes of a dirty tail that one action clears


def plan_layout(
    draft: Draft, audit: Audit, findings: Iterable[Finding], *, segment_bytes: int, salvaged: bool = False
) -> None:
    """Add the actions for findings of layout and log that have one.

    Args:
        draft: What is planned so far.
        audit: The audit that found them.
        findings: What is wanted.
        segment_bytes: Length of a segment.
        salvaged: The log has got from strays all that it has room for.
    """
    copies = _copies(audit)
    for finding in sorted(findings, key=lambda finding: finding.code not in OF_NAMES):
        if finding.code == PLACE and _place_of(finding) >= copies.get((finding.topic, finding.queue_id), NOWHERE):
            draft.left_out.add(COPIED, finding.path)
            continue
        planner = (OF_STRAYS if _is_stray(finding.path, segment_bytes) else PLANNERS).get(finding.code)
        if planner is not None and (draft.store.exists(finding.path) or finding.code in OF_MISSING_FILES):
            try:
                if finding.code in STRAYS and not salvaged:
                    _require_no_log(draft, finding.path, segment_bytes)
                planner(draft, finding, audit, segment_bytes)
                if not draft.store.exists(finding.path):
                    draft.left_out.forget(finding.path)  # what one finding did not tell, another one may
            except (RefusedError, UnreadableError) as error:
                draft.left_out.add(str(error), finding.path)


def _copies(audit: Audit) -> dict[tuple[str | None, int | None], int]:
    """Return where the first of the records of each queue lies that are copies of others of it."""
    found: dict[tuple[str | None, int | None], int] = {}
    for f in audit.findings:
        if f.code == "LOG_FIELD" and f.detail.startswith(COPY):
            queue = f.topic, f.queue_id
            found[queue] = min(found.get(queue, NOWHERE), _place_of(f))
    return found


def _place_of(finding: Finding) -> int:
    return finding.physical_offset or 0


def is_of_log(finding: Finding, segment_bytes: int) -> bool:
    """Tell whether an action for a finding changes what brokers read as the log.

    Directories they pass over, or refuse to start; so they do with files whose name is no number.
    """
    return finding.code not in STRAYS or (finding.code == STRAY_FILE and _is_stray(finding.path, segment_bytes))


def _require_no_log(draft: Draft, path: str, segment_bytes: int) -> None:
    """Raise where a stray in the log's directory may be all that is left of some of the log.

    A broker that refuses to start with it takes nothing. Without it, it goes on as if there had been no more.

    Raises:
        RefusedError: It holds records that the log lacks, or no apply would move it.
    """
    if not path.startswith(f"{COMMITLOG}/"):
        return
    draft.require_movable(path)
    files = [path]
    if draft.store.is_directory(path):
        files = [name for name, entry in draft.store.entries(path) if entry.kind == FILE]
    if any(lacking(draft, name, segment_bytes) for name in files):
        raise RefusedError(LACKING)


def look_at_lock(draft: Draft) -> None:
    """Have the plan say what keeps an apply from locking the store, before which none begins."""
    try:
        is_in_the_way = isinstance(draft.found(LOCK), Folder)
    except RefusedError:  # a broker locks through a link
        is_in_the_way = bool(draft.actions)
    if is_in_the_way:
        draft.left_out.add("remove it first: a store is locked with a file of this name", LOCK)


def _stray(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    if finding.path == LOCK:
        return
    reason = f"{finding.detail or 'not one of the broker’s files'}; brokers may refuse to start with it"
    draft.move(finding.path, Why(model.METADATA, reason, (finding.code,), finding.topic, finding.queue_id))


def _wrong_type(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    """Take away what holds no file; of other queues nobody can say whether they or the table are wrong."""
    if all(entry.kind != FILE for _, entry in draft.store.entries(finding.path)):
        reason = "without a file, and of another type than its topic; 5.x brokers refuse to start with it"
        draft.move(finding.path, Why(model.METADATA, reason, (finding.code,), finding.topic))


def _log_length(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    length = draft.store.length(finding.path)
    what = "pad it with zeros to" if length < segment_bytes else "cut it to"
    reason = f"{length} bytes; {what} the length of a segment, without which brokers refuse to start"
    draft.resize(finding.path, segment_bytes, Why(model.LOG, reason, (finding.code,)))


def _misnamed(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    first = intact_record_at(draft, finding.path, 0)
    if first is None or first.physical_offset < 0 or first.physical_offset % segment_bytes:
        return
    base, own = first.physical_offset, parse_number(finding.path.rpartition("/")[2])
    second = intact_record_at(draft, finding.path, first.size)
    is_alone = second is None or second.physical_offset != base + first.size
    if not may_belong(base, own, _bases(audit), segment_bytes, is_alone=is_alone):
        draft.left_out.add("its first record names a place at which the log has none", finding.path)
        return
    target = f"{COMMITLOG}/{file_name(base)}"
    if not draft.store.exists(target):
        reason = f"it begins with the record of {base}, and none of its records lies where its name says"
        draft.rename(finding.path, target, Why(model.LOG, reason, (finding.code,)))


def _bases(audit: Audit) -> set[int]:
    """Return where the segments begin that hold records in their places."""
    files = (file for file in audit.files if file.kind == COMMITLOG and file.classes.get("record"))
    return {base for file in files if (base := parse_number(file.path.rpartition("/")[2])) is not None}


def _dirty_tail(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    """Clear what lies behind the last record; what lies before it is somebody's bytes."""
    base = parse_number(finding.path.rpartition("/")[2]) or 0
    if base + finding.position < audit.log.max_physical_offset or finding.length > MOST_ZEROED:
        return
    if finding.code == "LOG_STALE" and misplaced_in(draft, finding, segment_bytes):
        raise RefusedError(LACKING)
    reason = "lies behind the end of the log; a later recovery could take it for live"
    draft.write(finding.path, finding.position, bytes(finding.length), Why(model.LOG, reason, (finding.code,)))


def _blank_size(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    rest = draft.store.length(finding.path) - finding.position
    reason = "the size of a blank record is the rest of its segment"
    draft.write(finding.path, finding.position, struct.pack(">i", rest), Why(model.LOG, reason, (finding.code,)))


def _behind_gap(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    """Take away segments of zeros behind a gap behind the log's end, as brokers do."""
    if finding.detail != PREALLOCATED or finding.physical_offset is None:
        return
    behind = finding.physical_offset + finding.length
    files = [path for path, entry in draft.store.entries(COMMITLOG) if entry.kind == FILE]
    for path in files:
        base = parse_number(path.rpartition("/")[2])
        if base is not None and base >= behind and _holds_nothing(draft, path):
            reason = "made before it was needed, and no longer next to the log's end; brokers delete it when they start"
            draft.move(path, Why(model.LOG, reason, (finding.code,)))


def _is_stray(path: str, segment_bytes: int) -> bool:
    """Tell whether a file lies among the segments, and its number has not the name of one."""
    name = path.removeprefix(f"{COMMITLOG}/")
    return name != path and parse_number(name) is not None and not is_segment(path, segment_bytes)


def _beside(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    """Take away what lies across the segments or beside one; a segment gets its name, what the log lacks stays."""
    path = finding.path
    base = parse_number(path.rpartition("/")[2]) or 0
    target = f"{COMMITLOG}/{file_name(base)}"
    names = [name for name, entry in draft.store.entries(COMMITLOG) if entry.kind == FILE]
    is_beside = any(is_segment(name, segment_bytes) for name in names)  # without any file brokers delete all queues
    if is_beside and _holds_nothing(draft, path):
        reason = "holds nothing, and its name is none of a segment; brokers read the log by the names of its files"
        draft.move(path, Why(model.LOG, reason, (finding.code,)))
    elif not draft.store.exists(target) and _is_of_log(path, base, audit, segment_bytes):
        reason = f"brokers write {file_name(base)}, and sort the segments by their names"
        draft.rename(path, target, Why(model.LOG, reason, (finding.code,)))
    elif lacking(draft, path, segment_bytes):
        raise RefusedError(LACKING)
    elif is_beside:
        reason = "holds no record that the log lacks, and its name is none of a segment; brokers read the log by names"
        draft.move(path, Why(model.LOG, reason, (finding.code,)))


def _is_of_log(path: str, base: int, audit: Audit, segment_bytes: int) -> bool:
    """Tell whether a file without its usual name is the segment of its number: its records say so, or its neighbours.

    Of several for one place an audit reads the first.
    """
    others = {each for each in _bases(audit) if not each % segment_bytes}
    if base % segment_bytes or not others:
        return False
    if base in others:
        return any(file.path == path and file.classes.get("record") for file in audit.files)
    return min(others) < base < max(others)


def _holds_nothing(draft: Draft, path: str) -> bool:
    stretches = data_stretches(str(draft.store.root), path, 0, draft.store.length(path))
    return not any(piece.strip(b"\0") for low, high in stretches for piece in draft.store.pieces(path, low, high))


def _physical_offset(draft: Draft, finding: Finding, audit: Audit, segment_bytes: int) -> None:
    base = parse_number(finding.path.rpartition("/")[2]) or 0
    at = finding.position - log.PHYSICAL_OFFSET_AT
    raw = record_bytes(draft, finding.path, at)
    if property_crc_agrees(raw):
        raise RefusedError(PROVEN)
    if _names_one_astray(draft, raw, segment_bytes):
        raise RefusedError(EXCHANGED)
    reason = "a record's physical offset is where it lies"
    draft.write(finding.path, finding.position, struct.pack(">q", base + at), Why(model.LOG, reason, (finding.code,)))


def _names_one_astray(draft: Draft, raw: bytes, segment_bytes: int) -> bool:
    """Tell whether a record at the place that a record names says that it lies elsewhere, too."""
    _, said = log.claim(raw) if raw else (0, -1)
    if said < 0:
        return False
    path = f"{COMMITLOG}/{file_name(said - said % segment_bytes)}"
    other = intact_record_at(draft, path, said % segment_bytes) if draft.store.exists(path) else None
    return other is not None and other.physical_offset != said


PLANNERS: Final[dict[str, Planner]] = {
    "STRAY_FILE": _stray,
    "STRAY_DIRECTORY": _stray,
    "QUEUE_ELSEWHERE": _stray,
    "QUEUE_TYPE": _wrong_type,
    "LOG_LENGTH": _log_length,
    "LOG_SEGMENT_MISNAMED": _misnamed,
    "LOG_GAP": _behind_gap,
    "LOG_STALE": _dirty_tail,
    "LOG_DIRTY_TAIL": _dirty_tail,
    "LOG_TORN_RECORD": _dirty_tail,
    "LOG_GARBAGE": _dirty_tail,
    "LOG_BLANK_SIZE": _blank_size,
    PLACE: _physical_offset,
}
# Nothing else is done to what is no segment by its name: what it holds may be all that is left of a record.
OF_STRAYS: Final[dict[str, Planner]] = {
    STRAY_FILE: _beside,
    "STRAY_DIRECTORY": _stray,
    "LOG_GAP": _behind_gap,
    "LOG_SEGMENT_MISNAMED": _misnamed,
    "MISALIGNED_NAME": _beside,
    "LOG_LENGTH": _beside,
}
