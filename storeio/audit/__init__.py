"""The audit of a store: the same tasks on threads of one node and on Spark.

``node`` has the order: ``prepare`` (``plan``) lists and cuts, ``run_file_tasks`` (``files``) looks at small files as a
whole, ``audit_split`` (``split``) at one stretch of the log with all that it implies, ``conclude`` (``conclusion``)
joins what they say. ``check`` does it all here.

* Before: a plan under a running broker is of one ``moment``, which ``running`` tells from the ``log_end``, from what
  was there ``then``, and from bytes of the ``store_now``.
* Meanwhile: ``looks`` lets splits begin before all files are looked at; ``facts`` are what files tell of all queues,
  ``learned`` what records tell of queues without files, for which splits are audited again. In a split most queues are
  ``usual`` ones.
* Together: ``stitching`` puts splits side by side; ``queues`` judges every queue, ``one_queue`` each: which numbers
  are ``missing`` and which of them ``misplaced`` records have, whose the units of its files are (``owners``,
  ``shifts``; of a light queue ``light_start``), and what is no finding as a record's number is wrong
  (``misnumbered``). ``unread`` tells what was not read, and ``bytes`` puts each byte into a class. ``unfinished`` is
  what is said when an audit is cut short.
* For others: ``peek`` reads one record, ``walks`` all of them again, ``named`` looks for queues that somebody names.
"""

from storeio.audit.conclusion import Concluded, conclude, concluded
from storeio.audit.facts import Told, all_told
from storeio.audit.files import few_bytes, run_file_task, run_file_tasks, with_files
from storeio.audit.learned import learned
from storeio.audit.looks import FILES_TOGETHER, FileLooks
from storeio.audit.node import FILES_PHASE, LOG_PHASE, check, has_lost_files, look_at_store
from storeio.audit.plan import AuditPlan, FileReport, FileTask, file_tasks, prepare
from storeio.audit.split import SplitReport, audit_split, why_unread
from storeio.results import Progress

__all__ = [
    "FILES_PHASE",
    "FILES_TOGETHER",
    "LOG_PHASE",
    "AuditPlan",
    "Concluded",
    "FileLooks",
    "FileReport",
    "FileTask",
    "Progress",
    "SplitReport",
    "Told",
    "all_told",
    "audit_split",
    "check",
    "conclude",
    "concluded",
    "few_bytes",
    "file_tasks",
    "has_lost_files",
    "learned",
    "look_at_store",
    "prepare",
    "run_file_task",
    "run_file_tasks",
    "why_unread",
    "with_files",
]
