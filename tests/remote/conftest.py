"""The object server, a bucket for each test file, and proxies that end with their test."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from remote.objects import KEY, SECRET, Fault, Objects, Proxy

from storeio.remote import filesystem, trouble

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[Any, tuple[str, int]]]:
    """Yield a client of the server, and where it listens."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    client = boto3.client(
        "s3", endpoint_url=f"http://{host}:{port}", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )  # fmt: skip
    yield client, (host, port)
    running.stop()


@pytest.fixture(scope="module")
def objects(server: tuple[Any, tuple[str, int]], request: pytest.FixtureRequest) -> Objects:
    """Return a bucket of this file's own."""
    client, where = server
    bucket = re.sub("[^a-z0-9]+", "-", request.path.stem)
    client.create_bucket(Bucket=bucket)
    return Objects(client, bucket, where)


@pytest.fixture(scope="module")
def rich(objects: Objects) -> Path:
    """Return a sound store that is on the server as ``rich``."""
    objects.put_store(golden.store("base-5.3.3"), "rich")
    return golden.store("base-5.3.3")


@pytest.fixture
def proxied(objects: Objects) -> Iterator[Callable[[Fault], Proxy]]:
    """Give what starts a proxy with a fault."""
    made: list[Proxy] = []

    def start(fault: Fault) -> Proxy:
        made.append(Proxy(objects.target, fault))
        return made[-1]

    yield start
    for proxy in made:
        proxy.stop()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wait hardly at all between tries, and have no health of servers left from other tests."""
    monkeypatch.setattr(trouble, "FIRST_PAUSE_SECONDS", 0.01)
    filesystem.opened.cache_clear()
    yield
    filesystem.opened.cache_clear()
