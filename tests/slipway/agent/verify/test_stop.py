"""Simulated engines that do not end as they should, stopped as a deploy stops them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.slipway.agent.simulator.harness import ROOT, Simulator, ask, chat, chat_body

from .conftest import NewCluster

DEPLOYMENT = "stop-test"


def stopped(simulator: Simulator, patience_s: float, settle_s: float = 60) -> dict[str, Any]:
    request = {"deployment": DEPLOYMENT, "instance": "unified-0", "patience_s": patience_s, "settle_s": settle_s,
               "tmp": "", "commands": [["kill", str(simulator.process.pid)]]}  # fmt: skip
    command = [sys.executable, "-S", "-m", "slipway.agent.halt"]
    done = subprocess.run(command, input=json.dumps(request), cwd=ROOT, capture_output=True, text=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def engine(new_cluster: NewCluster, fault: str, *flags: str, **env: str) -> Simulator:
    cluster = new_cluster()
    marks = {"SLIPWAY_DEPLOYMENT": DEPLOYMENT, "SLIPWAY_INSTANCE": "unified-0"}
    return cluster.worker("unified", fault, *flags, **marks, **env).wait_ready()


def test_an_engine_that_ignores_sigterm_is_killed_and_named(new_cluster: NewCluster) -> None:
    simulator = engine(new_cluster, "ignores-sigterm")

    assert stopped(simulator, 0.5)["killed"] == [simulator.process.pid]
    assert simulator.process.wait(timeout=5) == -9


def test_a_child_that_outlives_its_engine_is_ended_with_it(new_cluster: NewCluster) -> None:
    simulator = engine(new_cluster, "orphan-scheduler=60")
    (child,) = Path(f"/proc/{simulator.process.pid}/task/{simulator.process.pid}/children").read_text().split()

    assert stopped(simulator, 2)["killed"] == [int(child)]
    assert not Path(f"/proc/{child}/exe").exists()


def test_an_engine_that_waits_for_requests_which_it_refused_is_ended_once_it_is_idle(new_cluster: NewCluster) -> None:
    simulator = engine(new_cluster, "keeps-refused")
    refused = chat(simulator.port, "word " * 3000)

    answer = stopped(simulator, patience_s=60, settle_s=1)

    assert refused.status == 400
    assert (answer["killed"], answer["idle"]) == ([], [simulator.process.pid])
    assert "Gracefully exiting... Remaining number of requests 1." in simulator.log
    assert simulator.process.wait(timeout=5) == -9


def test_one_that_tells_what_it_has_in_hand_only_with_its_api_key_is_asked_with_it(new_cluster: NewCluster) -> None:
    simulator = engine(new_cluster, "keeps-refused", "--api-key", "k3y", SERVER_API_KEY="k3y")
    body = chat_body("word " * 3000)
    refused = ask(simulator.port, "/v1/chat/completions", body, authorization="Bearer k3y")

    answer = stopped(simulator, patience_s=30, settle_s=1)

    assert refused.status == 400
    assert (answer["killed"], answer["idle"]) == ([], [simulator.process.pid])


def test_an_engine_that_still_answers_somebody_is_waited_for(new_cluster: NewCluster) -> None:
    simulator = engine(new_cluster, "keeps-refused,slow-tokens=100")
    chat(simulator.port, "word " * 3000)
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(chat, simulator.port, timeout=30, max_tokens=40, ignore_eos=True)
        time.sleep(0.5)

        answer = stopped(simulator, patience_s=60, settle_s=0.1)

    assert answering.result().status == 200
    assert answer["idle"] == [simulator.process.pid]
