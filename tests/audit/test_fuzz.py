"""Random mutations of real files: no crash, no hang, and no changed body goes unseen.

Each run mutates a copy of a broker-written store in many places at once; RUNS * EACH mutations in
all, seeded, so that a failure repeats.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import golden_data
import pytest
from damage import mutate
from sampled import seeds

from storeio import audit
from storeio.findings import Finding

BATCHES, RUNS, EACH = 40, 25, 20  # 20,000 mutations
STORES = ("base-4.9.8", "base-5.3.3", "base-5.5.1", "base-long-5.5.1", "ext-4.9.8", "ext-5.5.1")


def changed_bodies(name: str, root: Path) -> list[tuple[str, int, int]]:
    """Segment, position and size of each record whose body on disk is no longer what the broker wrote."""
    base = golden_data.store(name)
    segment_bytes = golden_data.options(name)["clFile"]
    changed = []
    for row in golden_data.dump(name):
        physical, size, body = int(row["phy_offset"]), int(row["size"]), int(row["body_len"])
        start = physical // segment_bytes * segment_bytes
        path = f"commitlog/{start:020d}"
        if not (root / path).exists():
            continue
        flags = int(row["sys_flag"])
        at = physical - start + 72 + (20 if flags & 16 else 8) + (20 if flags & 32 else 8)
        if contents(root / path)[at : at + body] != contents(base / path)[at : at + body]:
            changed.append((path, physical - start, size))
    return changed


_CACHE: dict[Path, tuple[float, bytes]] = {}


def contents(path: Path) -> bytes:
    """Bytes of a file, read again only when it changed."""
    stamp = path.stat().st_mtime_ns
    if path not in _CACHE or _CACHE[path][0] != stamp:
        _CACHE[path] = (stamp, path.read_bytes())
    return _CACHE[path][1]


def is_seen(findings: list[Finding], path: str, position: int, size: int) -> bool:
    """Whether a finding that counts names a part of the record."""
    return any(
        f.path == path
        and f.severity != "info"
        and f.position < position + size
        and f.position + max(f.length, 1) > position
        for f in findings
    )


@pytest.mark.parametrize("batch", seeds(1, BATCHES))
def test_mutations_never_crash_and_no_changed_body_is_sound(batch: int, tmp_path: Path) -> None:
    rng = random.Random(batch)
    for run in range(RUNS):
        name = rng.choice(STORES)
        root = tmp_path / f"store{run}"
        shutil.copytree(golden_data.store(name), root)
        files = sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file())
        logs = [p for p in files if p.parts[0] == "commitlog"]
        for _ in range(EACH):
            mutate(rng, root, logs if rng.random() < 0.5 else files)
        found = audit.check(root, jobs=1)
        for path, position, size in changed_bodies(name, root):
            assert found.verdict == "damaged"
            assert is_seen(found.findings, path, position, size), f"batch {batch} run {run} {name}: {path} {position}"
        for file in found.files:
            assert sum(n for kind, n in file.classes.items() if kind != "missing") == file.size or found.failed
        shutil.rmtree(root)
        _CACHE.clear()
