"""The live process: its limits and its environment, read from the kernel."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from slipway.agent.verify.climbing import attempt
from slipway.agent.verify.process import environment_right, limits_granted, process_runs

ENV = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "2,3", "SGLANG_HOST_IP": "10.0.0.1"}


@contextmanager
def process(env: dict[str, str], nofile: int = 512) -> Iterator[dict[str, Any]]:
    """A process that does nothing, as the subject of a climb."""
    command = [sys.executable, "-Sc", "print(flush=True); input()"]
    running = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (nofile, nofile))
    running.stdout.readline()
    try:
        yield {"pid": running.pid, "env": ENV, "secrets": [], "peers": ["http://10.0.0.1:30000", "http://10.0.0.2:30000"],
               "limits": {"memlock": "", "nofile": "512"}, "doing": ""}  # fmt: skip
    finally:
        running.communicate(b"\n")


def test_a_process_as_planned() -> None:
    with process(ENV) as subject:
        assert attempt(environment_right, subject, 5) == (True, "3 variables, CUDA_VISIBLE_DEVICES=2,3")
        assert attempt(limits_granted, subject, 5)[0]


def test_a_process_with_another_environment() -> None:
    with process({**ENV, "CUDA_VISIBLE_DEVICES": "0,1", "API_TOKEN": "abc"}) as subject:
        subject["env"] = {**ENV, "NCCL_DEBUG": "INFO", "API_TOKEN": "xyz"}
        subject["secrets"] = ["HF_TOKEN"]
        ok, detail = attempt(environment_right, subject, 5)
    assert not ok
    assert "CUDA_VISIBLE_DEVICES is '0,1'; the plan's is '2,3'" in detail
    assert "NCCL_DEBUG is not set" in detail
    assert "HF_TOKEN: not set; the plan has a secret there" in detail
    assert "API_TOKEN differs from the plan's" in detail
    assert "abc" not in detail
    assert "xyz" not in detail


def test_a_proxy_between_a_process_and_its_peers() -> None:
    proxied = {**ENV, "HTTP_PROXY": "http://proxy:3128"}
    with process(proxied) as subject:
        ok, detail = attempt(environment_right, subject, 5)
        assert not ok
        assert "NO_PROXY does not name 10.0.0.1, 10.0.0.2" in detail
    with process({**proxied, "NO_PROXY": "10.0.0.1,10.0.0.2"}) as subject:
        assert attempt(environment_right, subject, 5)[0]


def test_limits_that_were_not_granted() -> None:
    with process(ENV, nofile=256) as subject:
        ok, detail = attempt(limits_granted, subject, 5)
    assert (ok, "did not grant nofile 256, asked 512" in detail) == (False, True)


def test_a_process_of_another_configuration_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"decode-0": {"state": "running", "config": "old", "pid": 1}}
    monkeypatch.setattr("slipway.agent.verify.process.service_states", lambda service: state)
    subject = {"service": {"name": "decode-0"}, "config": "new", "doing": ""}
    assert attempt(process_runs, subject, 5) == (
        False,
        "it runs configuration old; the plan's is new: deploy, or verify with the settings that it was deployed with",
    )
