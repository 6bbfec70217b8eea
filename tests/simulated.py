"""Starts of stores that were written with the oracle's options, as the tests of ``simulate`` make them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storeio.config import infer_config
from storeio.scan import list_store, read_range
from storeio.simulate.broker import Setup
from storeio.simulate.disk import Disk


def disk_of(root: Path) -> Disk:
    """Return a store as a simulated start sees it."""
    return Disk(list_store(root).files, lambda path, start, stop: read_range(str(root), path, start, stop))


def setup_of(root: Path, options: Mapping[str, Any]) -> Setup:
    """Return the settings with which a store was written; delays as its files tell them."""
    sizes = {"mappedFileSizeCommitLog": options["clFile"], "mappedFileSizeConsumeQueue": 20 * options["cqEntries"]}
    config = infer_config(list_store(root), {name: str(value) for name, value in sizes.items()})
    return Setup(
        config.commitlog_file_bytes,
        config.queue_file_bytes,
        options["indexSlots"],
        options["indexNum"],
        config.delays_ms,
        batch_file_bytes=options.get("set.mapperFileSizeBatchConsumeQueue", 46 * 300_000),
        ext_file_bytes=options.get("cqExtFile", 48 << 20),
        multi_dispatch=options.get("set.enableMultiDispatch") == "true",
        lmq=options.get("set.enableLmq") == "true",
        ext_enabled=options.get("cqExt") == "true",
        batch_topics=frozenset(name for name in options.get("bcqTopics", "").split(",") if name),
    )
