"""The page as text: what it says is what the report says, and nothing in it can act."""

from __future__ import annotations

import html
import re
from itertools import starmap
from pathlib import Path

import audits
import golden_data as golden
import pytest
import salvages

from storeio import audit, cli
from storeio.findings import CODES, INFO, Finding
from storeio.predict.start import next_starts
from storeio.report import verdict_sentence
from storeio.report.next_step import next_steps
from storeio.report.page import StorePage, past_of, render_page, start_of
from storeio.report.parsed import Failure
from storeio.results import BYTE_CLASSES, FileResult, QueueResult, Reading, Setting, Unfinished

pytestmark = pytest.mark.share(2)

EVIL = "</title><script>alert('x')</script>\x1b[31m\u202e<img src=x onerror=y>"


def text_of(page: str) -> str:
    """Return what a page without style sheet shows, white space as one blank."""
    body = page.partition("<body>")[2]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))


def loaded(page: str) -> list[str]:
    """Return what the page would fetch or run."""
    return re.findall(r"<script|<link|<img|<iframe|\ssrc=|\son\w+=|url\(|@import|href=\"[^#]|https?:", page)


@pytest.mark.parametrize(("name", "seed"), [("rich-5.5.1", 3), ("rich-4.9.8", 8), ("base-5.3.3", 2)])
def test_it_says_what_the_report_says(name: str, seed: int, tmp_path: Path) -> None:
    damage = salvages.damaged(name, seed, tmp_path / "store")
    found = audit.check(damage.root, given=damage.given, jobs=1)
    starts = [*starmap(start_of, next_starts(str(damage.root), damage.given))]
    page = render_page([StorePage(found, starts)])
    text = text_of(page)
    word, _, rest = verdict_sentence(found).partition(": ")
    assert f"{word} : {rest}" in text
    assert f"<title>{word}: " in page
    for step in next_steps(found):
        assert f"<pre>{html.escape(step.command, quote=False).replace(chr(39), '&#39;')}</pre>" in page
    for code in {finding.code for finding in found.findings}:
        assert CODES[code].sentence in text
        assert CODES[code].severity == INFO or CODES[code].remedy in text
    assert len(starts) == text.count("broker 4.9.8 ") + sum(text.count(f"broker 5.{n}") for n in range(10))
    for segment in {band.path for band in found.bands if band.byte_class not in ("record", "blank")}:
        assert segment.removeprefix("commitlog/") in text
    for queue in found.queues[:200]:
        assert f"{queue.topic}/{queue.queue_id}" in text
    assert loaded(page) == []


def test_nothing_of_a_damaged_name_acts() -> None:
    queue = QueueResult(EVIL, 1, "cq", 0, 5, 5, 5, ((1, 2),))
    finding = Finding("CQ_TAGS_CODE", f"consumequeue/{EVIL}/1/0", 0, 20, EVIL, 1, 0, detail=EVIL)
    evil = audits.damaged(
        store=EVIL, queues=[queue], findings=[finding], failed=[EVIL], settings=[Setting(EVIL, EVIL, EVIL)],
        files=[FileResult(f"commitlog/{EVIL}", "commitlog", 700, dict.fromkeys(BYTE_CLASSES, 100))],
    )  # fmt: skip
    seen = {
        "code": "CQ_TAGS_CODE", "severity": "error", "path": EVIL, "position": 0, "topic": EVIL, "queue_id": 1,
        "first_seen_ms": 5, "last_seen_ms": 6, "cleared_ms": None,
    }  # fmt: skip
    run = {"run_id": EVIL, "started_ms": 5, "verdict": EVIL, "errors": 1, "warnings": 0, "lost_messages": 0}
    page = render_page([StorePage(evil, past=past_of([run], [seen])), StorePage(Failure(EVIL, EVIL, 8))])
    assert loaded(page.replace("&lt;script", "").replace(" src=x onerror=y&gt;", "")) == []
    assert all(char.isprintable() or char == "\n" for char in page)
    assert page.count("&lt;script&gt;") > 10


def test_unfinished_and_failed_stores_have_a_place() -> None:
    reading = Reading(1000, 5, 0, 0, left=(("commitlog/00000000000000000000", 1000, 9000),))
    known = audits.damaged().findings
    cut = Unfinished("/data/a", "0", "isal", 0, 1.5, [], known, reading, cancelled=True)
    page = render_page([StorePage(cut), StorePage(Failure("/data/b", "/data/b: not a directory", 16))])
    text = text_of(page)
    assert "8.00 kB of /data/a were not looked at, it was cancelled" in text
    assert "commitlog/00000000000000000000, bytes 1000 to 8999" in text
    assert "FAILED : /data/b could not be audited: /data/b: not a directory" in text
    assert "Map of the log" not in text


def test_history_is_drawn() -> None:
    day = 86_400_000
    runs = [
        {"run_id": f"r{n}", "started_ms": n * day, "verdict": "damaged" if n else "sound", "errors": n, "warnings": 0,
         "lost_messages": 0}
        for n in range(4)
    ]  # fmt: skip
    seen = [
        {"code": "CQ_TAGS_CODE", "severity": "error", "path": "consumequeue/t/0/0", "position": 20 * n, "topic": "t",
         "queue_id": 0, "first_seen_ms": n * day, "last_seen_ms": 2 * day, "cleared_ms": gone}
        for n, gone in ((1, 3 * day), (2, None))
    ]  # fmt: skip
    past = past_of(reversed(runs), seen)
    assert [run.started_ms for run in past.runs] == [0, day, 2 * day, 3 * day]
    assert [one.cleared_ms for one in past.sightings] == [None, 3 * day]
    text = text_of(render_page([StorePage(audits.damaged(), past=past)]))
    assert "4 audits from 1970-01-01T00:00:00.000Z to 1970-01-04T00:00:00.000Z" in text
    assert "first seen 1970-01-03T00:00:00.000Z, last seen 1970-01-03T00:00:00.000Z, still open" in text
    assert "gone 1970-01-04T00:00:00.000Z" in text


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "a store")
    (root / "commitlog" / "00000000000000065536").unlink()
    page = tmp_path / "report.html"
    words = ["check", str(root), str(tmp_path / "none"), "--quiet", "--html", str(page)]
    assert cli.run(words) == 4 | 16
    out = capsys.readouterr().out
    text = text_of(page.read_text())
    assert out.splitlines()[0].partition(": ")[2] in text
    assert "none could not be audited" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a store", "report.html"]
    for wrong in (root / "report.html", tmp_path / "nowhere" / "x.html", tmp_path):
        assert cli.run(["check", str(root), "--quiet", "--html", str(wrong)]) == 16
        assert "--html" in capsys.readouterr().err
    assert cli.run(["check", str(root), "--quiet", "--html", str(page), "--history", str(tmp_path)]) == 16
    assert "holds no table runs" in capsys.readouterr().err
