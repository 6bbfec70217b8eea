"""A real browser without a window, of those that the machine has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any, Final

import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATH: Final = next(filter(None, map(shutil.which, NAMES)), None)
WHY: Final = f"none of {', '.join(NAMES)} is installed"

needs_browser = pytest.mark.skipif(PATH is None, reason=WHY)


def opened() -> Iterator[Any]:
    """Yield a browser; ``playwright`` brings none of its own here."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=["--no-sandbox"])
        yield browser
        browser.close()
