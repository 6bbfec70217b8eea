"""Tests of this folder are skipped where no broker can be started; STOREIO_BROKER=required makes them fail instead."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from broker.builds import UnavailableError, missing, required


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """Need java, javac and mvn."""
    lack = missing()
    if lack is not None and required():
        pytest.fail(lack)
    if lack is not None:
        pytest.skip(lack)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test whose broker's artifacts cannot be had; not one that does not compile."""
    try:
        return (yield)
    except UnavailableError as error:
        if required():
            raise
        pytest.skip(str(error))
