"""An audit as text for a person, as the JSON of the contract, and as rows of tables: one source, three forms."""

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
