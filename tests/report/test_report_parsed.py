"""A report that is read again is the audit it was made of; nothing that is none is taken for one."""

from __future__ import annotations

from dataclasses import replace

import audits
import golden_data as golden
import pytest
from audits import evil
from jsons import changed

import storeio
from storeio.errors import UsageError
from storeio.report import audit_object, failure_object, table_rows, to_json
from storeio.report.parsed import Failure, from_json, refuse_misfits
from storeio.results import Audit


@pytest.mark.parametrize("audit", [audits.sound(), audits.damaged(), evil()], ids=["sound", "damaged", "evil"])
def test_what_is_written_is_read_again(audit: Audit) -> None:
    read = from_json(to_json(audit_object(audit)), "line 1")
    assert isinstance(read, Audit)
    assert audit_object(read) == audit_object(audit)
    assert table_rows(read, run_id="r") == table_rows(audit, run_id="r")


@pytest.mark.parametrize("name", ["rich-5.5.1", "ext-4.9.8"])
def test_rows_of_a_store_are_the_same(name: str) -> None:
    audit = storeio.check(golden.store(name))
    read = from_json(to_json(audit_object(audit)), "line 1")
    assert isinstance(read, Audit)
    same = replace(audit, seconds=read.seconds)  # of which the report has six decimals
    assert table_rows(read, run_id="r") == table_rows(same, run_id="r")


def test_a_store_that_could_not_be_audited() -> None:
    assert from_json(to_json(failure_object("/s", "not a store", 16)), "line 1") == Failure("/s", "not a store", 16)


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        ("tool", "other", "no report"),
        ("verdict", "verdict", "no report"),
        ("verdict", "sound", "verdict: contradicts"),
        ("verdict", None, "unknown field"),
        ("exit_code", 0, "exit_code: contradicts"),
        ("files", "files", "files is missing"),
        ("more", 1, "more is unknown"),
        ("seconds", "1", "not of type"),
        ("started_ms", True, "not of type"),
        ("store", 7, "not of type"),
        ("checks", {"records": "1"}, "numbers"),
        ("failed", [1], "texts"),
        ("failed", ["a file"], "exit_code: contradicts"),
        ("settings", [], "an object"),
        ("settings.messageDelayLevel.source", "source", "source is missing"),
        ("log.records", "records", "records is missing"),
        ("log", None, "an object"),
        ("queues", {}, "a list"),
        ("queues.0", {}, "topic is missing"),
        ("queues.0.lost", [[1]], "pairs"),
        ("queues.0.lost", [[1, 2.0]], "pairs"),
        ("files.0.size", 1.5, "not of type"),
        ("files.0.classes", {"record": 3}, "bytes: contradicts"),
        ("files.0.classes", {"odd": 3}, "files.*classes"),
        ("bytes.commitlog.record", 1, "bytes: contradicts"),
        ("findings.0.code", "NO_SUCH", "no code"),
        ("findings.0.severity", "info", "findings: contradicts"),
        ("findings.0.remedy", "pray", "findings: contradicts"),
        ("lost_messages.0.evidence", 1, "not of type"),
    ],
)
def test_what_is_no_report(where: str, value: object, says: str) -> None:
    with pytest.raises(UsageError, match=f"^x.json line 3: .*{says}"):
        from_json(changed(to_json(audit_object(audits.damaged())), where, value), "x.json line 3")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", "[" * 100_000, "9" * 5000, '{"tool": "storeio"}', '{"tool": "storeio", "verdict": null}'],
)
def test_what_is_no_json_of_a_report(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x\.json line 3: "):
        from_json(text, "x.json line 3")


def test_every_beginning_of_a_report_is_refused() -> None:
    text = to_json(audit_object(audits.damaged()))
    for stop in range(len(text)):
        with pytest.raises(UsageError):
            from_json(text[:stop], "x")


@pytest.mark.parametrize("code", [0, 64, -1])
def test_a_failure_has_bits(code: int) -> None:
    with pytest.raises(UsageError, match="exit_code"):
        from_json(to_json(failure_object("/s", "why", code)), "x")


@pytest.mark.parametrize(
    ("audit", "column"),
    [
        (audits.sound(started_ms=1 << 63), "started_ms"),
        (audits.sound(seconds=float("inf")), "seconds"),
        (audits.sound(checks={"records": 1 << 70}), "count"),
    ],
)
def test_numbers_that_no_column_takes(audit: Audit, column: str) -> None:
    with pytest.raises(UsageError, match=rf"^x: .*\.{column}: .* does not fit"):
        refuse_misfits(table_rows(audit, run_id=""), "x")
