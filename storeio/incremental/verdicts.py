"""Verdicts: what was said of one part of a store, a split or a file looked at whole, kept for the next audit.

A verdict is a row of the table ``audited_parts``. It is used again only if it is whole (its digest fits), of this
tool's version, settings and form, and if what it rests on has not changed. Anything else is as if it were not there.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from storeio import __version__
from storeio.audit.plan import AuditPlan, FileReport, FileTask
from storeio.audit.split import SplitReport
from storeio.incremental.codec import form_of, from_plain, to_plain
from storeio.incremental.evidence import Evidence
from storeio.kernels.group import RUN_ROWS
from storeio.report.rows import valid_text
from storeio.splits import Split
from storeio.uris import shown

SPLIT: Final = "split"
FILE: Final = "file"
MOST_BYTES: Final = 1 << 28  # of one report, unpacked; what claims more is not read

PartKey = tuple[str, str, int, int]  # kind, path, start, stop


@dataclass(frozen=True, slots=True)
class SplitVerdict:
    """What a split's audit said, on what it rests, and the index files that its numbers name."""

    report: SplitReport
    evidence: Evidence
    index_paths: list[str]


# A form says which fields there are, not how many rows tables of runs have.
FORMS: Final = {SPLIT: f"{form_of(SplitVerdict)}-{RUN_ROWS}", FILE: form_of(FileReport)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A row of ``audited_parts``; columns as there."""

    run_id: str
    store: str
    kind: str
    path: str
    start: int
    stop: int
    looked_ms: int
    read_bytes: int
    fingerprint: str
    settings: str
    form: str
    content: str
    digest: str

    @property
    def key(self) -> PartKey:
        """Return what the verdict is about."""
        return self.kind, self.path, self.start, self.stop

    def sealed(self) -> Verdict:
        """Return the verdict with the digest of all the rest."""
        return replace(self, digest=self._seal())

    def is_whole(self) -> bool:
        """Tell whether the verdict is as it was written, by a tool that wrote what this one reads."""
        return self.form == FORMS.get(self.kind) and self.digest == self._seal()

    def _seal(self) -> str:
        values = [getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "digest"]
        return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


def store_name(root: str) -> str:
    """Return what verdicts call a store: its root, without the credentials of a URI."""
    return valid_text(shown(root))


def split_key(split: Split) -> PartKey:
    """Return the key of a split's verdict."""
    return SPLIT, valid_text(split.path), split.start, split.stop


def file_key(task: FileTask) -> PartKey:
    """Return the key of a whole file's verdict."""
    return FILE, valid_text(task.file.path), 0, task.file.size


def settings_of(plan: AuditPlan) -> str:
    """Return a digest of the tool's version and of all settings that what it says of a part depends on."""
    config = [getattr(plan.config, f.name) for f in dataclasses.fields(plan.config) if f.name != "settings"]
    text = json.dumps([__version__, config, plan.index_shape])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def latest(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[PartKey, Verdict]]:
    """Return the newest whole verdict of each part by store, of rows in any order, repeated ones included."""
    names = [f.name for f in dataclasses.fields(Verdict)]
    found: dict[str, dict[PartKey, Verdict]] = {}
    for row in rows:
        verdict = Verdict(**{name: row[name] for name in names})
        parts = found.setdefault(verdict.store, {})
        before = parts.get(verdict.key)
        if verdict.is_whole() and (before is None or before.looked_ms <= verdict.looked_ms):
            parts[verdict.key] = verdict
    return found


def packed(value: SplitVerdict | FileReport) -> str:
    """Return a report as text."""
    text = json.dumps(to_plain(value), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpacked_split(plan: AuditPlan, verdict: Verdict, split: Split) -> SplitVerdict | None:
    """Return a split's report, its index files numbered as in the plan; None if there is none for this split."""
    value = _unpacked(SplitVerdict, verdict.content)
    if not isinstance(value, SplitVerdict) or value.report.split != split:
        return None
    numbers = {file.path: number for number, file in enumerate(plan.index)}
    content = value.report.index
    if content is not None:
        try:
            times = tuple(replace(t, file_no=numbers[value.index_paths[t.file_no]]) for t in content.times)
        except (KeyError, IndexError):
            return None
        content = replace(content, times=times)
    return replace(value, report=replace(value.report, index=content))


def unpacked_file(verdict: Verdict, task: FileTask) -> FileReport | None:
    """Return a file's report, None if there is none for this file."""
    value = _unpacked(FileReport, verdict.content)
    return value if isinstance(value, FileReport) and value.file == task.file else None


def _unpacked(kind: type, content: str) -> Any:
    try:
        unzip = zlib.decompressobj()
        text = unzip.decompress(base64.b64decode(content, validate=True), MOST_BYTES)
        return from_plain(kind, json.loads(text)) if unzip.eof else None
    except (ValueError, zlib.error, RecursionError):
        return None
