"""Killed in front of and in the middle of every operation, an apply can be finished and taken back; so can an undo.

Every run is a child process that kills itself, so nothing of ours runs after the kill. What is found then is copied:
one copy is finished, one is taken back, and both must hold exactly the expected bytes and names.

With those of make long-test the runs are more than 300, whichever process has which of the tests: what they assert of
their counts adds up to 330, without second kills of a resumed run, and moves to another file system.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from applies import (
    Counter,
    Maker,
    PowerCut,
    copied,
    die,
    die_torn,
    every_kind,
    hooked,
    killed,
    seeded,
    small_store,
    tree_of,
)
from sampled import seeds

from storeio.apply import apply_plan, undo
from storeio.errors import MismatchError, NotAppliedError, UsageError

MOST_KILLS = 600

Half = Callable[[], object]


class Place:
    """A store with a plan, and copies of both to try things in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        root = small_store(directory / "base" / "store")
        (root / "lock").unlink()  # so that what is made for a while must be gone, too
        self.maker = every_kind(root)
        self.maker.save(directory / "base" / "plans")

    def fresh(self, name: str = "run") -> Path:
        return copied(self.directory / "base", self.directory / name)

    def count(self, work: Callable[[Path], object], before: Callable[[Path], object] | None = None) -> int:
        """Return how many operations the work takes."""
        place = self.fresh("count")
        if before is not None:
            before(place)
        seen = Counter()
        with hooked(seen):
            work(place)
        return len(seen.seen)

    def finish_and_take_back(self, place: Path, why: object) -> None:
        """Finish one copy, take back another, and look at both; a finished one is taken back then."""
        first, second = copied(place, self.directory / "a"), copied(place, self.directory / "b")
        try:
            resume(first)
            assert tree_of(first / "store") == self.maker.tree, why
            undo(first / "store")
        except UsageError as error:
            assert not isinstance(error, MismatchError), (why, error)
            assert "nothing" in str(error), why
        assert tree_of(first / "store") == self.maker.before, why
        self.take_back(second, why)

    def take_back(self, place: Path, why: object) -> None:
        try:
            undo(place / "store")
        except UsageError as error:
            assert not isinstance(error, MismatchError), (why, error)
            assert "nothing" in str(error), why
        assert tree_of(place / "store") == self.maker.before, why
        home = place / "store.storeio"
        assert not home.exists() or all(path.name.endswith(".undone") for path in home.iterdir()), why

    def refuses_to_resume(self, place: Path, why: object) -> None:
        """What is being taken back is not carried on; what was not begun to be is still complete."""
        before = tree_of(place / "store")
        try:
            assert apply_plan(place / "store", resume=True).outcome == "nothing", why
            assert before == self.maker.tree | {"lock": b""} or before == self.maker.tree, why
        except UsageError as error:
            assert "nothing to resume" in str(error), why
        except NotAppliedError as error:
            assert "being taken back" in str(error), why


def resume(place: Path) -> None:
    apply_plan(place / "store", resume=True)


def apply(place: Path) -> None:
    apply_plan(place / "plans" / "plan.json", place / "store", allow_log=True)


def take_back(place: Path) -> None:
    undo(place / "store")


def kill(work: Callable[[Path], object], place: Path, at: int, act: Callable[[str, str, Half], None] = die) -> bool:
    """Run the work in a child that dies at an operation."""
    return killed(lambda: work(place), Counter(at, act))


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        yield Place(directory)


@pytest.mark.parametrize("first", seeds(1, 4))
def test_killed_in_front_of_every_operation(place: Place, first: int) -> None:
    count = place.count(apply)
    assert count > 120
    for at in range(first, count, 4):
        run = place.fresh()
        assert kill(apply, run, at)
        place.finish_and_take_back(run, at)
    assert not kill(apply, place.fresh(), count)


def test_killed_in_the_middle_of_every_write(place: Place) -> None:
    seen = Counter()
    run = place.fresh("count")
    with hooked(seen):
        apply(run)
    writes = [at for at, (name, _) in enumerate(seen.seen) if name == "write"]
    assert len(writes) > 30
    for at in writes:
        run = place.fresh()
        assert kill(apply, run, at, die_torn)
        place.finish_and_take_back(run, at)


