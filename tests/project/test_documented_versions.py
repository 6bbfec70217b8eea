"""docs/versions.md, docs/changelog.md, docs/api.md and figures of speed against what is there."""

from __future__ import annotations

import json
import re
from collections import Counter

import golden_data

from bench.results import as_markdown
from storeio.cli import COMMANDS
from storeio.simulate.rules import LINES
from storeio.verbs import VERBS
from tests.documented import PAGES, ROOT

PAGE = (ROOT / "docs" / "versions.md").read_text()
OUTCOMES = ("starts", "refuses", "crashes", "hangs")


def rows(first: str) -> list[list[str]]:
    """Return the rows of the table whose head begins with a word."""
    table = re.search(rf"^\| {first} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert table is not None
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.group(1).splitlines()]


def test_counts_of_damages() -> None:
    shown = {name: [int(count) for count in counts] for name, *counts in rows("File")}
    real = {}
    for name in golden_data.CASES:
        found = Counter(case["outcome"] for case in golden_data.cases(name))
        real[name] = [found.total(), *(found[outcome] for outcome in OUTCOMES)]
    real["all"] = [sum(column) for column in zip(*real.values(), strict=True)]
    assert shown == real


def test_lines() -> None:
    assert [(line, version) for line, version, *_ in rows("Line")] == list(LINES.items())
    damages = Counter(case["broker"] for name in golden_data.CASES for case in golden_data.cases(name))
    for _, version, stores, count, started in rows("Line"):
        assert int(count) == damages[version]
        has = f"base-{version}" in golden_data.STORES
        assert (stores != "none") == (started == "yes") == has
        for name in re.findall(r"(?:^|`)([a-z-]+)(?:`|$)", stores) if has else ():
            assert name in golden_data.STORES or f"{name}-{version}" in golden_data.STORES


def test_stores_and_their_records() -> None:
    shown = {name: int(count) for name, count, _ in rows("Store")}
    assert shown == {name: len(golden_data.dump(name)) for name in golden_data.STORES}


def test_recorded_cleanings() -> None:
    (count,) = {len(golden_data.retention(version)) for version in golden_data.RETENTION}
    assert f"{count} recorded runs each of 4.9.8, 5.3.3 and 5.5.1" in PAGE
    assert sorted(golden_data.RETENTION) == ["4.9.8", "5.3.3", "5.5.1"]


def test_changes_name_every_verb() -> None:
    changes = (ROOT / "docs" / "changelog.md").read_text()
    for verb in COMMANDS:
        assert f"`{verb}`" in changes, verb
    for job in (ROOT / "jobs").glob("*_*.py"):
        if "def parser" in job.read_text():
            assert f"`{job.stem}`" in changes, job.stem


def test_functions_are_in_the_reference() -> None:
    reference = (ROOT / "docs" / "api.md").read_text()
    for verb, (module, function) in VERBS.items():
        assert f"| `storeio.{verb}` | `{module}.{function}` |" in reference
        assert f"autofunction:: {module}.{function}\n" in reference


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "docs" / "index.md").read_text().splitlines()
    for path in PAGES:
        name = str(path.relative_to(ROOT / "docs").with_suffix(""))
        assert name == "index" or name in contents, name


def test_seconds_are_those_that_were_measured() -> None:
    found = json.loads((ROOT / "bench" / "results.json").read_text())
    assert as_markdown(found) == (ROOT / "bench" / "RESULTS.md").read_text()
    figures = found["brokers"]["figures"]
    shown = dict(re.findall(r"(rebuild|check)`: ([0-9.]+) s", (ROOT / "README.md").read_text()))
    brokers = re.findall(r"([0-9.]+) s (?:for 4 GiB )?with 5\.3\.3", (ROOT / "README.md").read_text())
    rebuild, recovery = figures["rebuild"], figures["recovery"]
    assert shown == {
        "rebuild": f"{rebuild['ours']['2']['seconds']:.2f}",
        "check": f"{recovery['ours']['1']['seconds']:.2f}",
    }
    assert brokers == [f"{each['brokers']['5.3.3']['seconds']:.2f}" for each in (rebuild, recovery)]
