"""Random trouble of every kind: what the local store gives, or an error that says so and nothing that looks whole."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from rebuilds import tree
from remote.objects import CUT, DOWN, EMPTY, LONG, RESET, SHORT, WHOLE, Fault, Objects, Proxy, Request
from sampled import sampled

from storeio.cli import run
from storeio.remote import trouble
from storeio.remote.listing import COMPLETE, WRITING

Start = Callable[[Fault], Proxy]
READ: tuple[int | str, ...] = (RESET, CUT, DOWN, SHORT, LONG, EMPTY, WHOLE, 301, 403, 404, 412, 416, 500, 503)
WRITTEN: tuple[int | str, ...] = (RESET, CUT, DOWN, 403, 404, 500, 503, 507)
LISTED, NUMBER = "rows-5.3.3", 40


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trouble, "MOST_PAUSE_SECONDS", 0.02)


@pytest.fixture(scope="module")
def damaged(objects: Objects, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a damaged store that is on the server as ``store``."""
    place = tmp_path_factory.mktemp("damaged") / "store"
    root = golden.damaged(golden.base_of(LISTED), golden.cases(LISTED)[NUMBER]["edits"], place)
    objects.put_store(root, "store")
    return root


def random_fault(chance: random.Random, kinds: tuple[int | str, ...]) -> Fault:
    """Return trouble of one to three kinds: now and then, from some moment on, or for one file."""
    chosen = chance.sample(kinds, chance.randint(1, 3))
    share, first, last = chance.choice((0.03, 0.2, 0.8)), chance.randrange(60), chance.choice((3, 10**9))
    names = chance.choice(("", "", "index/", "commitlog/", "checkpoint", "_storeio"))

    def fault(request: Request) -> int | str | None:
        meant = names in request.path and first <= request.number < first + last
        return chance.choice(chosen) if meant and chance.random() < share else None

    return fault


def plain(place: Path) -> dict[str, Any]:
    told = json.loads(place.read_text())
    return {name: part for name, part in told.items() if name not in ("store", "started_ms", "seconds")}


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", sampled(range(6), range(3)))
def test_an_audit_is_that_of_the_disk_or_says_why_not(
    seed: int, damaged: Path, objects: Objects, proxied: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    local, remote = tmp_path / "local", tmp_path / "remote"
    code = run(["check", str(damaged), "--json", str(local), "--quiet"])
    uri = objects.uri("store", proxied(random_fault(chance, READ)).endpoint, retries=chance.choice(("0", "2")))
    found = run(["check", uri, "--json", str(remote), "--quiet", "--jobs", "1"])
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if found == code:
        assert plain(remote) == plain(local)
    elif found in (8, 16):  # not even the listing came
        assert said.count("\n") == 1
        assert remote.stat().st_size == 0 if remote.exists() else True
    else:
        assert found & 8
        assert {finding["code"] for finding in plain(remote)["findings"]} >= {"UNREADABLE"}


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(6))
def test_an_output_is_whole_or_says_that_it_is_not(
    seed: int, damaged: Path, objects: Objects, proxied: Start, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    code = run(["rebuild", str(damaged), "--into", str(tmp_path / "local"), "--quiet"])
    local, place = tree(tmp_path / "local"), f"new-{seed}"
    proxy = proxied(random_fault(chance, WRITTEN))
    uri = objects.uri(place, proxy.endpoint, retries=chance.choice(("0", "2")))
    for into in (uri, objects.uri(place)):
        found = run(["rebuild", str(damaged), "--into", into, "--quiet"])
        there = objects.tree(place)
        if COMPLETE in there and WRITING not in there:
            del there[COMPLETE]
            assert there == local
            if found == code:
                return
        else:
            assert found & 8
            assert there == {} or WRITING in there
    assert found in (code, 16)  # it was whole, though its writer did not learn of that
