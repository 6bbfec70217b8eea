"""``bench.rebuild`` at small sizes: figures of both sides, and that a broker gets a copy without queues and index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_bench import SHAPE

from bench import rebuild as bench
from bench.generate import generate

ORACLE = """#!/bin/sh
test "$1 $2" = "5.3.3 recover" || exit 2
case " $* " in *" start=true "*) ;; *) exit 3 ;; esac
for name in consumequeue index checkpoint abort; do test ! -e "$3/$name" || exit 4; done
mkdir "$3/consumequeue" "$3/index"; touch "$3/checkpoint" "$3/commitlog/written"
echo '{"event":"load","ok":true,"loadMs":4000}'
echo 'a line of a log'
echo '{"event":"started","ms":2000}'
"""


def test_both_are_timed_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = tmp_path / "oracle" / "oracle"
    oracle.parent.mkdir()
    oracle.write_text(ORACLE)
    oracle.chmod(0o755)
    monkeypatch.setenv(bench.ORACLE, str(oracle.parent))
    made = generate(tmp_path / "store", **SHAPE)
    before = sorted(p.relative_to(made.root) for p in made.root.rglob("*"))
    words = ["--store", str(made.root), "--rounds", "1", "--threads", "2", "--directory", str(tmp_path)]
    words += ["--segment-bytes", str(SHAPE["segment_bytes"]), "--json", str(tmp_path / "out.json")]
    bench.main(words)
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["by_broker"]["seconds"] == 6.0
    ours = found["rebuilt"]["2"]
    assert (ours["records"], ours["queue_units"], ours["index_units"]) == (
        made.records, made.queue_units, made.index_units,
    )  # fmt: skip
    assert ours["ratio"] == pytest.approx(6.0 / ours["seconds"])
    assert sorted(p.relative_to(made.root) for p in made.root.rglob("*")) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["oracle", "out.json", "store"]


def test_a_broker_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    oracle = tmp_path / "oracle"
    oracle.write_text("#!/bin/sh\nexit 3\n")
    oracle.chmod(0o755)
    (tmp_path / "store").mkdir()
    with pytest.raises(RuntimeError, match=r"did not load .* exit code 3"):
        bench.rebuilt_by_broker(tmp_path, tmp_path / "store", "5.3.3", 1 << 30)
