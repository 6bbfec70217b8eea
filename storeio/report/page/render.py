"""The page from what is known of each store: the same sentences, numbers and commands as the report in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from storeio import __version__
from storeio.findings import CODES, INFO, SEVERITIES, Finding
from storeio.report.next_step import Step, check_again, next_steps
from storeio.report.page import maps
from storeio.report.page.past import Past
from storeio.report.parsed import Failure
from storeio.report.simulation import warning_sentence
from storeio.report.tables import bytes_text, counted
from storeio.report.text import queues_by_need, verdict_sentence, where_of
from storeio.results import BYTE_CLASSES, Audit, LostRange, QueueResult, Unfinished
from storeio.safe import printable, time_text
from storeio.simulate.ends import STARTS
from storeio.simulate.predicted import Prediction

PLACES: Final = 5  # of one code
QUEUES: Final = 200
ROWS: Final = 200  # of any other table


@dataclass(frozen=True, slots=True)
class Start:
    """The next start of one broker line: what comes of it, in a word and in a sentence."""

    line: str
    verdict: str
    sentence: str
    harms: bool


@dataclass(frozen=True, slots=True)
class StorePage:
    """One store of the page. ``starts`` is empty where none was predicted; ``past`` None where no tables were given."""

    audit: Audit | Unfinished | Failure
    starts: Sequence[Start] = ()
    past: Past | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """Ranges of messages that are ``lost``, ``misplaced`` or ``unread``, and how many more there are."""

    name: str
    ranges: list[LostRange]
    more: int


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one code: catalogue entry, places, and how many more there are."""

    code: str
    severity: str
    sentence: str
    cause: str
    remedy: str
    places: list[tuple[str, str]]
    more: int = 0


@dataclass(slots=True)
class _View:
    """What the template shows of one store."""

    number: int
    store: str
    word: str
    sentence: str
    state: str
    facts: list[tuple[str, str]]
    steps: list[Step]
    groups: dict[str, list[Group]]
    starts: Sequence[Start]
    past: Past | None
    failed: list[str]
    counts: Counter[str]
    unread: list[str] = field(default_factory=list)
    map: list[maps.Row] = field(default_factory=list)
    map_more: int = 0
    queues: list[dict[str, Any]] = field(default_factory=list)
    queues_more: int = 0
    missing: list[Missing] = field(default_factory=list)
    byte_classes: list[tuple[str, list[str]]] = field(default_factory=list)
    checks: list[tuple[str, int]] = field(default_factory=list)
    settings: list[tuple[str, str, str]] = field(default_factory=list)
    history: list[maps.Row] = field(default_factory=list)
    history_more: int = 0
    runs: list[tuple[maps.Bar, float]] = field(default_factory=list)


def start_of(line: str, found: Prediction | Exception) -> Start:
    """Return a predicted start as the page shows it, or why there is no prediction."""
    if isinstance(found, Exception):
        return Start(line, "UNKNOWN", f"could not be predicted: {printable(str(found))}", True)
    word, _, rest = warning_sentence(found).partition(": ")
    state = found.outcome.after_start if found.outcome.outcome == STARTS else None
    ends = f" Its log then ends at {state.max_physical_offset}." if state is not None else ""
    return Start(line, word, rest + ends, found.harms or word == "UNSURE")


def render_page(pages: Sequence[StorePage]) -> str:
    """Return the whole page: one file that loads nothing, runs no script, and can be read aloud or printed.

    Args:
        pages: At least one store.
    """
    views = [_view(number, page) for number, page in enumerate(pages)]
    worst = next((v for state in ("damaged", "unknown") for v in views if v.state == state), views[0])
    return _template().render(
        views=views, worst=worst, version=__version__, classes=BYTE_CLASSES, width=maps.WIDTH, counted=counted,
        time_text=time_text,
    )  # fmt: skip


@cache
def _template() -> Any:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["shown"] = lambda value: printable(str(value))
    return environment.from_string((files(__package__) / "page.html.j2").read_text(encoding="utf-8"))


