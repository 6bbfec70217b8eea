"""The size of splits changes nothing of what an audit says of a store that is damaged in several places at once."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, Final

import golden_data
import pytest
from damage import mutate
from other_stores import store
from sampled import seeds

from storeio import audit
from storeio.report import audit_object

SIZES: Final = (4096, 5000, 9999)
QUEUE: Final = "consumequeue/%LMQ%shared/0/"
BATCHES: Final = "batchconsumequeue/b1/0/"
DAMAGES: Final[dict[str, tuple[str, list[list[Any]]]]] = {
    "batch queue file cut in a unit": ("tinymix-5.1.4", [["truncate", f"{BATCHES}{1104:020d}", 19]]),
    "batch queue gone": ("tinymix-5.1.4", [["rmtree", "batchconsumequeue/b1"]]),
    "light queue gone": ("tinymix-4.9.8", [["rmtree", "consumequeue/%LMQ%a0/0"]]),
    "light queue misnamed": ("rich-4.9.8", [["rename", f"{QUEUE}{0:020d}", f"{QUEUE}{1:020d}"]]),
    "segment misnamed": ("rich-5.5.1", [["rename", f"commitlog/{458752:020d}", f"commitlog/{4587520:020d}"]]),
    "queue file misnamed": (
        "base-5.1.4", [["rename", f"consumequeue/topic_0/1/{1000:020d}", f"consumequeue/topic_0/1/{1020:020d}"]],
    ),
    "log zero to a split's end": ("ext-5.3.3", [["zero", f"commitlog/{0:020d}", 5665, 4096]]),
    "segment gone, segment cut": (
        "base-4.9.8", [["zero", f"commitlog/{294912:020d}", 646, 32122], ["delete", f"commitlog/{98304:020d}"]],
    ),
    "log zero over a split's border": ("base-5.5.1", [["zero", f"commitlog/{196608:020d}", 4159, 6000]]),
    "log zero over two borders": ("base-4.9.8", [["zero", f"commitlog/{196608:020d}", 7300, 9500]]),
    "index file gone, log zero": (
        "rich-5.5.1", [["zero", f"commitlog/{917504:020d}", 3609, 61927], ["delete", "index/20261121000416068"]],
    ),
}  # fmt: skip


def facts(root: Path, **words: Any) -> dict[str, Any]:
    """Return what an audit says of a store, but for when it ran."""
    told = audit_object(audit.check(root, jobs=1, **words))
    return {name: value for name, value in told.items() if name not in ("started_ms", "seconds")}


@pytest.mark.share(2)
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_same_is_said_of_a_damage(damage: str, place: Path, tmp_path: Path) -> None:
    name, edits = DAMAGES[damage]
    root = shutil.copytree(store(name, place), tmp_path / "store")
    golden_data.apply_edits(root, edits)
    whole = facts(root)
    assert whole["findings"]
    for size in SIZES:
        assert facts(root, split_bytes=size) == whole, size


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", seeds(6, 24))
def test_the_same_is_said_of_many_damages(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root = golden_data.copy_of(rng.choice(("base-4.9.8", "base-5.5.1", "ext-5.5.1", "rich-5.5.1")), tmp_path / "store")
    files = sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file())
    for _ in range(rng.choice((2, 5, 20))):
        mutate(rng, root, files)
    whole = facts(root)
    for size in SIZES:
        assert facts(root, split_bytes=size) == whole, size


@pytest.mark.share(2)
@pytest.mark.parametrize("begin", [603, 1146, 13382, 25771])
def test_the_same_is_said_of_older_bytes_behind_the_last_record(begin: int, tmp_path: Path) -> None:
    """They end in a blank record, which closes nothing: what lies in front of it is behind the log's end, too."""
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    older, last = ((root / golden_data.segment(number)).read_bytes() for number in (6, 9))
    (root / golden_data.segment(9)).write_bytes(last[:begin] + older[begin:])
    whole = facts(root)
    assert "INDEX_BEYOND_LOG" in {finding["code"] for finding in whole["findings"]}
    for size in (600, *SIZES):
        assert facts(root, split_bytes=size) == whole, size


def test_a_unit_that_is_cut_is_missing(place: Path, tmp_path: Path) -> None:
    root = shutil.copytree(store("tinymix-5.1.4", place), tmp_path / "store")
    golden_data.apply_edits(root, DAMAGES["batch queue file cut in a unit"][1])
    wrong = [f for f in facts(root)["findings"] if f["path"].startswith(BATCHES)]
    told = [(f["code"], Path(f["path"]).name, f["position"], f["count"]) for f in wrong]
    assert told == [("BCQ_UNIT_MISSING", f"{1104:020d}", 0, 6), ("BCQ_LENGTH", f"{1104:020d}", 19, 1)]


@pytest.mark.parametrize("base", range(0, 1657, 276))
def test_a_batch_queue_file_that_is_gone_is_named(base: int, place: Path, tmp_path: Path) -> None:
    root = shutil.copytree(store("tinymix-5.1.4", place), tmp_path / "store")
    golden_data.apply_edits(root, [["delete", f"{BATCHES}{base:020d}"]])
    told = [(f["code"], f["path"], f["position"]) for f in facts(root)["findings"] if f["severity"] == "error"]
    assert told == [("BCQ_UNIT_MISSING", f"{BATCHES}{base:020d}", 0)]


def test_no_unit_before_the_header_s_begin_is_believed(place: Path, tmp_path: Path) -> None:
    name, path = "tinymix-4.9.8", "index/20261121080030500"
    root = shutil.copytree(store(name, place), tmp_path / "store")
    golden_data.apply_edits(root, [["write", path, 168, "00000074"]])  # low half of the offset in the second unit
    told = [(f["code"], f["path"], f["position"]) for f in facts(root)["findings"] if f["path"].startswith("index/")]
    assert told == [("INDEX_UNIT_WRONG", path, 164)]


@pytest.mark.parametrize("size", [None, *SIZES])
def test_a_copy_of_a_segment_across_others_changes_nothing_of_the_index(size: int | None, tmp_path: Path) -> None:
    """It closes with a blank record, which names no place; what it has besides is none of the log there."""
    root = golden_data.copy_of("base-5.5.1", tmp_path / "store")
    units = audit.check(root, jobs=1).checks["index_units"]
    shutil.copyfile(root / golden_data.segment(6), root / f"commitlog/{212992:020d}")
    found = audit.check(root, jobs=1, split_bytes=size)
    assert found.checks["index_units"] == units
    assert not [finding for finding in found.findings if finding.code.startswith("INDEX_")]
    assert "MISALIGNED_NAME" in {finding.code for finding in found.findings}


@pytest.mark.parametrize("size", [None, *SIZES])
def test_a_lost_tail_of_an_index_file_speaks_against_no_record(size: int | None, tmp_path: Path) -> None:
    """Zeros for the last unit seem to lead to the log's first record, of which they have no key."""
    root = golden_data.copy_of("base-5.3.3", tmp_path / "store")
    path = min((root / "index").iterdir())
    data = path.read_bytes()
    path.write_bytes(data[:2293].ljust(len(data), b"\0"))
    found = audit.check(root, jobs=1, split_bytes=size).findings
    assert {finding.code for finding in found if finding.severity != "info"} == {
        "INDEX_CHAIN", "INDEX_UNIT_MISSING", "INDEX_UNIT_WRONG",
    }  # fmt: skip
