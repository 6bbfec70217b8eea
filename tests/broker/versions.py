"""Brokers that a test starts: three lines always, the others with ``make broker-test``, for the time they take."""

from __future__ import annotations

from typing import Any, Final

import pytest

from broker.brokers import MORE_VERSIONS, VERSIONS
from broker.builds import required

more: Final = pytest.mark.skipif(not required(), reason="only make broker-test starts this version")

EVERY_VERSION: Final[list[Any]] = [*VERSIONS, *(pytest.param(version, marks=more) for version in MORE_VERSIONS)]
