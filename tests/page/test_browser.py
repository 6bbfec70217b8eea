"""The page in a real browser, on a desk and on a phone: what a person sees of a damaged store, and that it fits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest
import salvages
from page import browser
from sampled import sampled

from storeio import audit
from storeio.predict.start import next_starts
from storeio.report import verdict_sentence
from storeio.report.page import StorePage, past_of, render_page, start_of
from storeio.results import Audit

pytestmark = [browser.needs_browser, pytest.mark.share(2)]

# What sticks out of the window and cannot be scrolled to within its own box.
STICKING_OUT = """() => [...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.wide') && !e.closest('svg svg, svg *'))
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(e => e.tagName + '.' + e.className)"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    yield from browser.opened()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Path]:
    """A damaged store's audit and its page; long topics, missing segments, lost messages are in it."""
    place = tmp_path_factory.mktemp("page")
    damage = salvages.damaged("rich-5.5.1", 3, place / "store")
    found = audit.check(damage.root, given=damage.given, jobs=1)
    starts = [*starmap(start_of, next_starts(str(damage.root), damage.given))]
    runs = [
        {"run_id": str(n), "started_ms": n, "verdict": "damaged", "errors": n % 5, "warnings": 1, "lost_messages": 0}
        for n in range(40)
    ]
    past = past_of(runs, [])
    page = place / "report.html"
    page.write_text(render_page([StorePage(found, starts, past)]), encoding="utf-8")
    return found, page


@pytest.mark.parametrize(
    ("width", "scheme"),
    sampled(itertools.product((1280, 390), ("light", "dark")), [(390, "dark")]),
)
def test_what_a_person_sees(width: int, scheme: str, chromium: Any, made: tuple[Audit, Path], tmp_path: Path) -> None:
    found, place = made
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    asked: list[str] = []
    trouble: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: trouble.append(message.text))
    page.goto(place.as_uri())
    assert (asked, trouble) == ([place.as_uri()], [])
    banner = page.locator(".banner h1")
    assert banner.is_visible()
    assert banner.bounding_box()["y"] < 100
    assert banner.inner_text().replace("\n", " ") == verdict_sentence(found)
    assert page.locator("ol.steps pre").count() == 3
    assert page.locator(".row.segment").count() > 8
    assert page.locator(".row.segment rect.missing").count() == sum(b.byte_class == "missing" for b in found.bands)
    assert page.locator(".row.segment svg.marked rect.error").count() > 0
    assert page.locator("table.queues tbody tr").count() == len(found.queues)
    assert page.locator("table.lost tbody tr").count() == len(found.lost)
    assert page.locator("table.starts tbody tr").count() == 7
    assert page.locator("svg.runs rect").count() == 40
    damaged = page.locator(".row.segment rect.torn").first
    assert damaged.bounding_box()["width"] >= 1
    assert "torn: bytes" in damaged.locator("title").text_content()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.evaluate(STICKING_OUT) == []
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"width: 3000px\">wide</p>')")
    assert page.evaluate(STICKING_OUT) == ["P."]  # so it is measured
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000
    context.close()


def test_without_scripts_and_on_paper(chromium: Any, made: tuple[Audit, Path]) -> None:
    found, place = made
    context = chromium.new_context(java_script_enabled=False, color_scheme="dark")
    page = context.new_page()
    page.goto(place.as_uri())
    assert verdict_sentence(found).partition(": ")[2] in page.locator(".banner").inner_text()
    context.close()
    context = chromium.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(place.as_uri())
    page.emulate_media(media="print")
    style = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    assert page.eval_on_selector("body", style) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.pdf(format="A4").startswith(b"%PDF")
    context.close()
