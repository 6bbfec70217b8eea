"""Benches against real brokers, at small sizes: both sides do the same work, and nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import brokers, pagecache, rebuild, recovery, simulate
from bench.generate import Generated, generate
from broker.builds import classpath

VERSION = "5.3.3"
SEGMENT_BYTES = 65_536


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no gigabytes of free memory asked from a host in front of each run, which may take it seconds."""
    monkeypatch.setattr(pagecache, "FREE_BYTES", 1 << 20)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    place = tmp_path_factory.mktemp("made") / "store"
    return generate(place, total_bytes=400_000, segment_bytes=SEGMENT_BYTES, body_bytes=150, topics=3, queues=2)


def run(bench: Any, made: Generated, place: Path, *words: str) -> Any:
    """Return what a bench writes as JSON; everything else that it writes must be gone."""
    if "--brokers" in words:
        classpath(VERSION)  # without it a bench times our side alone, and a test is skipped
    before = {p: p.stat().st_mtime_ns for p in made.root.rglob("*")}
    given = ["--store", str(made.root), "--segment-bytes", str(SEGMENT_BYTES), "--rounds", "1"]
    bench.main([*given, "--directory", str(place), "--json", str(place / "out.json"), *words])
    assert {p: p.stat().st_mtime_ns for p in made.root.rglob("*")} == before
    assert [p.name for p in place.iterdir()] == ["out.json"]
    return json.loads((place / "out.json").read_text())


@pytest.mark.long
def test_rebuild(made: Generated, tmp_path: Path) -> None:
    found = run(rebuild, made, tmp_path, "--brokers", VERSION, "--cores", "1", "2")
    theirs = found["brokers"][VERSION]
    assert theirs["written_bytes"] > 20 * (made.queue_units + made.index_units)
    for ours in found["ours"].values():
        assert (ours["records"], ours["queue_units"], ours["index_units"]) == (
            made.records, made.queue_units, made.index_units,
        )  # fmt: skip
        assert ours["ratio"] == {VERSION: pytest.approx(theirs["seconds"] / ours["seconds"])}


@pytest.mark.long
def test_recovery(made: Generated, tmp_path: Path) -> None:
    found = run(recovery, made, tmp_path, "--brokers", VERSION)
    assert found["ours"]["1"]["records"] == made.records
    assert found["brokers"][VERSION]["log_end"] == made.log_bytes
    assert found["brokers"][VERSION]["seconds"] > 0


def test_simulation(made: Generated, tmp_path: Path) -> None:
    (found,) = run(simulate, made, tmp_path, "--brokers", VERSION)
    assert found["simulated"]["log_end"] == found["load"]["log_end"] == made.log_bytes
    assert found["ratio"] == pytest.approx(found["load"]["seconds"] / found["simulated"]["seconds"])


def test_without_a_broker_our_side_is_timed(made: Generated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(version: str) -> str:
        raise brokers.UnavailableError(f"{version} is not here")

    monkeypatch.setattr(brokers, "classpath", missing)
    found = run(rebuild, made, tmp_path, "--cores", "1")
    assert found["brokers"] == {}
    assert found["ours"]["1"]["seconds"] > 0


def test_a_broker_that_refuses_is_an_error(made: Generated, tmp_path: Path) -> None:
    place = rebuild.copy_of_log(made.root, tmp_path / "copy")
    with pytest.raises(RuntimeError, match=f"broker {VERSION} (refuses|crashes)"):
        rebuild.rebuilt_by_broker(place, VERSION, SEGMENT_BYTES // 2)
