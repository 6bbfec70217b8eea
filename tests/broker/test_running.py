"""Audits of stores to which real brokers write: no false finding, and what is damaged is found."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import golden_data
import pytest
from golden_data import sizes_of
from sampled import sampled

import storeio
from broker.brokers import VERSIONS, run
from storeio.results import Audit

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]

LOOKS = 12
BUSY = ("topic_0", "topic_busy")


def serious(found: Audit) -> list[tuple[str, str, int, str]]:
    """Return what is wrong with a store."""
    return [(f.code, f.path, f.position, f.detail) for f in found.findings if f.severity != "info"]


@pytest.mark.parametrize(
    ("version", "kind"),
    sampled(itertools.product(VERSIONS, ("base", "rich")), [("4.9.8", "rich"), ("5.5.1", "base")]),
)
def test_an_audit_of_a_busy_store_finds_damage_and_nothing_else(version: str, kind: str, tmp_path: Path) -> None:
    name = f"{kind}-{version}"
    options = golden_data.options(name)
    root = golden_data.copy_of(name, tmp_path / "store")
    given = {"mappedFileSizeCommitLog": str(options["clFile"])}
    before = len(golden_data.dump(name))
    counts: list[int] = []

    def look() -> list[tuple[str, str, int, str]]:
        found = storeio.check(root, given=given, jobs=2)
        assert "a broker runs" in next(f.detail for f in found.findings if f.code == "ABORT_PRESENT")
        counts.append(found.log.records)
        return serious(found)

    def meanwhile() -> None:
        for _ in range(LOOKS):
            assert look() == []
            time.sleep(0.05)
        place, size = int(golden_data.dump(name)[5]["phy_offset"]), int(options["clFile"])
        edits = [["write", f"commitlog/{place - place % size:020d}", place % size + 89, "2a2a2a2a2a"]]
        golden_data.apply_edits(root, edits)
        quiet = storeio.check(golden_data.damaged(name, edits, tmp_path / "quiet"), given=given, jobs=2)
        assert serious(quiet)
        assert {row[:3] for row in look()} == {row[:3] for row in serious(quiet)}

    started = run(version, root, options, consume=False, stop="halt", meanwhile=meanwhile, busy=BUSY)
    assert started.outcome == "starts", started.reason
    assert before <= counts[0] < counts[LOOKS - 1], "the broker was not busy"


@pytest.mark.parametrize("version", sampled(VERSIONS, ["5.3.3"]))
def test_other_verbs_look_at_one_moment_of_a_busy_store(version: str, tmp_path: Path) -> None:
    """Nothing is lost if the broker is killed, nothing is to be done, and what is built or saved is whole."""
    name = f"rich-{version}"
    options = golden_data.options(name)
    root = golden_data.copy_of(name, tmp_path / "store")
    given = sizes_of(options)
    ends: list[int] = []

    def meanwhile() -> None:
        for number in range(2):
            start = storeio.simulate(root, broker=version, given=given)
            assert not start.harms, start.given_up
            ends.append(start.running_end or 0)
            assert storeio.rebuild(root, tmp_path / f"rebuilt-{number}", given=given).exit_code == 0
            saved = storeio.salvage(root, tmp_path / f"saved-{number}", given=given)
            assert (saved.exit_code, saved.lost_count) == (0, 0)
            planned = storeio.plan(root, tmp_path / f"plan-{number}.json", given=given, broker=version)
            assert (planned.exit_code, planned.plan.actions) == (0, ())
            assert saved.records >= len(golden_data.dump(name))

    started = run(version, root, options, consume=False, stop="halt", meanwhile=meanwhile, busy=BUSY)
    assert started.outcome == "starts", started.reason
    assert 0 < ends[0] < ends[-1], "the broker was not busy"
