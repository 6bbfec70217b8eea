"""What findings ask of a plan, and what a plan says of a store before and after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from storeio.checks.index_stretch import INTO_DAMAGE
from storeio.checks.uncovered import NOT_INTACT
from storeio.codes import ERROR, WARNING
from storeio.findings import Finding
from storeio.format import consumequeue
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_KINDS
from storeio.results import Audit
from storeio.simulate.predicted import Prediction

QUEUE_PREFIXES: Final = {"CQ": CONSUMEQUEUE, "BCQ": BATCHQUEUE, "EXT": CONSUMEQUEUE}
Queue = tuple[str, str, int]


def queues_of(findings: Iterable[Finding]) -> dict[Queue, tuple[str, ...]]:
    """Return the queues that findings ask to be rebuilt, with the findings' codes."""
    found: dict[Queue, list[str]] = {}
    for f in findings:
        kind = QUEUE_PREFIXES.get(f.code.partition("_")[0])
        if f.code == "MISALIGNED_NAME" and f.path.split("/")[0] in QUEUE_KINDS:
            kind = BATCHQUEUE if f.path.startswith(BATCHQUEUE) else CONSUMEQUEUE
        if kind is None or f.topic is None or f.queue_id is None or is_into_damage(f):
            continue
        codes = found.setdefault((kind, f.topic, f.queue_id), [])
        if f.code not in codes:
            codes.append(f.code)
    return {key: tuple(sorted(codes)) for key, codes in found.items()}


def by_names(findings: Iterable[Finding]) -> dict[tuple[str | None, int | None], list[Finding]]:
    """Return findings by the topic and queue id that they name: of many queues nobody goes through all for each."""
    found: dict[tuple[str | None, int | None], list[Finding]] = {}
    for f in findings:
        found.setdefault((f.topic, f.queue_id), []).append(f)
    return found


def into_damage(findings: Iterable[Finding], queue: Queue) -> list[range]:
    """Return the numbers of a queue's units that point at records that are damaged or lost."""
    return units_of(filter(is_into_damage, findings), queue)


def units_of(findings: Iterable[Finding], queue: Queue) -> list[range]:
    """Return the numbers of the units that findings of a queue are about.

    One finding may span many places, with sound units between them.
    """
    return [
        range(f.queue_offset, f.queue_offset + max(f.count, f.length // consumequeue.UNIT_BYTES))
        for f in findings
        if (f.path.split("/")[0], f.topic, f.queue_id) == queue and f.queue_offset is not None
    ]


def is_into_damage(finding: Finding) -> bool:
    """Tell whether a finding is of units that point at damaged or lost records; those of batch queues have no code."""
    return finding.code == "CQ_INTO_DAMAGE" or (finding.code == "BCQ_UNIT_ORPHAN" and finding.detail == NOT_INTACT)


def asks_for_index(finding: Finding) -> bool:
    """Tell whether a finding asks for another index: units that point into damage of the log are right."""
    return finding.code.startswith("INDEX_") and finding.detail != INTO_DAMAGE


def codes_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the codes of findings, sorted."""
    return tuple(sorted({f.code for f in findings}))


def summary_of(found: Audit, start: Prediction) -> dict[str, Any]:
    """Return what a plan remembers of the store at one moment."""
    serious = [f for f in found.findings if f.severity in (ERROR, WARNING)]
    return {
        "verdict": found.verdict,
        "findings": len(serious),
        "codes": sorted({f.code for f in serious}),
        "outcome": start.outcome.outcome,
        "reason": start.outcome.reason,
        "gives_up": None if start.given_up is None else start.given_up.messages,
        "simulate_exit_code": start.exit_code,
    }


def left_of(found: Audit, start: Prediction, *, allow_log: bool) -> tuple[str, ...]:
    """Return sentences on what the plan does not cure."""
    serious = [f for f in found.findings if f.severity in (ERROR, WARNING)]
    left = [f"{f.code} {f.path} at {f.position}: {f.detail or 'no action cures it'}" for f in serious]
    if start.unread:
        left.append(
            f"broker {start.outcome.broker}: what its start does is not known: some of the store cannot be read"
        )
    elif start.harms:
        left.append(f"broker {start.outcome.broker}: {start.outcome.reason or 'its start still does harm'}")
    if not allow_log and any(f.code.startswith(("LOG_", "STRAY")) for f in serious):
        left.append("some of this may need --allow-log, or salvage")
    return tuple(left)