@pytest.mark.parametrize("first", seeds(1, 4))
def test_killed_while_it_is_taken_back(place: Place, first: int) -> None:
    count = place.count(take_back, before=apply)
    assert count > 60
    done = place.fresh("done")
    apply(done)
    for at in range(first, count, 4):
        run = copied(done, place.directory / "run")
        assert kill(take_back, run, at, die_torn)
        place.refuses_to_resume(copied(run, place.directory / "a"), at)
        place.take_back(run, at)


@pytest.mark.parametrize("first", seeds(1, 10))
def test_killed_while_it_is_resumed(place: Place, first: int) -> None:
    count = place.count(apply)
    for at in range(count // 3, count, count // 4):
        half = place.fresh("half")
        assert kill(apply, half, at, die_torn)
        for again in range(first, count - at, 10):
            run = copied(half, place.directory / "run")
            kill(resume, run, again, die_torn)
            place.finish_and_take_back(run, (at, again))


@pytest.mark.parametrize("first", seeds(1, 4))
def test_killed_again_and_again(place: Place, first: int) -> None:
    """Chains of kills: any of the three verbs next, dying anywhere, until one gets through."""
    for seed in range(first, 40, 4):
        chance = seeded(seed)
        run = place.fresh()
        assert kill(apply, run, chance.randrange(30, 120), chance.choice([die, die_torn]))
        for _ in range(chance.randrange(1, 4)):
            work = chance.choice([resume, take_back])
            kill(lambda place, work=work: _tried(work, place), run, chance.randrange(60), die_torn)
        place.take_back(run, seed)


def _tried(work: Callable[[Path], object], place: Path) -> None:
    try:
        work(place)
    except (UsageError, NotAppliedError) as error:
        assert not isinstance(error, MismatchError), error
        assert "nothing" in str(error) or "being taken back" in str(error)


@pytest.mark.parametrize("first", seeds(1, 6))
def test_a_power_cut_at_every_operation(place: Place, first: int) -> None:
    """Nothing is relied on that was not synced; neither going forward nor going back."""
    done = place.fresh("done")
    apply(done)
    for work, count in ((apply, place.count(apply)), (take_back, place.count(take_back, before=apply))):
        for at in range(first, count, 6):
            run = place.fresh() if work is apply else copied(done, place.directory / "run")
            assert killed(functools.partial(work, run), PowerCut(at, run / "store"))
            if work is apply:
                place.finish_and_take_back(run, at)
            else:
                place.take_back(run, at)


@pytest.mark.share(2)
@pytest.mark.parametrize("torn", [False, True])
def test_killed_while_moving_to_another_file_system(place: Place, torn: bool) -> None:
    """Renames between store and backup are refused as the kernel does, so that all is copied."""

    class Both(Counter):
        def __call__(self, name: str, path: str, half: Half) -> None:
            super().__call__(name, path, half)
            _refuse_between(name, path)

    def run_in(work: Callable[[Path], object], run: Path, at: int) -> bool:
        return killed(lambda: work(run), Both(at, die_torn if torn else die))

    seen = Both()
    count = place.fresh("count")
    with hooked(seen):
        apply(count)
        steps = len(seen.seen)
        assert tree_of(count / "store") == place.maker.tree
        take_back(count)
        back = len(seen.seen) - steps
    assert tree_of(count / "store") == place.maker.before
    moves = [at for at, (_, path) in enumerate(seen.seen) if "moved/" in path or "consumequeue/T/1" in path][
        torn :: 2 + torn
    ]
    with hooked(Both()):
        for at in (at for at in moves if at < steps):
            run = place.fresh()
            assert run_in(apply, run, at)
            place.finish_and_take_back(run, at)
        done = place.fresh("done")
        apply(done)
        for at in (at - steps for at in moves if steps <= at < steps + back):
            run = copied(done, place.directory / "run")
            assert run_in(take_back, run, at)
            place.take_back(run, at)


def _refuse_between(name: str, path: str) -> None:
    """Refuse a rename between the store and the directory beside it."""
    if name == "rename" and len([end for end in path.split(" to ") if "/moved/" in end]) == 1:
        raise OSError(errno.EXDEV, "Invalid cross-device link")


def test_killed_at_random_moments(place: Place) -> None:
    """As a person or a machine kills: from outside, whatever is going on."""
    root = place.fresh("larger") / "store"
    (root / "big").write_bytes(os.urandom(1 << 20))
    maker = Maker(root)
    for number in range(40):
        maker.write("big", number * 25000, bytes([number]) * 20000)
    maker.move("consumequeue/T/0").create("consumequeue/T/0/x", 5000).write("consumequeue/T/0/x", 7, b"abc")
    maker.save(root.parent / "plans")
    began = time.monotonic()
    apply(copied(root.parent, place.directory / "run"))
    length = time.monotonic() - began
    chance, ends = seeded(1), {"killed": 0, "begun": 0}
    for number in range(MOST_KILLS):
        if number >= 60 and ends["killed"] > 20 and ends["begun"] > 5:
            break  # on a busy machine many end before they are killed, or are killed before they begin
        run = copied(root.parent, place.directory / "run")
        verb = apply
        if number % 3 == 2:
            apply(run)
            verb = take_back
        child = os.fork()
        if not child:
            try:
                verb(run)
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0, length))
        os.kill(child, signal.SIGKILL)
        ends["killed"] += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        ends["begun"] += tree_of(run / "store") not in (maker.tree, maker.before)
        first = copied(run, place.directory / "a")
        if verb is apply:
            _tried(resume, first)
            assert tree_of(first / "store") in (maker.tree, maker.before), number
        _tried(take_back, run)
        assert tree_of(run / "store") == maker.before, number
    assert ends["killed"] > 20
    assert ends["begun"] > 5


