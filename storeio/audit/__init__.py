"""The audit of a store: the same tasks on threads of one node and on Spark.

``prepare`` lists and cuts, ``run_file_tasks`` looks at whole small files, ``audit_split`` at one stretch
of the log with all that it implies, ``conclude`` joins what they say. ``check`` does it all here.
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
