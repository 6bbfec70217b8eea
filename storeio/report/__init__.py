"""An audit as text for a person, as the JSON of the contract, and as rows of tables: one source, three forms.

``text``, ``json_form`` and ``rows`` are of audits, ``parsed`` reads their JSON again, ``page`` makes HTML of them.
Each other verb has a module with all its forms: ``simulation`` (of queues that stop: ``stopped``, of all broker lines:
``broker_lines``) and ``retention``, ``planning``, ``applied``, ``rebuilding``, ``salvaging``, ``comparing``. All use
``tables`` for columns and paragraphs, ``next_step`` for the commands to run next, ``written`` for what was written and
``assumed`` for what nothing told of the files that are made. ``catalogue`` makes docs/findings.md.
"""

from storeio.report.json_form import audit_object, failure_object, to_json
from storeio.report.rows import TABLES, Column, table_rows
from storeio.report.text import render, verdict_sentence

__all__ = [
    "TABLES",
    "Column",
    "audit_object",
    "failure_object",
    "render",
    "table_rows",
    "to_json",
    "verdict_sentence",
]
