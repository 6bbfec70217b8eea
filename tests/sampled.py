"""Parameters of which ``make test`` runs some, and ``make long-test`` all others.

CI has 25 minutes, on whatever machine it gets. What is proven on every store and version at length is proven there on a
few of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], short: Collection[Any]) -> list[Any]:
    """Return values, tuples of several parameters among them, as parameters: long but for those in ``short``."""
    made = []
    for value in values:
        marks = [] if value in short else [pytest.mark.long]
        made.append(pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=marks))
    assert sum(not param.marks for param in made) == len(short), "some of the short ones are none of the values"
    return made


def seeds(few: int, many: int) -> list[Any]:
    """Return seeds as parameters: a few for make test, the rest up to ``many`` for make long-test."""
    return sampled(range(many), range(few))
