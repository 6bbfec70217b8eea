"""The three forms of an audit: text, JSON, rows; and the documents that are made from tables."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import audits
import pytest
from audits import EVIL, evil
from hypothesis import given
from hypothesis import strategies as st

from storeio.findings import CODES, SEVERITIES, Finding
from storeio.report import TABLES, audit_object, failure_object, render, table_rows, to_json, verdict_sentence
from storeio.report.catalogue import by_part, markdown
from storeio.report.next_step import next_steps, shell_quoted
from storeio.report.rows import fingerprint
from storeio.report.tables import bytes_text, clipped, flowed, table, width_of
from storeio.results import BYTE_CLASSES, Audit, FileResult, QueueResult, Unfinished

TOP = Path(__file__).parents[2]
# interface.md, `check --json`; "added" is documented in docs/check.md.
CONTRACT: dict[str, set[str]] = {
    "": {"tool", "version", "store", "started_ms", "seconds", "crc_engine", "settings", "verdict", "exit_code"}
    | {"bytes", "log", "queues", "index", "checks", "findings"},
    "log": {"min_physical_offset", "max_physical_offset", "records", "segments"},
    "queues": {"topic", "queue_id", "kind", "min_queue_offset", "max_queue_offset", "units", "in_log", "lost"},
    "index": {"path", "entries", "begin_physical_offset", "end_physical_offset"},
    "findings": {"code", "severity", "path", "position", "length", "topic", "queue_id", "queue_offset"}
    | {"physical_offset", "count", "detail", "remedy"},
}
ADDED: dict[str, set[str]] = {
    "": {"lost_messages", "misplaced_messages", "unread_messages", "failed", "files", "bands"},
    "files": {"path", "kind", "topic", "queue_id", "size", "classes"},
    "log": {"first_store_timestamp_ms", "last_store_timestamp_ms"},
}
PYTHON_TYPES = {"string": str, "int": int, "long": int, "double": float}


def as_read(audit: Audit) -> dict[str, Any]:
    """Return the JSON as a script reads it."""
    read: dict[str, Any] = json.loads(to_json(audit_object(audit)))
    return read


def test_json_has_exactly_the_keys_of_the_contract() -> None:
    read = as_read(audits.damaged())
    for name, keys in CONTRACT.items():
        value = read[name] if name else read
        for row in value if isinstance(value, list) else [value]:
            assert set(row) == keys | ADDED.get(name, set()), name
    assert read["queues"][0]["lost"] == [[17, 19]]
    assert all(set(s) == {"value", "source"} for s in read["settings"].values())
    assert all(set(row) == {*BYTE_CLASSES, "total"} for row in read["bytes"].values())
    assert (read["verdict"], read["exit_code"], as_read(audits.sound())["exit_code"]) == ("damaged", 4, 0)


def test_every_json_key_is_documented() -> None:
    text = (TOP / "docs" / "check.md").read_text()
    read = as_read(audits.damaged())
    names = {*read, *failure_object("s", "e", 8)}
    for value in ("log", "queues", "index", "findings", "lost_messages"):
        row = read[value][0] if isinstance(read[value], list) else read[value]
        names |= set(row)
    assert [name for name in sorted(names) if f"`{name}`" not in text and f".{name}`" not in text] == []


def test_json_is_one_line_of_plain_ascii() -> None:
    for value in (audit_object(evil()), failure_object(EVIL, EVIL, 8)):
        text = to_json(value)
        assert text.isascii()
        assert text.isprintable()
        assert json.loads(text)["store"] == value["store"], "nothing is lost"


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("show_all", [False, True])
def test_no_control_character_reaches_the_terminal(width: int, show_all: bool) -> None:
    text = render(evil(), width=width, show_all=show_all)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\\x1b[31mred" in text
    text.encode("utf-8")


@given(st.text(), st.text(), st.integers(0, 2**63 - 1), st.sampled_from(sorted(CODES)))
def test_any_text_is_made_printable(topic: str, path: str, number: int, code: str) -> None:
    finding = Finding(code, path, number, number, topic, number, number, number, number, path)
    audit = audits.sound(
        findings=[finding], queues=[QueueResult(topic, 1, "cq", 0, number, number, number)], store=path
    )
    assert all(line.isprintable() for line in render(audit).split("\n"))
    assert to_json(audit_object(audit)).isprintable()


@pytest.mark.parametrize("width", [80, 160])
def test_lines_fit_the_width(width: int) -> None:
    queues = [QueueResult(f"%RETRY%{'topic_' * 20}{i}", i, "cq", 10**11, 2 * 10**11, 10**8, 10**8) for i in range(40)]
    files = [FileResult(f"commitlog/{i:020d}", "commitlog", 700, dict.fromkeys(BYTE_CLASSES, 10**12)) for i in range(3)]
    text = render(audits.damaged(queues=queues, files=files), width=width)
    long = [line for line in text.splitlines() if width_of(line) > width and not line.startswith("  storeio ")]
    assert long == []
    assert "... and 20 more queues" in text
    assert "record 3,000,000,000,000" in text or width == 160


def test_verdict_comes_first() -> None:
    assert render(audits.sound()).startswith("SOUND: no damage in /data/store, 181 kB with 100 messages and 1 queue.")
    first, second, *_ = render(audits.damaged(), width=160).splitlines()
    assert first == verdict_sentence(audits.damaged())
    assert first.startswith("DAMAGED: 2 errors and 1 warning in /data/store; 2 messages of 1 queue are lost")
    assert second == ""
    assert verdict_sentence(audits.sound(failed=["x: Permission denied"])).startswith("INCOMPLETE:")
    assert verdict_sentence(audits.damaged(failed=["x"], lost=[])).endswith("; some of it could not be read.")


def test_worst_findings_come_first_with_place_cause_and_remedy() -> None:
    text = render(audits.damaged(), width=200)
    order = [text.index(code) for code in ("LOG_BODY_CRC", "CQ_UNIT_MISSING", "LOG_TIME", "ABORT_PRESENT")]
    assert order == sorted(order)
    assert text.index("ERRORS") < text.index("WARNINGS") < text.index("NOTES") < text.index("BYTES")
    assert f"{audits.SEGMENT} at byte 1234, 410 bytes, 2 in a row" in text
    assert "topic topic_1, queue 3, from queue offset 17, from physical offset 66770" in text
    assert "expected 0x3610a686 over 100 bytes, the body has 0x1f2e3d4c" in text
    assert CODES["LOG_BODY_CRC"].cause in text
    assert CODES["LOG_BODY_CRC"].remedy in text


def test_many_findings_are_counted_unless_all_are_asked_for() -> None:
    many = [Finding("CQ_TAGS_CODE", audits.QUEUE, 20 * i, 20, "topic_1", 3, i) for i in range(30)]
    assert "... and 25 more in 1 file; --all shows them" in render(audits.sound(findings=many))
    assert "queue offset 29" in render(audits.sound(findings=many), show_all=True)


def test_missing_file_is_said_to_be_missing() -> None:
    gap = Finding("LOG_GAP", "commitlog/00000000000000131072", 0, 65536)
    missing = FileResult(gap.path, "commitlog", 0, {"missing": 65536})
    audit = audits.sound(findings=[gap], files=[*audits.sound().files, missing])
    assert "no byte of it is there; 65536 are expected" in " ".join(render(audit).split())
    assert next_steps(audit)[0].command == "storeio inspect /data/store"


def commands(audit: Audit | Unfinished) -> list[list[str]]:
    """Return the commands at the end of the report as a shell reads them, comments left out."""
    lines = render(audit).rpartition("\nNEXT\n")[2].splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def test_next_commands_begin_with_the_worst_finding() -> None:
    found = commands(audits.damaged(store="/data/it's here"))
    assert found[0] == ["storeio", "inspect", "/data/it's here", "--file", audits.SEGMENT, "--hex", "1234"]
    assert found[1] == ["storeio", "simulate", "/data/it's here", "--broker", "all"]
    assert found[2] == ["storeio", "salvage", "/data/it's here", "--into", "/data/it's here.salvaged"]
    assert commands(audits.damaged(store="-x"))[0][:3] == ["storeio", "inspect", "./-x"]


@pytest.mark.parametrize(
    ("store", "saved", "plan"),
    [
        (".", "../salvaged", "../plan.json"),
        ("..", "../../salvaged", "../../plan.json"),
        ("/data/b/..", "/data/b/../../salvaged", "plan.json"),
        ("/data/b/", "/data/b.salvaged", "plan.json"),
        ("s3://data/b?region=x", "s3://data/b.salvaged?region=x", "plan.json"),
    ],
)
def test_next_commands_write_nothing_into_the_store(store: str, saved: str, plan: str) -> None:
    assert commands(audits.damaged(store=store))[2] == ["storeio", "salvage", store, "--into", saved]
    queue = audits.sound(store=store, findings=[Finding("CQ_TAGS_CODE", audits.QUEUE, 0, 20, "topic_1", 3, 0)])
    assert commands(queue)[2] == ["storeio", "plan", store, "--out", plan]


def test_next_commands_are_those_that_help() -> None:
    assert [words[1] for words in commands(audits.sound())] == ["simulate"]
    assert [words[1] for words in commands(audits.sound(failed=["x: Permission denied"]))] == ["check"]
    queue = Finding("CQ_TAGS_CODE", audits.QUEUE, 0, 20, "topic_1", 3, 0)
    assert [words[1] for words in commands(audits.sound(findings=[queue]))] == ["inspect", "simulate", "plan"]


@pytest.mark.parametrize("word", ["a b", "it's", "$(reboot)", "a\nb", "\x1b[31m'\\", "ü\udcff", "\x01f"])
def test_quoted_words_come_back_from_a_shell(word: str) -> None:
    quoted = shell_quoted(word)
    assert quoted.isprintable()
    raw = subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True).stdout
    assert raw == word.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("audit", [audits.sound(), audits.damaged(), evil()], ids=["sound", "damaged", "evil"])
def test_rows_are_what_the_columns_declare(audit: Audit) -> None:
    rows = table_rows(audit, run_id="r1", arguments="--all")
    assert list(rows) == list(TABLES)
    for name, columns in TABLES.items():
        assert len({c.name for c in columns}) == len(columns)
        for row in rows[name]:
            assert list(row) == [c.name for c in columns]
            assert row["run_id"] == "r1"
            for column in columns:
                value = row[column.name]
                assert (column.nullable and value is None) or type(value) is PYTHON_TYPES[column.type], (name, column)
                assert not isinstance(value, str) or value.encode("utf-8").decode() == value


def test_rows_hold_the_facts_of_the_json() -> None:
    audit = audits.damaged(failed=["a: unreadable", "b: unreadable"])
    rows, read = table_rows(audit, run_id="r"), as_read(audit)
    run = rows["runs"][0]
    assert (run["errors"], run["warnings"], run["infos"], run["lost_messages"]) == (2, 1, 1, 2)
    assert {s: run[f"{s}s"] for s in SEVERITIES} == {
        s: sum(f["severity"] == s for f in read["findings"]) for s in SEVERITIES
    }
    assert (run["verdict"], run["exit_code"], run["failed"]) == ("damaged", 12, "a: unreadable\nb: unreadable")
    assert json.loads(run["settings"]) == read["settings"]
    assert len(rows["findings"]) == len(read["findings"])
    assert {(r["kind"], r["byte_class"]): r["bytes"] for r in rows["byte_classes"]} == {
        (kind, name): row[name] for kind, row in read["bytes"].items() for name in BYTE_CLASSES
    }
    assert {r["check"]: r["count"] for r in rows["checks"]} == read["checks"]
    assert rows["lost_messages"][0]["messages"] == rows["queues"][0]["lost"] == 2
    assert [f["entries"] for f in rows["files"] if f["kind"] == "index"] == [200]


def test_fingerprint_changes_with_any_file() -> None:
    files = audits.sound().files
    assert fingerprint(files) == fingerprint(list(reversed(files)))
    assert (
        len(
            {
                fingerprint(files),
                fingerprint(files[1:]),
                fingerprint([*files[:-1], FileResult("checkpoint", "x", 1, {})]),
            }
        )
        == 3
    )


def test_findings_document_is_generated() -> None:
    assert (TOP / "docs" / "findings.md").read_text() == markdown(), (
        "python -m storeio.report.catalogue > docs/findings.md"
    )
    assert sorted(code.name for part in by_part().values() for code in part) == sorted(CODES)
    assert all(f"| `{code}` |" in markdown() for code in CODES)


def test_layout_helpers() -> None:
    assert [bytes_text(n) for n in (0, 1, 999, 1000, 99_960, 999_600, 1_234_567, 10**18)] == [
        "0 bytes", "1 byte", "999 bytes", "1.00 kB", "100 kB", "1.00 MB", "1.23 MB", "1.00 EB",
    ]  # fmt: skip
    assert clipped("abcdefghij", 8) == "abc..hij"
    assert width_of("中文") == 4
    assert width_of(clipped("中文" * 20, 9)) <= 9
    lines = table(("name", "n"), [("中文", 5), ("ab", 12345)], 80)
    assert {width_of(line) for line in lines} == {2 + 4 + 2 + 5}
    assert flowed([], 80) == []
    assert flowed([("a", "1"), ("b", "2"), ("c", "3")], 14) == ["  a  1    c  3", "  b  2"]


def test_colour_is_not_part_of_the_text() -> None:
    assert re.search(r"\x1b", render(audits.damaged())) is None
