"""Plans made at random against the oracle: applied, taken back, killed in the middle, resumed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from applies import Counter, Maker, copied, die_torn, killed, seeded, small_store, tree_of
from sampled import seeds

from storeio.apply import apply_plan, undo
from storeio.errors import UsageError
from storeio.plan import check_plan

SEEDS = 60


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        small_store(directory / "base" / "store")
        yield directory / "base"


def add_at_random(maker: Maker, chance: random.Random) -> str:
    """Add one action of any kind to the plan; return its kind."""
    files = sorted(path for path, data in maker.tree.items() if data is not None and path != "lock")
    folders = sorted(path for path, data in maker.tree.items() if data is None and path.count("/"))
    path = chance.choice(files)
    length = len(maker._file(path))
    kind = chance.choice(["write", "write", "zeros", "create", "create", "cut", "grow", "move", "folder", "rename"])
    new = chance.choice([*(f"{folder}/new" for folder in folders), "new", "x/y/z", path, f"{path}/below", *files])
    if kind in ("write", "zeros"):
        start = chance.randrange(length + 1)
        size = min(chance.randrange(1, 60), length - start)
        data = bytes(size) if kind == "zeros" else chance.randbytes(size)
        maker.write(path, start, data, zeros=kind == "zeros")
    elif kind == "create":
        maker.create(new, chance.choice([0, 1, 100, 5000]))
    elif kind == "cut":
        maker.resize(path, chance.randrange(length + 1))
    elif kind == "grow":
        maker.resize(path, length + chance.randrange(1, 3000))
    elif kind == "rename":
        maker.rename(path, new)
    else:
        maker.move(path if kind == "move" or not folders else chance.choice(folders))
    return kind


def at_random(root: Path, chance: random.Random) -> tuple[Maker, set[str]]:
    """Return a plan of up to twelve actions that obeys the rules, and which kinds were refused on the way.

    The rules know nothing of the store: what only the store can tell, the oracle does.
    """
    maker, refused = Maker(root), set()
    for _ in range(12):
        tree, actions, data = dict(maker.tree), list(maker.actions), maker.bytes
        kind = add_at_random(maker, chance)
        last = maker.actions[-1]
        made = last.target or last.path
        taken = last.kind in ("create", "rename") and (made in tree or below_a_file(made, tree))
        try:
            check_plan(maker.plan(), allow_log=True)
        except UsageError:
            taken = True
        if taken:
            maker.tree, maker.actions, maker.bytes = tree, actions, data
            refused.add(kind)
    return maker, refused


def below_a_file(path: str, tree: dict[str, bytes | None]) -> bool:
    return any(tree.get(path[:at]) is not None for at, char in enumerate(path) if char == "/")


@pytest.mark.parametrize("first", seeds(1, 3))
def test_random_plans(base: Path, first: int) -> None:
    kinds: set[str] = set()
    refused: set[str] = set()
    resumed = 0
    for seed in range(first, SEEDS, 3):
        chance = seeded(seed)
        maker, dropped = at_random(base / "store", chance)
        refused |= dropped
        kinds |= {action.kind for action in maker.actions}
        run = copied(base, base.parent / "run")
        plan = maker.save(run / "plans")
        if not maker.actions:
            continue

        def work(plan: Path = plan, run: Path = run) -> None:
            apply_plan(plan, run / "store", allow_log=True)

        assert not killed(work, Counter())
        assert tree_of(run / "store") == maker.tree, seed
        undo(run / "store")
        assert tree_of(run / "store") == maker.before, seed
        if killed(work, Counter(chance.randrange(42, 85), die_torn)):
            resumed += 1
            other = copied(run, base.parent / "b")
            apply_plan(run / "store", resume=True)
            undo(other / "store")
            assert tree_of(other / "store") == maker.before, seed
        assert tree_of(run / "store") == maker.tree, seed
    assert kinds == {"write", "create", "resize", "move", "rename"}
    assert refused >= {"create", "rename"}
    assert resumed > SEEDS // 9


@pytest.mark.parametrize("first", seeds(1, 3))
def test_what_the_oracle_refuses_is_refused(base: Path, first: int) -> None:
    """The last action of a random plan is spoilt in one number or digest: nothing of the plan is done."""
    for seed in range(first, SEEDS, 3):
        chance = seeded(1000 + seed)
        maker, _ = at_random(base / "store", chance)
        if not maker.actions:
            continue
        run = copied(base, base.parent / "run")
        last = maker.actions[-1]
        field = chance.choice(["old_length", "old_sha256"])
        value = last.old_length + 1 if field == "old_length" else "0" * 64
        maker.actions[-1] = replace(last, **{field: value})  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            apply_plan(maker.save(run / "plans"), run / "store", allow_log=True)
        assert tree_of(run / "store") == maker.before, seed
