"""Files that are looked at whole: queues, ext files and indexes, and what the plan learns from them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from storeio.audit.facts import declared_batches, file_facts
from storeio.audit.plan import AuditPlan, FileReport, FileTask, file_bytes_of
from storeio.checks import ext_units, index_structure
from storeio.checks.index_shape import UNTOLD
from storeio.checks.index_stretch import IndexFiles
from storeio.checks.queue_files import UNIT_BYTES, QueueFile, gather, summarize_file, summary_of
from storeio.errors import UnreadableError
from storeio.findings import Finding
from storeio.format import index as index_format
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, QUEUE_EXT, StoreFile
from storeio.reading import many_files
from storeio.scan import Listing, data_stop, long_stretches
from storeio.uris import is_remote

Bytes = npt.NDArray[np.uint8]


def few_bytes(work: Iterable[tuple[AuditPlan, Sequence[FileTask]]], *, files: int, data_bytes: int) -> bool:
    """Tell whether what is looked at whole is no more than so many files with so many bytes, holes not counted."""
    for plan, tasks in work:
        for task in tasks:
            files -= 1
            if files < 0:
                return False
            data_bytes -= data_stop(plan.root, task.file.path, task.file.size)
            if data_bytes < 0:
                return False
    return True


def run_file_tasks(plan: AuditPlan, tasks: Sequence[FileTask]) -> list[FileReport]:
    """Return what each file says of itself, as ``run_file_task``, but small queue files of this machine together."""
    local = not is_remote(plan.root)
    files = [task.file for task in tasks]
    places = [i for i, f in enumerate(files) if local and f.kind in UNIT_BYTES and not plan.is_written(f.path)]
    queues = [files[i] for i in places]
    rows, known = many_files.summaries_of(plan.root, [(f.path, f.size, UNIT_BYTES[f.kind]) for f in queues])
    found = zip(places, queues, rows.tolist(), known.tolist(), strict=True)
    reports = {i: FileReport(file, summary_of(file, row)) for i, file, row, is_known in found if is_known}
    return [reports.get(i) or run_file_task(plan, task) for i, task in enumerate(tasks)]


def run_file_task(plan: AuditPlan, task: FileTask) -> FileReport:
    """Return what one file says of itself."""
    try:
        return _looked_at(plan, task.file)
    except UnreadableError as error:
        return FileReport(task.file, failed=str(error))


def _looked_at(plan: AuditPlan, file: StoreFile) -> FileReport:
    stretches = long_stretches(plan.root, file.path, file.size)
    zero_from = stretches[-1][1] if stretches else 0

    def read(start: int, stop: int) -> Bytes:
        return plan.read(file.path, start, stop, populate_to=zero_from)

    if file.kind in (CONSUMEQUEUE, BATCHQUEUE):
        return FileReport(file, summarize_file(file, read, stretches))
    if file.kind == QUEUE_EXT:
        findings, classes = ext_units.check_chain(file, read, stretches)
        return FileReport(file, QueueFile(file.path, file.base_offset or 0, file.size), tuple(findings), classes)
    behind_header = ((max(low, index_format.HEADER_BYTES), high) for low, high in stretches)
    if plan.index_shape is None and not any(read(*part).any() for part in behind_header):
        head = min(index_format.HEADER_BYTES, file.size)  # no unit yet: its shape matters to nobody
        return FileReport(file, classes={"record": head, "zero": file.size - head})
    if plan.index_shape is None:
        finding = Finding("INDEX_HEADER", file.path, 0, file.size, detail=UNTOLD)
        return FileReport(file, findings=(finding,), classes={"garbage": file.size})
    structure = index_structure.check_structure(file.path, read, file.size, *plan.index_shape, stretches=stretches)
    return FileReport(file, findings=structure.findings, classes=structure.classes, index=structure)


def presumed_reports(plan: AuditPlan, tasks: Sequence[FileTask]) -> list[FileReport] | None:
    """Return what index files say of themselves if nothing is wrong in them, None if something is at first sight.

    Looking at one whole takes as long as some splits, which would wait for it; what units it has is all they need.
    """
    if plan.index_shape is None:
        return None
    reports = []
    for file in (task.file for task in tasks):
        read = functools.partial(plan.read, file.path)
        try:
            index = index_structure.presumed_structure(file.path, read, file.size, *plan.index_shape)
        except UnreadableError:
            return None
        if index is None:
            return None
        reports.append(FileReport(file, index=index))
    return reports


def have_same_index(one: AuditPlan, other: AuditPlan) -> bool:
    """Tell whether splits are compared with the same units of the same index files under both plans."""
    return len(one.index) == len(other.index) and all(map(index_structure.have_same_units, one.index, other.index))


def with_files(plan: AuditPlan, reports: Iterable[FileReport]) -> AuditPlan:
    """Return the plan with what the files say of themselves, which the splits need."""
    reports = list(reports)
    summarized = [(r.file, r.summary) for r in reports if r.summary is not None]
    queues = {
        (kind, queue.topic, queue.queue_id): queue
        for kind in (CONSUMEQUEUE, BATCHQUEUE, QUEUE_EXT)
        for queue in gather(kind, file_bytes_of(plan.config, kind), summarized)
    }
    declared, listing = _declared_or_told(plan)
    facts = file_facts(plan, queues.values(), [r.file for r in reports if r.failed], declared)
    return with_index(replace(plan, queues=queues, facts=facts, listing=listing), reports)


def with_index(plan: AuditPlan, reports: list[FileReport]) -> AuditPlan:
    """Return a plan that has what queue files say of themselves with all reports, among them those of index files."""
    index = sorted((r.index for r in reports if r.index is not None), key=lambda s: s.path)
    return replace(plan, index=IndexFiles(index), file_reports=reports)


def _declared_or_told(plan: AuditPlan) -> tuple[frozenset[str] | None, Listing]:
    """Return the topics that ``topics.json`` gives batch queues, and the listing; if it is unreadable that says so."""
    try:
        return declared_batches(plan), plan.listing
    except UnreadableError as error:
        path, _, why = str(error).partition(": ")
        told = (path, why) in plan.listing.unreadable
        return None, plan.listing if told else replace(plan.listing, unreadable=(*plan.listing.unreadable, (path, why)))
