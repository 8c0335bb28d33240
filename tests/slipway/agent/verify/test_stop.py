"""Simulated engines that do not end as they should, stopped as a deploy stops them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.slipway.agent.simulator.harness import ROOT, Simulator

from .conftest import NewCluster

DEPLOYMENT = "stop-test"


def stopped(simulator: Simulator, patience_s: float) -> dict[str, Any]:
    request = {"deployment": DEPLOYMENT, "instance": "unified-0", "patience_s": patience_s, "tmp": "",
               "commands": [["kill", str(simulator.process.pid)]]}  # fmt: skip
    command = [sys.executable, "-S", "-m", "slipway.agent.halt"]
    done = subprocess.run(command, input=json.dumps(request), cwd=ROOT, capture_output=True, text=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def engine(new_cluster: NewCluster, fault: str) -> Simulator:
    cluster = new_cluster()
    marks = {"SLIPWAY_DEPLOYMENT": DEPLOYMENT, "SLIPWAY_INSTANCE": "unified-0"}
    return cluster.worker("unified", fault, **marks).wait_ready()


def test_an_engine_that_ignores_sigterm_is_killed_and_named(new_cluster: NewCluster) -> None:
    simulator = engine(new_cluster, "ignores-sigterm")

    assert stopped(simulator, 0.5)["killed"] == [simulator.process.pid]
    assert simulator.process.wait(timeout=5) == -9


def test_a_child_that_outlives_its_engine_is_ended_with_it(new_cluster: NewCluster) -> None:
    simulator = engine(new_cluster, "orphan-scheduler=60")
    (child,) = Path(f"/proc/{simulator.process.pid}/task/{simulator.process.pid}/children").read_text().split()

    assert stopped(simulator, 2)["killed"] == [int(child)]
    assert not Path(f"/proc/{child}/exe").exists()