def _view(number: int, page: StorePage) -> _View:
    audit = page.audit
    if isinstance(audit, Failure):
        store, steps = printable(audit.store), [check_again(audit.store)]
        return _View(number, store, "FAILED", f"{store} could not be audited: {printable(audit.error)}", "unknown",
                     [], steps, {}, (), page.past, [], Counter())  # fmt: skip
    word, _, sentence = verdict_sentence(audit).partition(": ")
    state = {"DAMAGED": "damaged", "SOUND": "sound"}.get(word, "unknown")
    view = _View(
        number, printable(audit.store), word, sentence, state, _facts(audit), next_steps(audit), _groups(audit),
        page.starts, page.past, [printable(text) for text in audit.failed], Counter(f.severity for f in audit.findings),
        settings=[(s.name, printable(s.value), printable(s.source)) for s in audit.settings],
    )  # fmt: skip
    if isinstance(audit, Unfinished):
        view.unread = [f"{printable(path)}, bytes {start} to {stop - 1}" for path, start, stop in audit.reading.left]
        return view
    rows = maps.log_rows(audit)
    view.map, view.map_more = rows[: maps.SEGMENTS], max(len(rows) - maps.SEGMENTS, 0)
    queues = queues_by_need(audit)
    view.queues, view.queues_more = [_queue(audit, q) for q in queues[:QUEUES]], max(len(queues) - QUEUES, 0)
    parts = {"lost": audit.lost, "misplaced": audit.misplaced, "unread": audit.unread}
    view.missing = [Missing(name, rows[:ROWS], max(len(rows) - ROWS, 0)) for name, rows in parts.items() if rows]
    view.checks = list(audit.checks.items())
    view.byte_classes = [
        (kind, [bytes_text(row[name]) if row[name] else "" for name in (*BYTE_CLASSES, "total")])
        for kind, row in audit.bytes_by_kind().items()
    ]
    if page.past is not None:
        view.history = maps.time_rows(page.past, ROWS)
        view.history_more = max(len(page.past.sightings) - ROWS, 0)
        view.runs = maps.run_bars(page.past)
    return view


def _facts(audit: Audit | Unfinished) -> list[tuple[str, str]]:
    facts = [("checked", time_text(audit.started_ms)), ("took", f"{audit.seconds:.2f} s")]
    if isinstance(audit, Unfinished):
        return [*facts, ("not looked at", bytes_text(audit.reading.left_bytes))]
    log = audit.log
    facts += [
        ("bytes", bytes_text(sum(file.size for file in audit.files))),
        ("messages", f"{log.records:,}"),
        ("queues", f"{len(audit.queues):,}"),
        ("log", f"{log.min_physical_offset} to {log.max_physical_offset}"),
        ("stored", f"{time_text(log.first_store_timestamp_ms)} to {time_text(log.last_store_timestamp_ms)}"),
    ]
    if audit.reading is not None:
        facts.append(
            ("read in this run", f"{bytes_text(audit.reading.bytes_read)}; the rest is as earlier runs read it")
        )
    return facts


def _groups(audit: Audit | Unfinished) -> dict[str, list[Group]]:
    """Return the findings by severity, then by code in the order of the catalogue."""
    rank = {name: i for i, name in enumerate(CODES)}
    found: dict[str, list[Group]] = {}
    for severity in SEVERITIES:
        chosen = sorted((f for f in audit.findings if f.severity == severity), key=lambda f: rank[f.code])
        for code, part in groupby(chosen, key=lambda f: f.code):
            found.setdefault(severity, []).append(_group(audit, code, list(part)))
    return found


def _group(audit: Audit | Unfinished, code: str, findings: Sequence[Finding]) -> Group:
    row = CODES[code]
    sizes = {file.path: file.size for file in audit.files} if isinstance(audit, Audit) else {}
    shown = findings[: 1 if row.severity == INFO else PLACES]
    places = [where_of(finding, sizes) for finding in shown]
    texts = [("; ".join(filter(None, (place, affected))), detail) for place, affected, detail in places]
    return Group(code, row.severity, row.sentence, row.cause, row.remedy, texts, len(findings) - len(shown))


def _queue(audit: Audit, queue: QueueResult) -> dict[str, Any]:
    count = sum(
        f.severity != INFO and (f.topic, f.queue_id) == (queue.topic, queue.queue_id) for f in audit.findings
    )  # fmt: skip
    lost = sum(stop - first for first, stop in queue.lost)
    says = ", ".join(filter(None, (f"{lost:,} lost" if lost else "", counted(count, "finding") if count else "")))
    return {"queue": queue, "bars": maps.queue_bar(queue), "lost": lost, "says": says or "agrees with the log"}