def test_a_killed_apply_must_be_ended_before_another(place: Place) -> None:
    run = place.fresh()
    assert kill(apply, run, 110)
    before = tree_of(run / "store")
    with pytest.raises(NotAppliedError, match=r"did not end; `storeio apply --resume .*` finishes it, `storeio undo"):
        apply(run)
    before.pop("lock")  # the killed one had made it
    assert tree_of(run / "store") == before
    other = Maker(run / "store").write("checkpoint", 0, b"x").save(run / "other")
    with pytest.raises(MismatchError, match="not the plan of"):
        apply_plan(other, run / "store", resume=True)
    assert tree_of(run / "store") == before
    apply_plan(run / "plans" / "plan.json", run / "store", resume=True)
    assert tree_of(run / "store") == place.maker.tree
    assert apply_plan(run / "store", resume=True).outcome == "nothing"


def test_resume_refuses_what_somebody_changed_meanwhile(place: Place) -> None:
    seen = Counter()
    with hooked(seen):
        apply(place.fresh("count"))
    steps = [path for _, path in seen.seen]
    for path in ("consumequeue/T/0/00000000000000000000", "commitlog/00000000000000000000"):
        run = place.fresh()
        assert kill(apply, run, next(at for at, path in enumerate(steps) if path.startswith("consumequeue/T/1 to")))
        with (run / "store" / path).open("r+b") as file:
            file.seek(5 if path.startswith("commitlog") else 25)  # not begun, and done
            file.write(b"#")
        changed = tree_of(run / "store")
        with pytest.raises(MismatchError, match=path):
            resume(run)
        assert tree_of(run / "store") | {"lock": b""} == changed | {"lock": b""}


def test_what_a_broker_wrote_into_the_lock_file_stays(place: Place) -> None:
    run = place.fresh()
    assert kill(apply, run, 110)
    (run / "store" / "lock").write_bytes(b"lock")  # a broker started on the half-done store, and stopped
    undo(run / "store")
    assert tree_of(run / "store") == place.maker.before | {"lock": b"lock"}
