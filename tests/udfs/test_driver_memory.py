"""What an audit keeps in the driver: so much a queue, whatever the number of messages."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from bench.generate import generate
from bench.memory import MIB, Watch, goals, slopes
from storeio import audit

BYTES_PER_QUEUE = 4096  # twice what it was when this was written


def kept_by(root: Path, queues_of_topic: int, messages: int) -> tuple[int, int, int]:
    """Return the bytes that plan and reports of an audit keep, the most that its verdict took, and its queues."""
    generate(
        root, total_bytes=messages * 260, body_bytes=32, topics=20, queues=queues_of_topic, units_per_file=20_000,
        segment_bytes=64 << 20, index_slots=100, index_units=1000, keys=0, unique_keys=False,
    )  # fmt: skip
    plan = audit.prepare(str(root), split_bytes=64 << 20)
    audit.audit_split(plan, plan.splits[0])  # a walk keeps its tables for the next one, which in Spark is a worker's
    gc.collect()
    tracemalloc.start()
    try:
        plan = audit.prepare(str(root), split_bytes=64 << 20)
        plan = audit.with_files(plan, [audit.run_file_task(plan, task) for task in audit.file_tasks(plan)])
        reports = [audit.audit_split(plan, split) for split in plan.splits]
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        found = audit.conclude(plan, reports, lambda split, begin: audit.audit_split(plan, split, begin))
        assert found.exit_code == 0
        return kept, tracemalloc.get_traced_memory()[1], len(found.queues)
    finally:
        tracemalloc.stop()


def kept_apart(root: Path, queues_of_topic: int, messages: int) -> tuple[int, int, int]:
    """Return the same from a new process: other tests have left tables of any size in this one."""
    command = [sys.executable, __file__, str(root), str(queues_of_topic), str(messages)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    kept, most, queues = json.loads(ran.stdout)
    return kept, most, queues


def test_the_driver_grows_with_queues_and_not_with_messages(tmp_path: Path) -> None:
    few_kept, few_most, few = kept_apart(tmp_path / "few", 25, 10_000)
    kept, most, many = kept_apart(tmp_path / "many", 100, 25_000)
    more_kept, more_most, same = kept_apart(tmp_path / "more messages", 100, 100_000)
    assert (few, many, same) == (500, 2000, 2000)
    assert 0 < (kept - few_kept) / (many - few) < BYTES_PER_QUEUE
    assert 0 < (most - few_most) / (many - few) < 2 * BYTES_PER_QUEUE
    assert more_kept < 1.1 * kept
    assert more_most < 1.1 * most


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bench asks Linux for the sizes of processes")
def test_the_bench_sees_what_processes_hold() -> None:
    held = "import numpy; kept = numpy.ones(10 << 20); print(1, flush=True); input()"
    with Watch() as watch:
        watch.look()
        before = watch.anon["driver"]
        kept = np.ones(8 << 20)
        below = subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert below.stdout is not None
        below.stdout.readline()
        watch.look()
        below.communicate(b"\n")
    assert watch.anon["driver"] > before + 60 * MIB
    assert watch.anon["worker"] >= 80 * MIB
    assert watch.rss["worker"] >= watch.anon["worker"]
    assert len(kept)


def test_the_bench_says_what_a_queue_costs_and_who_takes_too_much() -> None:
    row = {"store": "500 queues", "work": "audit", "segments": 1, "queues": 500, "driver_anon_bytes": 1_000_000}
    rows = [row | {"worker_rss_bytes": 1}]
    assert "below 512 MiB" in goals(rows)[0]
    rows.append(json.loads(json.dumps(row)) | {"store": "1500 queues", "queues": 1500, "driver_anon_bytes": 3_000_000})
    rows[1]["worker_rss_bytes"] = 600 * MIB
    assert slopes(rows) == ["driver, audit: 2,000 bytes for each of the queues"]
    assert goals(rows) == ["over 512 MiB: 1500 queues, audit"]


if __name__ == "__main__":
    print(json.dumps(kept_by(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
