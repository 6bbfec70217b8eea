"""Brokers that ``make test`` starts, brought here before the first test.

``PYTHONPATH=.:tests python -m broker.prepare`` needs nothing but the standard library, so that it may run while the
environment is made. What cannot be had is told: tests skip it, or fail, as they would without.
"""

from __future__ import annotations

import sys

from broker.brokers import VERSIONS
from broker.builds import UnavailableError
from broker.jvm import quick


def prepare() -> None:
    """Build the program of each version and archive its classes."""
    for version in VERSIONS:
        try:
            quick(version)
        except (UnavailableError, RuntimeError) as error:
            print(f"no broker {version} for the tests: {error}", file=sys.stderr)


if __name__ == "__main__":
    prepare()
