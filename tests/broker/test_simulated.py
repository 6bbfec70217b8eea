"""Real brokers do with damaged stores what a simulated start says of consumers and of new messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from rebuilds import sizes_of

from broker.brokers import VERSIONS, Queue, Started, run
from broker.versions import EVERY_VERSION
from storeio.prediction import Prediction, simulate
from tests import golden_data

pytestmark = pytest.mark.broker

WAIT_SECONDS: Final = 10.0  # for a broker that is said to hang; it would have started long before
NEW: Final[list[Queue]] = [("topic_0", 0), ("topic_1", 1)]
ACROSS: Final = f"commitlog/{311296:020d}"  # of zeros, from the middle of the last segment on


def started(
    version: str, edits: golden_data.Edit, place: Path, put: Sequence[Queue] = ()
) -> tuple[Prediction, Started]:
    """Return what is said of a start on a damaged store, and what a broker does there."""
    name = f"base-{version}"
    root, options = golden_data.damaged(name, edits, place / "store"), golden_data.options(name)
    said = simulate(root, broker=version, given=sizes_of(options))
    patience = {"timeout": WAIT_SECONDS} if said.outcome.outcome == "hangs" else {}
    return said, run(version, root, options, put=put, stop="halt", **patience)


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


@pytest.mark.parametrize("version", VERSIONS)
def test_no_queue_gets_what_is_put_into_a_segment_across_others(version: str, tmp_path: Path) -> None:
    said, broker = started(version, [["create", ACROSS, 32768]], tmp_path, NEW)
    assert said.outcome.outcome == broker.outcome
    if broker.outcome == "starts":
        assert said.stopped is not None
        assert said.stopped.hidden == (ACROSS,)
        assert [(new.status, new.delivered, new.found) for new in broker.new] == [("PUT_OK", False, False)] * len(NEW)


@pytest.mark.parametrize("name", [f"{4001:020d}", f"+{4000:019d}"])
@pytest.mark.parametrize("version", VERSIONS)
def test_consumers_do_not_get_what_is_put_into_a_queue_file_beside_its_place(
    version: str, name: str, tmp_path: Path
) -> None:
    said, broker = started(version, [["create", f"consumequeue/topic_0/0/{name}", 1000]], tmp_path, NEW)
    assert said.stopped is not None
    assert [path.rpartition("/")[0] for path in said.stopped.hidden] == ["consumequeue/topic_0/0"]
    assert [(new.status, new.delivered) for new in broker.new] == [("PUT_OK", False), ("PUT_OK", True)]


LARGEST: Final = 2**63 - 1
# Which file gets a name near that, behind which a broker's positions become negative, and which.
BEYOND: Final[dict[str, tuple[str, str, int]]] = {
    "ordinary": (f"consumequeue/topic_0/0/{4000:020d}", "consumequeue/topic_0/0", LARGEST),
    "ordinary, in its place": (
        f"consumequeue/topic_0/0/{4000:020d}",
        "consumequeue/topic_0/0",
        LARGEST - LARGEST % 1000,
    ),
    "light": (f"consumequeue/topic_0/0/{0:020d}", "consumequeue/%LMQ%a/0", LARGEST),
    "segment": (f"commitlog/{294912:020d}", "commitlog", LARGEST),
    "segment, in its place": (f"commitlog/{294912:020d}", "commitlog", LARGEST - 32767),
}


@pytest.mark.parametrize("what", BEYOND)
@pytest.mark.parametrize("version", EVERY_VERSION)
def test_names_near_the_largest_number(version: str, what: str, tmp_path: Path) -> None:
    path, folder, number = BEYOND[what]
    edits: golden_data.Edit = [["mkdir", folder], ["rename", path, f"{folder}/{number:020d}"]]
    said, broker = started(version, edits, tmp_path, [*NEW, ("%LMQ%a", 0)] if what == "light" else NEW)
    assert said.outcome.outcome == broker.outcome
    if broker.outcome == "starts":
        after = said.outcome.after_start
        assert after is not None
        assert said.consumers is not None
        assert broker.log_range == (after.min_physical_offset, after.max_physical_offset)
        queues = {name: (low, high) for name, (low, high, _) in after.queues.items()}
        assert {name: ends for name, ends in queues.items() if ends != (0, 0)} == {
            f"{topic}/{number}": ends for (topic, number), ends in broker.queues.items() if ends != (0, 0)
        }
        assert said.consumers.messages == len(broker.delivered)
        reached = all(new.delivered and new.found for new in broker.new)
        assert reached == (said.stopped is None)
