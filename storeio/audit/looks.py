"""The files of a store that are looked at whole, by threads, and what splits may do meanwhile.

An index file takes as long as some splits, and all that these need of it is what units it has. That is presumed when
everything else has been looked at, so that the splits do not wait, and proven afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, wait
from itertools import chain
from typing import Final

from storeio.audit.files import presumed_reports, run_file_tasks, with_files, with_index
from storeio.audit.plan import AuditPlan, FileReport, FileTask, file_tasks
from storeio.paths import INDEX

FILES_APART: Final = 256  # of the largest files each is a task
FILES_TOGETHER: Final = 64  # of the others

LookAtFiles = Callable[[AuditPlan, Sequence[FileTask]], list[FileReport]]


class FileLooks:
    """Looks at a store's files that have been handed out to threads."""

    def __init__(self, plan: AuditPlan, pool: Executor, look: LookAtFiles = run_file_tasks) -> None:
        """Begin; ``look`` does what ``run_file_tasks`` does."""
        self._looks = [(tasks, pool.submit(look, plan, tasks)) for tasks in _handed_out(plan)]
        self._plan = plan
        self._presumed: AuditPlan | None = None

    def presumed(self) -> AuditPlan:
        """Return the plan with what the files say of themselves, index files that are not done as they seem to be.

        Waits for all but these, and for these as well where one of them cannot be what it seems.
        """
        wait(look for tasks, look in self._looks if not _are_indexes(tasks))
        known = [look.result() if look.done() else presumed_reports(self._plan, tasks) for tasks, look in self._looks]
        sure = [reports for reports in known if reports is not None]
        self._presumed = with_files(
            self._plan, self._reports() if len(sure) < len(known) else chain.from_iterable(sure)
        )
        return self._presumed

    def told(self) -> AuditPlan:
        """Return the plan with what all files say of themselves, when they have been looked at."""
        if self._presumed is None:
            return with_files(self._plan, self._reports())
        return with_index(self._presumed, self._reports())

    def _reports(self) -> list[FileReport]:
        return [report for _, look in self._looks for report in look.result()]


def _handed_out(plan: AuditPlan) -> list[list[FileTask]]:
    """Return the files that are looked at whole, those together that one thread takes at a time.

    The largest first, since the splits wait for the last; many small ones are more work to hand out than to look at.
    """
    tasks = sorted(file_tasks(plan), key=lambda task: -task.file.size)
    parts = [[task] for task in tasks[:FILES_APART]]
    return parts + [tasks[at : at + FILES_TOGETHER] for at in range(FILES_APART, len(tasks), FILES_TOGETHER)]


def _are_indexes(tasks: Iterable[FileTask]) -> bool:
    return all(task.file.kind == INDEX for task in tasks)
