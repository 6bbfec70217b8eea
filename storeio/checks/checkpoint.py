"""The checkpoint against the log: what a recovery would believe, and whether it may.

Source: ``StoreCheckpoint`` and the rules that ``CommitLog`` recovers by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storeio.findings import Finding
from storeio.format import checkpoint
from storeio.paths import CHECKPOINT


@dataclass(frozen=True, slots=True)
class Facts:
    """What the log and the index say about the checkpoint's numbers; None where nothing is known.

    ``last_queued_at`` is where the last record starts that enters a file queue, ``since_5_4`` whether
    the store shows traces of such a broker, ``starts_record`` whether a record starts at an offset. ``index_ms`` are
    the ends of the last index file that is full and has a successor, and of the last one.
    """

    last_store_ms: int | None
    last_queued_ms: int | None
    index_ms: tuple[int, int] | None
    max_physical_offset: int
    min_physical_offset: int = 0
    last_queued_at: int | None = None
    since_5_4: bool = False
    starts_record: Callable[[int], bool] = lambda offset: True


def check_checkpoint(data: npt.NDArray[np.uint8] | None, size: int, facts: Facts) -> list[Finding]:
    """Return findings of the checkpoint file, ``data`` its first bytes or None where there is none."""
    if data is None:
        return [Finding("CHECKPOINT_MISSING", CHECKPOINT, 0, checkpoint.FILE_BYTES)]
    findings = []
    if size != checkpoint.FILE_BYTES:
        start, stop = sorted((size, checkpoint.FILE_BYTES))
        findings.append(Finding("CHECKPOINT_LENGTH", CHECKPOINT, start, stop - start, detail=f"{size} bytes"))
    padded = np.zeros(checkpoint.CHECKPOINT_BYTES, np.uint8)
    padded[: min(len(data), len(padded))] = data[: len(padded)]
    fields = checkpoint.decode(padded.tobytes())
    findings += _times(fields, facts)
    findings += _offsets(fields, facts)
    return findings


def _field(code: str, name: str, detail: str) -> Finding:
    place = checkpoint.CHECKPOINT.fields
    assert place is not None
    return Finding(code, CHECKPOINT, place[name][1], 8, detail=f"{name}: {detail}")


def _times(fields: np.void, facts: Facts) -> list[Finding]:
    findings = []
    expected = {
        "physical_timestamp_ms": facts.last_store_ms,
        "logic_timestamp_ms": facts.last_queued_ms,
        "index_timestamp_ms": facts.index_ms and facts.index_ms[0],
    }
    for name, true in expected.items():
        value = int(fields[name])
        if name == "index_timestamp_ms" and facts.index_ms and facts.index_ms[0] < value <= facts.index_ms[1]:
            continue  # brokers write the one, plans the other where a recovery is to keep the last file
        if value < 0:
            findings.append(_field("CHECKPOINT_FIELD", name, f"{value} is negative"))
        elif true is not None and value > true:
            findings.append(_field("CHECKPOINT_AHEAD", name, f"{value}, but the store's own is {true}"))
        elif true is not None and value < true:
            findings.append(_field("CHECKPOINT_BEHIND", name, f"{value}, {true - value} ms behind {true}"))
    return findings


def _offsets(fields: np.void, facts: Facts) -> list[Finding]:
    findings = []
    for name in ("confirm_physical_offset", "logic_physical_offset"):
        value = int(fields[name])
        if value < 0:
            findings.append(_field("CHECKPOINT_FIELD", name, f"{value} is negative"))
        elif value > facts.max_physical_offset:
            findings.append(
                _field("CHECKPOINT_AHEAD", name, f"{value}, but the log ends at {facts.max_physical_offset}")
            )
        elif value > facts.min_physical_offset and not facts.starts_record(value):
            findings.append(_field("CHECKPOINT_FIELD", name, f"no record starts at {value}"))
    return findings + _dispatched(int(fields["logic_physical_offset"]), facts)


def _dispatched(value: int, facts: Facts) -> list[Finding]:
    """Return the finding of the offset that chooses the start file of an abnormal recovery since 5.5.0."""
    last = facts.last_queued_at
    if last is None or not 0 <= value < last or (value == 0 and not facts.since_5_4):
        return []  # before 5.5.0 nobody writes it
    return [_field("CHECKPOINT_BEHIND", "logic_physical_offset", f"{value}, the last queued record starts at {last}")]
