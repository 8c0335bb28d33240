"""Simulated engines whose timing is known, and the client as it is run on a host."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slipway.agent.simulator.harness import ROOT, Simulator, make_model

TIMING = {"prefill_base_ms": 40, "prefill_ms_per_token": 0.1, "decode_ms": 10}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., Simulator]]:
    """Start a unified engine with faults and a timing model."""
    running: list[Simulator] = []

    def start(faults: str = "", **timing: float) -> Simulator:
        model = make_model(tmp_path / "model")
        env = {"SLIPWAY_SIM_TIMING": json.dumps({**TIMING, **timing})}
        running.append(Simulator(model, tmp_path / f"{len(running)}.log", faults, ("--enable-metrics",), env))
        return running[-1].wait_ready()

    yield start
    for simulator in running:
        simulator.stop()


def load_command(port: int, *more: str) -> list[str]:
    base = ["--url", f"http://127.0.0.1:{port}", "--model", "tiny", "--input", "64", "--output", "16"]
    return [sys.executable, "-m", "slipway.agent.load", *base, *more]


def load(port: int, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit status and record of one run of the client."""
    done = subprocess.run(load_command(port, *more), cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"said": done.stderr}
