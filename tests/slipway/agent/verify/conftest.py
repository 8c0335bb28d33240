"""A starter of clusters whose processes end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .cluster import SMG, Cluster, make_model

NewCluster = Callable[..., Cluster]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="SLIPWAY_TEST_SMG does not name an smg 1.13.0 executable")
    for item in items:
        if not SMG and item.get_closest_marker("router"):
            item.add_marker(skip)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def new_cluster(model: Path, tmp_path: Path) -> Iterator[NewCluster]:
    made: list[Cluster] = []

    def new(address: str = "127.0.0.1") -> Cluster:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Cluster(model, folder, address=address))
        return made[-1]

    yield new
    for cluster in made:
        cluster.stop()


@pytest.fixture
def pair(new_cluster: NewCluster) -> Cluster:
    """A healthy prefill and decode, without a router yet."""
    cluster = new_cluster()
    cluster.worker("prefill")
    cluster.worker("decode")
    return cluster
