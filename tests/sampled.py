"""Parameters of which ``make test`` runs some, and ``make long-test`` all others.

CI has 25 minutes, on whatever machine it gets. What is proven on every store and version at length is proven there on a
few of each: on those that a test names, or on a share, ``@pytest.mark.share(3)``.
"""

from __future__ import annotations

import math
import zlib
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


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Make long what is not of the share of its function that make test runs: of three, one third, and one at least.

    Which ones their names tell, by no order, so that of two lists that are crossed all values come.
    """
    shared: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("share"):
            shared.setdefault(item.nodeid.split("[")[0], []).append(item)
    for of_one in shared.values():
        marker = of_one[0].get_closest_marker("share")
        assert marker is not None
        (parts,) = marker.args
        short = [item for item in of_one if not item.get_closest_marker("long")]
        if len(short) < len(of_one) and marker not in of_one[0].own_markers:
            continue  # the test itself names those that make test runs
        short.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in short[math.ceil(len(short) / parts) :]:
            item.add_marker("long")
