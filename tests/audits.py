"""Hand-made audits, results that no file had to be read for; and a file that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from storeio.audit import plan as plan_module
from storeio.errors import UnreadableError
from storeio.findings import CODES, Finding
from storeio.results import Audit, FileResult, IndexResult, LogResult, LostRange, QueueResult, Setting

SEGMENT = "commitlog/00000000000000065536"
QUEUE = "consumequeue/topic_1/3/00000000000000000000"


def unreadable(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """Have one file of every local store give errors, as a failing disk does."""
    read = plan_module.read_range

    def read_or_fail(root: str, path: str, *more: Any, **named: Any) -> Any:
        if path == failing:
            raise UnreadableError(f"{path}: Input/output error")
        return read(root, path, *more, **named)

    monkeypatch.setattr(plan_module, "read_range", read_or_fail)


def sound(**changes: Any) -> Audit:
    """Return the audit of a small sound store."""
    values: dict[str, Any] = {
        "store": "/data/store",
        "version": "0.1.0",
        "crc_engine": "isal",
        "started_ms": 1_790_000_000_000,
        "seconds": 0.25,
        "settings": [
            Setting("mappedFileSizeCommitLog", "65536", "inferred from 2 files"),
            Setting("messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", "default"),
        ],
        "files": [
            FileResult("commitlog/00000000000000000000", "commitlog", 65536, {"record": 65500, "blank": 36}),
            FileResult(SEGMENT, "commitlog", 65536, {"record": 40000, "zero": 25536}),
            FileResult(QUEUE, "consumequeue", 4000, {"record": 2000, "zero": 2000}, "topic_1", 3),
            FileResult("index/20261121000415273", "index", 42040, {"record": 30000, "zero": 12040}),
            FileResult("checkpoint", "checkpoint", 4096, {"record": 48, "zero": 4048}),
        ],
        "log": LogResult(0, 105536, 100, 2, 1_790_000_000_000, 1_790_000_060_000),
        "queues": [QueueResult("topic_1", 3, "cq", 0, 100, 100, 100)],
        "index": [IndexResult("index/20261121000415273", 200, 0, 105300)],
        "checks": {"records": 100, "body CRCs": 100, "queue units": 100, "index units": 200, "batch queue units": 0},
        "findings": [],
    }
    return Audit(**{**values, **changes})


def damaged(**changes: Any) -> Audit:
    """Return the audit of the same store with a damaged body, a missing unit, a lost range and a note."""
    findings = [
        Finding(
            "LOG_BODY_CRC",
            SEGMENT,
            1234,
            410,
            "topic_1",
            3,
            17,
            66770,
            2,
            "expected 0x3610a686 over 100 bytes, the body has 0x1f2e3d4c",
        ),
        Finding("CQ_UNIT_MISSING", QUEUE, 400, 20, "topic_1", 3, 20, 70000, 1, "expected offset 70000, size 200"),
        Finding("LOG_TIME", SEGMENT, 2000, 8, "topic_1", 3, 21, 67536, 1, "an hour before its neighbours"),
        Finding("ABORT_PRESENT", "abort"),
    ]
    lost = [LostRange("topic_1", 3, 17, 19, 66770, 67180, "two queue units point there")]
    queues = [QueueResult("topic_1", 3, "cq", 0, 100, 99, 98, ((17, 19),))]
    return sound(**{"findings": findings, "lost": lost, "queues": queues, **changes})


EVIL = "\x1b[31mred\x07\r\n\x9b2J\u202e\u2028\x7f\udcff"


def evil() -> Audit:
    """Return an audit in which every text comes from an attacker."""
    files = [FileResult(f"commitlog/{EVIL}", EVIL, 10, {"garbage": 10}, EVIL, 1)]
    return sound(
        store=f"/data/{EVIL}",
        crc_engine=EVIL,
        settings=[Setting(EVIL, EVIL, EVIL)],
        files=files,
        queues=[QueueResult(EVIL, 1, EVIL, 0, 1, 1, 1, ((0, 1),))],
        index=[IndexResult(EVIL, 1, 2, 3)],
        checks={EVIL: 1},
        findings=[Finding(code, f"commitlog/{EVIL}", 1, 2, EVIL, 1, 2, 3, 4, EVIL) for code in CODES],
        lost=[LostRange(EVIL, 1, 0, 1, 0, 1, EVIL)],
        misplaced=[LostRange(EVIL, 1, 3, 4, 0, 1, EVIL)],
        unread=[LostRange(EVIL, 1, 1, 2, 0, 1, EVIL)],
        failed=[EVIL],
    )
