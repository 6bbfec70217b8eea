"""What is kept of values that were asked for: the last ones, as many as weigh no more than is allowed."""

from __future__ import annotations

import random

import pytest

from storeio.recent import Recent


@pytest.mark.parametrize("seed", range(3))
def test_the_last_ones_are_kept(seed: int) -> None:
    chance = random.Random(seed)
    weights = [chance.randrange(12) for _ in range(8)]
    recent, made = Recent[int, int](10, lambda value: value), list[int]()
    asked: list[int] = []

    def make(key: int) -> int:
        made.append(key)
        return weights[key]

    for _ in range(500):
        key = chance.randrange(len(weights))
        order = list(dict.fromkeys(reversed(asked)))  # the last first
        kept, total = set[int](), 0
        for other in order:
            total += weights[other]
            if kept and total > 10:
                break
            kept.add(other)
        before = len(made)
        assert recent.get(key, lambda key=key: make(key)) == weights[key]  # type: ignore[misc]
        # What was kept when others weighed more has gone for good: fewer may be kept, never more.
        assert key in kept or len(made) > before
        asked.append(key)
    assert len(made) < 500


def test_one_that_weighs_too_much_is_alone() -> None:
    recent, made = Recent[str, int](10, lambda value: value), list[str]()
    for key, weight in [("a", 4), ("b", 4), ("huge", 99), ("huge", 99), ("a", 4), ("b", 4), ("a", 4)]:
        assert recent.get(key, lambda key=key, weight=weight: made.append(key) or weight) == weight  # type: ignore[misc, func-returns-value]
    assert made == ["a", "b", "huge", "a", "b"]
