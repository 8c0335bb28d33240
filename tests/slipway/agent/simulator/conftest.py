"""Fixtures: a model folder, and a starter of simulators whose processes end with the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .harness import Simulator, free_port, make_model

Start = Callable[..., Simulator]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def starter(model: Path, logs: Path, running: list[Simulator]) -> Start:
    numbers = itertools.count()

    def start(*flags: str, faults: str = "", ready: bool = True, at: Path = model, **env: str) -> Simulator:
        simulator = Simulator(at, logs / f"{next(numbers)}.log", faults, flags, env)
        running.append(simulator)
        return simulator.wait_ready() if ready else simulator

    return start


@pytest.fixture
def start(model: Path, tmp_path: Path) -> Iterator[Start]:
    running: list[Simulator] = []
    yield starter(model, tmp_path, running)
    for simulator in running:
        simulator.stop()


@pytest.fixture(scope="module")
def healthy(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One healthy unified engine for all tests of a file that only look."""
    running: list[Simulator] = []
    start = starter(model, tmp_path_factory.mktemp("healthy"), running)
    yield start("--enable-metrics", "--tp", "2", "--mem-fraction-static", "0.7", "--flag-of-tomorrow", "x")
    running[0].stop()


Pair = tuple[Simulator, Simulator, int]


@pytest.fixture
def start_pair(start: Start) -> Callable[..., Pair]:
    """Start a prefill and a decode: (prefill, decode, bootstrap port)."""

    def pair(prefill: str = "", decode: str = "", *flags: str, **env: str) -> Pair:
        port = free_port()
        where = ("--disaggregation-bootstrap-port", str(port), "--enable-metrics")
        first = start("--disaggregation-mode", "prefill", *where, faults=prefill, ready=False, **env)
        second = start("--disaggregation-mode", "decode", *where, *flags, faults=decode, ready=False, **env)
        return first.wait_ready(), second.wait_ready(), port

    return pair
