"""Files whose names are numbers, but not those that brokers had given them: findings, and never a void audit."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import golden_data as golden
import pytest
import salvages
from golden_data import sizes_of
from sampled import sampled
from strays import QUEUE, SEGMENT, SIZES, copy, log_of, of_segment, planned

from storeio import audit, cli
from storeio.audit.peek import record_at
from storeio.planning import plan_store
from storeio.predict.start import simulate
from storeio.results import Audit
from storeio.salvage.node import salvage

pytestmark = pytest.mark.share(2)

FAR = 10**13
WORDS = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]


def codes(found: Audit) -> set[str]:
    return {finding.code for finding in found.findings if finding.severity != "info"}


def test_a_gap_as_wide_as_a_damaged_name_is_one_finding(tmp_path: Path) -> None:
    root = copy(tmp_path)
    (root / QUEUE / f"{4000:020d}").rename(root / QUEUE / f"{FAR:020d}")
    found = audit.check(root, jobs=1)
    (gap,) = [finding for finding in found.findings if finding.code == "CQ_GAP"]
    assert (gap.queue_offset, gap.count) == (201, FAR // 20 - 201)
    assert gap.path == f"{QUEUE}/{4000:020d}"
    assert codes(found) == {"CQ_MISSING", "CQ_GAP", "CQ_SHIFTED"}


@pytest.mark.parametrize("split_bytes", [None, 4096, 20_000])
@pytest.mark.parametrize("length", [0, 10, 20, 21, 1000])
def test_a_file_that_begins_amid_a_unit_takes_nothing_from_the_queue(
    length: int, split_bytes: int | None, tmp_path: Path
) -> None:
    root = copy(tmp_path)
    sound = audit.check(root, given=SIZES, jobs=1)
    (root / QUEUE / "12").write_bytes(b"\1" * length)
    found = audit.check(root, given=SIZES, jobs=1, split_bytes=split_bytes)
    told = [(f.code, f.path) for f in found.findings if f not in sound.findings]
    assert {path for _, path in told} == {f"{QUEUE}/12"}
    assert {code for code, _ in told} == {"MISALIGNED_NAME"} | ({"CQ_LENGTH"} if length < 1000 else set())
    assert found.queues == sound.queues


@pytest.mark.parametrize("name", ["-32768", f"{2**63 - 32768:020d}", f"{2**63 - 1:020d}"])
def test_a_segment_where_no_log_reaches_is_a_stray(tmp_path: Path, name: str) -> None:
    root = copy(tmp_path)
    sound = audit.check(root, jobs=1)
    (root / "commitlog" / name).write_bytes(bytes(32768))
    found = audit.check(root, jobs=1)
    assert [(f.code, f.path) for f in found.findings if f not in sound.findings] == [
        ("STRAY_FILE", f"commitlog/{name}")
    ]
    assert found.log == sound.log


@pytest.mark.parametrize("name", ["1000", "+0000000000000001000", "000000000000000001000"])
@pytest.mark.parametrize("move", [True, False])
def test_a_name_that_brokers_do_not_write_is_damage_that_a_plan_cures(tmp_path: Path, name: str, move: bool) -> None:
    root = copy(tmp_path)
    usual = root / QUEUE / f"{1000:020d}"
    before = usual.read_bytes()
    if move:
        usual.rename(usual.with_name(name))
    else:
        usual.with_name(name).write_bytes(bytes(1000))
    found = audit.check(root, jobs=1)
    (finding,) = (f for f in found.findings if f.code == "MISALIGNED_NAME")
    assert finding.path == f"{QUEUE}/{name}"
    assert "brokers write 00000000000000001000," in finding.detail
    assert codes(found) == {"MISALIGNED_NAME"}
    plan = tmp_path / "plan.json"
    assert cli.run(["plan", str(root), "--out", str(plan), "--broker", "5.3.3", "--quiet"]) == 4
    assert cli.run(["apply", str(plan), str(root), "--quiet"]) == 1
    assert codes(audit.check(root, jobs=1)) == set()
    assert usual.read_bytes() == before
    assert not usual.with_name(name).exists()


# Where a stray lies across segments, or beside one, and how long it is; what a segment holds must not depend on it.
ACROSS = [("1", 20), (f"{SEGMENT // 2:020d}", SEGMENT), (f"{4 * SEGMENT - 1:020d}", 20), (f"{10 * SEGMENT:021d}", 20)]


@pytest.mark.parametrize(("name", "length"), ACROSS)
def test_a_salvage_takes_no_stray_for_a_part_of_the_log(name: str, length: int, tmp_path: Path) -> None:
    root = copy(tmp_path)
    before = log_of(root)
    (root / "commitlog" / name).write_bytes(random.Random(3).randbytes(length))
    saved = salvage(root, tmp_path / "saved", given=SIZES, jobs=1)
    assert (saved.lost, saved.problems) == ([], [])
    assert salvages.records_of(tmp_path / "saved", SEGMENT) == salvages.originals_of("base-5.3.3")
    found = planned(root, tmp_path, "salvage")
    assert [(action.kind, action.path) for action in found.plan.actions] == [("move", f"commitlog/{name}")]
    assert found.cures
    assert log_of(root) == before


@pytest.mark.parametrize("is_there", [True, False])
def test_a_salvage_takes_from_a_stray_what_the_log_lacks(is_there: bool, tmp_path: Path) -> None:
    """The first stray is the shorter copy, and ends amid a record: the other one has all of it."""
    root = copy(tmp_path)
    segment = root / "commitlog" / f"{2 * SEGMENT:020d}"
    data = segment.read_bytes()
    segment.with_name("1").write_bytes(data[:20_000])
    segment.with_name(str(2 * SEGMENT)).write_bytes(data)
    segment.write_bytes(bytes(9000) + data[9000:])
    if not is_there:
        segment.unlink()
    saved = salvage(root, tmp_path / "saved", given=SIZES, jobs=1)
    assert (saved.lost, saved.problems, saved.tombstones) == ([], [], 0)
    assert salvages.records_of(tmp_path / "saved", SEGMENT) == salvages.originals_of("base-5.3.3")


# What holds nothing that the log lacks. Padded, they are segments for brokers: 5.3.3 ends the log where the first of
# these does, 5.5.1 delivers what cannot be read with the second one.
WORTHLESS: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "garbage across a segment": ("1", lambda _: random.Random(3).randbytes(20)),
    "garbage beside a segment": ("00", lambda _: b"-;"),
    "a whole file of garbage": (f"{SEGMENT // 2:020d}", lambda _: random.Random(4).randbytes(SEGMENT)),
    "garbage behind the end": (f"{14 * SEGMENT + 3:020d}", lambda _: random.Random(5).randbytes(SEGMENT)),
    "a second file of the last segment": (f"+{9 * SEGMENT:019d}", of_segment(9)),
    "a copy with another digit": ("\u0663", of_segment(2)),
    "a part of a copy": (f"{3 * SEGMENT - 1:020d}", lambda root: of_segment(5)(root)[:9000]),
    "two segments in one": (
        "7",
        lambda root: of_segment(1)(root)[: SEGMENT // 2] + of_segment(4)(root)[SEGMENT // 2 :],
    ),
}


@pytest.mark.parametrize("case", WORTHLESS)
def test_a_stray_that_holds_nothing_of_its_own_is_moved_and_never_padded(case: str, tmp_path: Path) -> None:
    root = copy(tmp_path)
    before = log_of(root)
    name, content = WORTHLESS[case]
    (root / "commitlog" / name).write_bytes(content(root))
    assert not planned(root, tmp_path, allow_log=False).plan.actions
    found = planned(root, tmp_path)
    assert [(action.kind, action.path) for action in found.plan.actions] == [("move", f"commitlog/{name}")]
    assert found.cures
    assert log_of(root) == before


NUMBERS = ["1", "00", f"+{2 * SEGMENT:019d}", f"{14 * SEGMENT + 3:020d}", "9999999", "-1", f"-{SEGMENT}"]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", [*NUMBERS, "x", f"{2 * SEGMENT:020d}.bak", f"old/{2 * SEGMENT:020d}"])
@pytest.mark.parametrize("length", [SEGMENT, 20_000])
def test_a_stray_that_holds_what_the_log_lacks_stays_until_a_salvage_has_it(
    name: str, length: int, tmp_path: Path
) -> None:
    root = copy(tmp_path)
    before = log_of(root)
    segment, stray = root / "commitlog" / f"{2 * SEGMENT:020d}", root / "commitlog" / name
    data = segment.read_bytes()
    segment.write_bytes(bytes(9000) + data[9000:])
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(data[:length])
    found = planned(root, tmp_path)
    left = f"commitlog/{name.split('/')[0]}"
    assert f"holds intact records that the log lacks: salvage them; left for that: {left}" in found.plan.left
    assert stray.read_bytes() == data[:length]
    salvaged = planned(root, tmp_path, "salvage")
    assert (salvaged.cures, salvaged.plan.left) == (True, ())
    assert log_of(root) == before


@pytest.mark.parametrize("goal", ["repair", "salvage"])
@pytest.mark.parametrize("name", [str(2 * SEGMENT), f"+{2 * SEGMENT:019d}", f"{2 * SEGMENT:021d}"])
def test_a_segment_without_its_usual_name_gets_it(name: str, goal: str, tmp_path: Path) -> None:
    root = copy(tmp_path)
    before = log_of(root)
    segment = root / "commitlog" / f"{2 * SEGMENT:020d}"
    segment.rename(segment.with_name(name))
    found = planned(root, tmp_path, goal)
    (action,) = found.plan.actions
    assert (action.kind, action.path, action.target) == ("rename", f"commitlog/{name}", f"commitlog/{segment.name}")
    assert found.cures
    assert log_of(root) == before


@pytest.mark.parametrize("goal", ["repair", "salvage"])
@pytest.mark.parametrize("content", [bytes(20), b"no log" * 10])
def test_a_stray_that_is_all_of_a_log_stays(content: bytes, goal: str, tmp_path: Path) -> None:
    """Brokers refuse to start with it; without any segment they start, and delete all queues."""
    root = copy(tmp_path)
    for path in (root / "commitlog").iterdir():
        path.unlink()
    (root / "commitlog" / "7").write_bytes(content)
    found = planned(root, tmp_path, goal)
    assert found.predicted_after.outcome.outcome == found.predicted_before.outcome.outcome == "refuses"
    assert log_of(root) == {"7": content}
    told = [f"no record was found in the log, and {len(content)} of its bytes are no free space"]
    assert salvage(root, tmp_path / "saved", given=SIZES, jobs=1).problems == (told if content.strip(b"\0") else [])


@pytest.mark.parametrize("name", ["-1000", f"-{1000:020d}", str(-(2**63))])
def test_a_batch_queue_that_ends_before_its_first_unit_has_all_bytes_classed(name: str, tmp_path: Path) -> None:
    root = copy(tmp_path, "rich-5.3.3")
    (file,) = (root / "batchconsumequeue/bcq_a/1").iterdir()
    place = file.rename(file.with_name(name))
    found = audit.check(root, jobs=1)
    (one,) = (each for each in found.files if each.path == str(place.relative_to(root)))
    assert sum(one.classes.values()) == one.size


def test_a_record_is_looked_up_in_its_segment_and_not_in_what_lies_across(tmp_path: Path) -> None:
    root = copy(tmp_path)
    (root / "commitlog" / "1").write_bytes(bytes(20))
    place = sorted(salvages.originals_of("base-5.3.3"))[5]
    record = record_at(audit.prepare(str(root), given=SIZES), place)
    assert record is not None
    assert record.physical_offset == place


@pytest.mark.parametrize("name", ["00", "+0", "\u0660"])
def test_a_directory_that_is_no_queue_id_is_no_queue(tmp_path: Path, name: str) -> None:
    """Brokers make a queue of its number, but in the directory with the usual name."""
    root = copy(tmp_path)
    sound = audit.check(root, jobs=1)
    shutil.copytree(root / QUEUE, root / "consumequeue" / "topic_0" / name)
    assert audit.check(root, jobs=1).queues == sound.queues
    shutil.rmtree(root / QUEUE)
    assert "CQ_MISSING" in codes(audit.check(root, jobs=1))


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_two_directories_of_one_queue_are_one_to_a_start(version: str, tmp_path: Path) -> None:
    """As with brokers: ``broker/test_simulated.py``; nearly all of the log is gone, so files of queues are deleted."""
    states = []
    for last in (["rename", QUEUE, "consumequeue/topic_0/+1"], ["rmtree", QUEUE]):
        edits = [
            ["zero", f"commitlog/{SEGMENT:020d}", 0, SEGMENT],
            ["create", "abort", 0],
            ["zero", "checkpoint", 0, 48],
        ]
        root = golden.damaged("base-5.3.3", [*edits, last], tmp_path / last[0])
        found = simulate(root, broker=version, given=SIZES).outcome
        assert found.after_start is not None
        states.append(found.after_start.queues)
    assert states[0] == states[1]


def test_light_queues_that_are_gone_are_missed(tmp_path: Path) -> None:
    root = copy(tmp_path, "rich-5.3.3")
    shutil.rmtree(root / "consumequeue" / "%LMQ%a1")
    found = audit.check(root, jobs=1)
    assert {(f.code, f.topic) for f in found.findings if f.severity != "info"} == {("CQ_MISSING", "%LMQ%a1")}


def test_tags_that_the_first_index_file_left_has_from_its_first_unit_on_were_in_those_that_are_gone(
    tmp_path: Path,
) -> None:
    root = copy(tmp_path, "rich-5.5.1")
    first, *others = sorted((root / "index").iterdir())
    before = {path.name: path.read_bytes() for path in (first, *others)}
    first.unlink()
    options = golden.options("rich-5.5.1")
    sizes = {"maxHashSlotNum": options["indexSlots"], "maxIndexNum": options["indexNum"]}
    words = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    assert cli.run(["rebuild", str(root), "--into", str(tmp_path / "new"), "--only", "index", "--quiet", *words]) == 0
    made = [path.read_bytes() for path in sorted((tmp_path / "new" / "index").iterdir())]
    assert made == [before[name] for name in sorted(before)]


def mixed_up(root: Path, chance: random.Random) -> None:
    """Move, copy, cut and lengthen some files, and give them numbers of all kinds for names."""
    tops = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "commitlog", "index")
    files = sorted(path for top in tops for path in (root / top).rglob("*") if path.is_file())
    edits: list[Callable[[Path, Path], object]] = [
        lambda one, other: one.rename(other),
        lambda one, other: other.write_bytes(one.read_bytes()),
        lambda one, _: one.write_bytes(one.read_bytes()[: chance.randrange(one.stat().st_size + 1)]),
        lambda one, _: one.write_bytes(one.read_bytes() + chance.randbytes(chance.randrange(1, 3000))),
        lambda one, other: other.write_bytes(bytes(chance.choice([0, 7, 20, one.stat().st_size]))),
    ]
    for path in chance.sample(files, chance.randrange(1, 4)):
        near = int(path.name) + chance.choice([1, -1, 20, -20, 46, 7, 1000, -1000])
        far = [10 ** chance.randrange(5, 19), 2 ** chance.randrange(20, 63), 2**63 - chance.choice([1, 20, 46, 32768])]
        number = max(chance.choice([chance.randrange(100_000), near, *far]), 0)
        chance.choice(edits)(path, path.with_name(f"{number:0{chance.choice([0, 20, 20, 20, 21])}d}"))


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(60))
def test_no_name_makes_an_audit_void_or_endless(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = copy(tmp_path, chance.choice([name for name in golden.STORES if "long" not in name]))
    mixed_up(root, chance)
    found = audit.check(root, jobs=1)
    assert sum(file.size for file in found.files) > 0


@pytest.mark.parametrize("name", ["checkpoint", "abort", "lock", "commitlog", "consumequeue", "index"])
@pytest.mark.parametrize("filled", [True, False])
def test_a_file_and_a_directory_in_each_other_s_place(tmp_path: Path, name: str, filled: bool) -> None:
    """Said, foretold as real brokers do (``golden/simulate``), and cured by a plan where one can be applied."""
    root = copy(tmp_path)
    place, file = root / name, name in ("checkpoint", "abort", "lock")
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    if not file:
        place.write_bytes(b"something" * filled)
    else:
        place.mkdir()
        if filled:
            (place / "something").write_bytes(b"in it")
    found = audit.check(root, jobs=1)
    code = "STRAY_DIRECTORY" if file else "STRAY_FILE"
    assert [f.path for f in found.findings if f.code == code] == [name]
    start = simulate(root, broker="5.3.3", given=SIZES)
    ends = {"checkpoint": "refuses", "abort": "crashes", "lock": "crashes"}
    assert start.outcome.outcome == ends.get(name, "starts")
    assert start.harms
    plan = tmp_path / "plan.json"
    assert cli.run(["plan", str(root), "--out", str(plan), *WORDS]) == 4
    if name in ("lock", "commitlog"):
        return
    before = sorted((p.relative_to(root), p.is_file() and p.read_bytes()) for p in root.rglob("*"))
    assert cli.run(["apply", str(plan)]) == 1
    assert cli.run(["check", str(root), *WORDS]) == 0
    assert cli.run(["undo", str(root)]) == 1
    after = sorted((p.relative_to(root), p.is_file() and p.read_bytes()) for p in root.rglob("*"))
    assert [entry for entry in after if entry[0] != Path("lock")] == [e for e in before if e[0] != Path("lock")]


@pytest.mark.parametrize("number", sampled((2**63 - 1, 2**63 - 20), [2**63 - 20]))
def test_a_light_queue_s_file_where_positions_end(number: int, tmp_path: Path) -> None:
    """For brokers it ends before it begins: ``broker/test_simulated.py``."""
    root = copy(tmp_path, "rich-5.3.3")
    options = golden.options("rich-5.3.3")
    path = root / "consumequeue" / "%LMQ%a0" / "0" / f"{0:020d}"
    path.rename(path.with_name(f"{number:020d}"))
    found = simulate(root, broker="5.3.3", given=sizes_of(options))
    assert found.harms
    assert found.given_up is not None
    assert {loss.topic for loss in found.given_up.losses} <= {"%LMQ%a0"}
    plan = plan_store(root, tmp_path / "plan.json", broker="5.3.3", given=sizes_of(options), jobs=1)
    assert plan.cures
    assert salvage(root, tmp_path / "saved", given=sizes_of(options), jobs=1).exit_code == 0
    assert cli.run(["check", str(root), "--html", str(tmp_path / "page.html"), "--quiet"]) == 4


@pytest.mark.parametrize("name", ["notes", "topic_0/notes", "topic_0/x/notes", "topic_0/x/00000000000000000000"])
def test_a_file_that_brokers_pass_over_is_told_and_stays(name: str, tmp_path: Path) -> None:
    """Its bytes are garbage in the table of bytes, which says why."""
    root = copy(tmp_path)
    sound = audit.check(root, jobs=1)
    path = root / "consumequeue" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"hello")
    found = audit.check(root, jobs=1)
    (told,) = (finding for finding in found.findings if finding not in sound.findings)
    assert (told.code, told.path, told.length) == ("STRAY_PASSED_OVER", f"consumequeue/{name}", 5)
    assert (found.exit_code, found.queues) == (sound.exit_code, sound.queues)
    assert not plan_store(root, jobs=1).plan.actions
