"""Real brokers find the sound stores whole, and the harness sees where one does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_data
import pytest
from broker.brokers import VERSIONS, Started, rebuild, run
from broker.whole import (
    Keys,
    Message,
    Record,
    as_after,
    assert_new_messages,
    assert_whole,
    broker_accepts,
    keys_of,
    messages_of,
    records_of,
)

pytestmark = pytest.mark.broker

NEW = [("topic_0", 0), ("topic_0", 1), ("topic_0", 0), ("topic_1", 0), ("topic_1", 1), ("topic_new", 3)]


def expected(name: str) -> tuple[list[Record], list[Message], Keys]:
    """Return a golden store's records, and what clients have to get of them."""
    records = records_of(golden_data.dump(name), golden_data.options(name))
    return records, messages_of(records), keys_of(records)


def log_end(records: list[Record]) -> int:
    return records[-1]["physical_offset"] + records[-1]["size"]


def start_case(name: str, case_id: str, target: Path, **options: Any) -> tuple[golden_data.Case, Started]:
    """Return a recorded damage and what its broker makes of it today."""
    base = golden_data.base_of(name)
    case = next(case for case in golden_data.cases(name) if case["id"] == case_id)
    root = golden_data.damaged(base, case["edits"], target)
    return case, run(case["broker"], root, golden_data.options(base), stop="halt", **options)


@pytest.mark.parametrize("version", VERSIONS)
def test_sound_store_is_whole_and_goes_on(version: str) -> None:
    name = f"base-{version}"
    records, messages, keys = expected(name)
    starts = broker_accepts(
        golden_data.store(name), version, golden_data.options(name), messages, keys, log_end=log_end(records), put=NEW
    )
    for started in starts.values():
        assert started.loaded_range == (0, log_end(records))
        assert_new_messages(started, NEW)


# Everything that a log can hold: transactions, batches, light queues, long topics, extended queues; three brokers in turn.
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("rich-4.9.8", "4.9.8"),
        ("rich-5.3.3", "5.3.3"),
        ("rich-5.5.1", "5.5.1"),
        ("ext-4.9.8", "4.9.8"),
        ("ext-5.5.1", "5.5.1"),
        ("upgraded", "5.5.1"),
        ("base-long-5.5.1", "5.5.1"),
    ],
)
def test_store_with_everything_in_it_is_whole(name: str, version: str) -> None:
    records, messages, keys = expected(name)
    broker_accepts(
        golden_data.store(name), version, golden_data.options(name), messages, keys, log_end=log_end(records)
    )
