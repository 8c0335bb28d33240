"""The simulator's start-up faults, seen by the real looks at real processes: each is told for what it is."""

from __future__ import annotations

import time

import pytest

from slipway.agent import watch
from slipway.knowledge.log_patterns import matchers
from slipway.startup import Look, begun, failure, is_up, progress, seen
from tests.slipway.agent.simulator.conftest import model, start  # noqa: F401 - fixtures

BUDGET_S = 60.0
PACE = 20  # seconds of the watch in one of the test's
TOLD = {
    "dies-at-start": "died while it came up|the compiled kernels do not fit",
    "dies-loading": "died while it came up|Lower mem_fraction_static",
    "oom-kv": "died while it came up|Raise mem_fraction_static",
    "jit-failure": "died while it came up|a kernel was to be compiled at run time",
    "never-listens": "its port is closed|memory is set up",
    "nccl-hang": "its port is closed|its ranks are meeting",
    "slow-start=60": "its port is closed|it reads the weights",
    "stuck-503": "/health answers 503",
    "warmup-fails": "/health answers 503|the first generation failed",
    "health-hangs": "/health does not answer",
}


@pytest.fixture
def watched(start, monkeypatch):  # noqa: F811
    """Watch a simulator with faults come up or not: the course at its end."""

    def run(faults):
        process = start("--enable-metrics", faults=faults, ready=False)

        def states(wanted):
            alive = process.process.poll() is None
            found = (
                {"state": "running", "pid": process.process.pid} if alive else {"state": "failed", "detail": "exited"}
            )
            return {wanted["names"][0]: found}

        monkeypatch.setattr(watch, "service_states", states)
        question = {
            "name": "decode-0", "service": {"name": "x"}, "address": "127.0.0.1", "ports": {"http": process.port},
            "url": f"http://127.0.0.1:{process.port}", "timeout_s": 0.5,
            "log": {"source": {"kind": "file", "path": str(process.log_path)}},
        }  # fmt: skip
        return follow(question)

    return run


def follow(question):
    course, began, cursor = begun("decode-0", "h2", BUDGET_S, "", True), time.monotonic(), None
    while not (is_up(course) or failure(course)):
        found = watch.look({**question, "log": {**question["log"], "cursor": cursor}}, list(matchers()))
        found.pop("name")
        cursor = found["log"]["cursor"]
        course = seen(course, Look(**found), PACE * (time.monotonic() - began))
        time.sleep(0.1)
    return course


@pytest.mark.parametrize("fault", TOLD)
def test_each_fault_of_a_start_is_told(watched, fault):
    said = failure(watched(fault))

    for words in TOLD[fault].split("|"):
        assert words in said, said


def test_a_good_start_is_up(watched):
    course = watched("")

    assert is_up(course)
    assert "of 60 s" in progress(course)
