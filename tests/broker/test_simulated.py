"""Real brokers do with damaged stores what a simulated start says of consumers and of new messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from rebuilds import sizes_of

from broker.brokers import VERSIONS, Queue, Started, run
from storeio.prediction import Prediction, simulate
from tests import golden_data

pytestmark = pytest.mark.broker

NEW: Final[list[Queue]] = [("topic_0", 0), ("topic_1", 1)]
LAST_UNITS: Final = f"consumequeue/topic_0/0/{4000:020d}"


def started(
    version: str, edits: golden_data.Edit, place: Path, put: Sequence[Queue] = ()
) -> tuple[Prediction, Started]:
    """Return what is said of a start on a damaged store, and what a broker does there."""
    name = f"base-{version}"
    root, options = golden_data.damaged(name, edits, place / "store"), golden_data.options(name)
    said = simulate(root, broker=version, given=sizes_of(options))
    return said, run(version, root, options, put=put, stop="halt")


@pytest.mark.parametrize("version", VERSIONS)
def test_consumers_stay_at_an_answer_that_a_unit_of_two_gigabytes_breaks(version: str, tmp_path: Path) -> None:
    size: list[Any] = ["write", f"consumequeue/topic_1/0/{3000:020d}", 8 * 20 + 8, "7fffffff"]
    said, broker = started(version, [size], tmp_path)
    assert said.consumers is not None
    thrown = [(odd.topic, odd.queue_id, odd.asked_offset) for odd in broker.odd if odd.status.startswith("THROWS")]
    assert said.consumers.stuck == thrown[:1]
    (queue,) = {row[:2] for row in thrown}
    got = [d for d in broker.delivered if (d.topic, d.queue_id) != queue or d.unit_offset < thrown[0][2]]
    assert said.consumers.messages == len(got)
