"""The simulator's start-up faults, seen by the real looks at real processes: each is told for what it is."""

from __future__ import annotations

import time

import pytest

from slipway.agent import watch
from slipway.knowledge.log_patterns import matchers
from slipway.startup import Look, begun, failure, is_up, progress, seen
from tests.slipway.agent.simulator.conftest import model, start  # noqa: F401 - fixtures

BUDGET_S = 60.0
DIED, LISTENS = "died", "listens"  # else: text in the log's last line, by which the fault has come to where it stands
TOLD = {
    "dies-at-start": (DIED, "died while it came up|the compiled kernels do not fit"),
    "dies-loading": (DIED, "died while it came up|Lower mem_fraction_static"),
    "oom-kv": (DIED, "died while it came up|Raise mem_fraction_static"),
    "jit-failure": (DIED, "died while it came up|a kernel was to be compiled at run time"),
    "never-listens": ("max_total_num_tokens", "its port is closed|memory is set up"),
    "nccl-hang": ("Init torch distributed begin", "its port is closed|its ranks are meeting"),
    "slow-start=60": ("Load weight begin", "its port is closed|it reads the weights"),
    "stuck-503": (LISTENS, "/health answers 503"),
    "warmup-fails": ("TimeoutError", "/health answers 503|the first generation failed"),
    "health-hangs": (LISTENS, "/health does not answer"),
}


@pytest.fixture
def watched(start, monkeypatch):  # noqa: F811
    """Watch a simulator with faults come up or not: the course at its end."""

    def run(faults, until=LISTENS):
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
        return follow(question, until)

    return run


def follow(question, until):
    """Looks as a deploy makes them; when the start is where its fault leaves it, its budget is over."""
    course, cursor, end, arrived = begun("decode-0", "h2", BUDGET_S, "", True), None, time.monotonic() + 60, False
    while not (is_up(course) or failure(course)):
        found = watch.look({**question, "log": {**question["log"], "cursor": cursor}}, list(matchers()))
        found.pop("name")
        cursor = found["log"]["cursor"]
        course = seen(course, Look(**found), BUDGET_S + 1 if arrived else 5.0)
        arrived = {DIED: False, LISTENS: found["port_open"]}.get(until, until in course.line)
        assert time.monotonic() < end, course
        time.sleep(0.1)
    return course


@pytest.mark.parametrize("fault", TOLD)
def test_each_fault_of_a_start_is_told(watched, fault):
    until, told = TOLD[fault]

    said = failure(watched(fault, until))

    for words in told.split("|"):
        assert words in said, said


def test_a_good_start_is_up(watched):
    course = watched("", until="nothing")

    assert is_up(course)
    assert "of 60 s" in progress(course)
