"""Real brokers do with damaged stores what a simulated start says of consumers and of new messages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import golden_data
import pytest
from golden_data import sizes_of
from rebuilds import contents, tree
from storebuilder import StoreBuilder

from broker.brokers import VERSIONS, Queue, Started, run
from broker.versions import EVERY_VERSION
from storeio.predict.into import write_into
from storeio.predict.start import Prediction, simulate

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]

WAIT_SECONDS: Final = 10.0  # for a broker that is said to hang; it would have started long before
NEW: Final[list[Queue]] = [("topic_0", 0), ("topic_1", 1)]
QUEUE: Final = "consumequeue/topic_0/0"
# All of the log but its first segment is gone, and so are all files of queues but the first.
CUT_TO_FIRST_FILE: Final[golden_data.Edit] = [
    ["zero", f"commitlog/{32768:020d}", 0, 32768],
    ["create", "abort", 0],
    ["zero", "checkpoint", 0, 48],
]
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


@pytest.mark.long  # ten seconds: brokers try five times
@pytest.mark.parametrize("version", VERSIONS)
def test_no_queue_gets_anything_once_the_file_of_one_cannot_be_made(version: str, tmp_path: Path) -> None:
    path = "consumequeue/topic_0/5"
    said, broker = started(version, [["write", path, 0, "78"]], tmp_path, [("topic_0", 0), ("topic_0", 5), *NEW])
    assert said.stopped is not None
    assert said.stopped.in_the_way == (path,)
    assert [(new.status, new.delivered) for new in broker.new] == [("PUT_OK", True), *[("PUT_OK", False)] * 3]


@pytest.mark.parametrize("crashed", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_queue_file_that_a_broker_maps_twice(version: str, crashed: bool, tmp_path: Path) -> None:
    """Behind one whose name has 19 digits, and so sorts last, it makes one that it has already."""
    builder = StoreBuilder(tmp_path / "store", base=16384)
    for number in range(100, 250):
        builder.message("t0", 0, bytes(40), queue_offset=number)
    root = builder.close(clean=not crashed)
    path = root / f"consumequeue/t0/0/{3000:020d}"
    path.rename(path.with_name(path.name[1:]))
    options = {"clFile": 16384, "cqEntries": 50, "indexSlots": 50, "indexNum": 200}
    said = simulate(root, broker=version, given=sizes_of(options))
    assert said.consumers is not None
    assert said.consumers.missed
    assert_same(said, run(version, root, options, stop="halt"))


@pytest.mark.parametrize("name", ["01", "+1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_two_directories_of_one_queue(version: str, name: str, tmp_path: Path) -> None:
    edits = [["rename", QUEUE, f"consumequeue/topic_0/{name}"], *CUT_TO_FIRST_FILE]
    assert_same(*started(version, edits, tmp_path, NEW))


def test_a_unit_that_dispatch_wrote_ahead_keeps_messages_out_of_its_queue_only(tmp_path: Path) -> None:
    _, broker = started("4.9.8", golden_data.ahead_of_the_log("base-4.9.8"), tmp_path, NEW)
    assert [(new.status, new.delivered) for new in broker.new] == [("PUT_OK", False), ("PUT_OK", True)]


@pytest.mark.parametrize("path", [f"commitlog/{163840:020d}", "commitlog/x", "index/20990101000000000", "abort"])
@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_links_to_nothing(version: str, path: str, tmp_path: Path) -> None:
    name = f"base-{version}"
    root, options = golden_data.copy_of(name, tmp_path / "store"), golden_data.options(name)
    (root / path).unlink(missing_ok=True)
    (root / path).symlink_to(tmp_path / "nowhere")
    said = simulate(root, broker=version, given=sizes_of(options))
    write_into(said, tmp_path / "said") if said.outcome.outcome == "starts" else None
    assert_same(said, run(version, root, options, stop="halt"))
    if said.outcome.outcome == "starts":
        assert contents(tree(root), "index") == contents(tree(tmp_path / "said"), "index")


@pytest.mark.parametrize("name", ["abort", "abort.bak"])
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_directories_where_start_writes(version: str, name: str, tmp_path: Path) -> None:
    """5.x keeps what the abort file held before in another one."""
    root, options = golden_data.copy_of(f"base-{version}", tmp_path / "store"), golden_data.options(f"base-{version}")
    (root / name).unlink(missing_ok=True)
    (root / name).mkdir()
    assert_same(simulate(root, broker=version, given=sizes_of(options)), run(version, root, options, stop="halt"))


@pytest.mark.parametrize("aborted", [False, True])
@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_an_index_that_is_no_directory(version: str, is_link: bool, aborted: bool, tmp_path: Path) -> None:
    """Dispatch throws at the first record that needs a file of it: recovery ends there, and later nothing goes on."""
    root = golden_data.without(f"base-{version}", tmp_path / "store", "index")
    options = golden_data.options(f"base-{version}")
    (root / "index").symlink_to(tmp_path / "nowhere") if is_link else (root / "index").write_bytes(b"junk")
    if aborted:
        (root / "abort").touch()
    said = simulate(root, broker=version, given=sizes_of(options))
    assert said.harms
    assert_same(said, run(version, root, options, stop="halt"))


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


def assert_same(said: Prediction, broker: Started) -> None:
    """Compare a start as said with one as it was: ends of log and queues, what consumers get, whether new ones do."""
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
        if broker.new:
            assert all(new.delivered and new.found for new in broker.new) == (said.stopped is None)


@pytest.mark.long  # thirty seconds, of rare names and lists
@pytest.mark.parametrize("what", BEYOND)
@pytest.mark.parametrize("version", EVERY_VERSION)
def test_names_near_the_largest_number(version: str, what: str, tmp_path: Path) -> None:
    path, folder, number = BEYOND[what]
    edits: golden_data.Edit = [["mkdir", folder], ["rename", path, f"{folder}/{number:020d}"]]
    assert_same(*started(version, edits, tmp_path, [*NEW, ("%LMQ%a", 0)] if what == "light" else NEW))


# Files whose names are below 0, so that the log or a queue ends there: a position in a file is below 0, too.
BELOW: Final[dict[str, golden_data.Edit]] = {
    "segments": [["create", "commitlog/32769", 32768], ["create", f"commitlog/-{1:020d}", 32768]],
    "queue": [
        *(["delete", f"{QUEUE}/{base:020d}"] for base in (0, 1000, 2000, 3000)),
        ["rename", f"{QUEUE}/{4000:020d}", f"{QUEUE}/-{2000:020d}"],
        ["write", f"{QUEUE}/-{2000:020d}", 20, "ff" * 20],
    ],
}


@pytest.mark.parametrize("what", BELOW)
@pytest.mark.parametrize("version", EVERY_VERSION)
def test_names_below_zero(version: str, what: str, tmp_path: Path) -> None:
    edits = [*BELOW[what], ["create", "abort", 0], ["zero", "checkpoint", 0, 4096]]
    assert_same(*started(version, edits, tmp_path, NEW))


@pytest.mark.parametrize("at", [0, 8])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_checkpoint_with_the_smallest_time(version: str, at: int, tmp_path: Path) -> None:
    edits = [
        ["create", "abort", 0],
        ["write", "checkpoint", at, "8000000000000000"],
        ["zero", "checkpoint", 40, 8],
        ["rmtree", QUEUE],
    ]
    assert_same(*started(version, edits, tmp_path, NEW))


@pytest.mark.parametrize("version", VERSIONS)
def test_three_starts_in_a_row(version: str, tmp_path: Path) -> None:
    """The first two are killed; what they leave is said from what was said of the one before."""
    name = f"base-{version}"
    edits: golden_data.Edit = [
        ["delete", f"{QUEUE}/{4000:020d}"],
        ["zero", "consumequeue/topic_1/1/" + f"{2000:020d}", 400, 20],
        ["write", f"commitlog/{262144:020d}", 20000, "00ff00ff"],
    ]
    root, options = golden_data.damaged(name, edits, tmp_path / "store"), golden_data.options(name)
    before = shutil.copytree(root, tmp_path / "before")
    for number in range(3):
        said = simulate(before, broker=version, given=sizes_of(options))
        write_into(said, tmp_path / f"said-{number}")
        before = tmp_path / f"said-{number}"
        assert_same(said, run(version, root, options, stop="halt"))
        real, predicted = tree(root), tree(before)
        for top in ("commitlog", "consumequeue"):
            of_top = {path: data for path, data in real.items() if path.startswith(f"{top}/")}
            assert of_top == {path: data for path, data in predicted.items() if path.startswith(f"{top}/")}
        assert contents(real, "index") == contents(predicted, "index")
        assert ("abort" in real, "checkpoint" in real) == ("abort" in predicted, "checkpoint" in predicted)
        shutil.copy(root / "checkpoint", before)  # when it is flushed depends on how long the broker runs


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_a_batch_queue_whose_units_are_out_of_order_hides_what_is_new(version: str, tmp_path: Path) -> None:
    name = f"rich-{version}"
    root, options = golden_data.copy_of(name, tmp_path / "store"), golden_data.options(name)
    queue = "batchconsumequeue/bcq_a/0"
    (file,) = (root / queue).iterdir()
    golden_data.apply_edits(root, [["write", f"{queue}/{file.name}", 28, f"{2**40:016x}"]])  # its first queue offset
    given = {**sizes_of(options), "enableMultiDispatch": "true", "enableLmq": "true"}
    said = simulate(root, broker=version, given=given)
    assert said.stopped is not None
    assert said.stopped.hidden == (f"{queue}/{file.name}",)
    broker = run(version, root, options, put=[("bcq_a", 0), ("bcq_b", 0)], stop="halt")
    assert [(new.status, new.delivered) for new in broker.new] == [("PUT_OK", False), ("PUT_OK", True)]
