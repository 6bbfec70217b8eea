"""One cluster for all tests of this folder; what a test leaves is ended before the next one."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from cluster.standalone import Cluster, running


@pytest.fixture(scope="session")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a master with two workers."""
    if not sys.platform.startswith("linux"):
        pytest.skip("processes are found through /proc")
    with running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
    assert cluster.processes() == []


@pytest.fixture
def cluster(whole_cluster: Cluster) -> Iterator[Cluster]:
    """Yield the cluster with all its workers and nothing else on it."""
    whole_cluster.calm()
    yield whole_cluster
    whole_cluster.calm()
