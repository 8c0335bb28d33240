"""Magic rollback: what hosts do by themselves when the controller is gone in the middle of a step."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.staging.lab.commands import until
from tests.staging.pairs import WORKERS, audit, flag_of, put_back, read_until, served
from tests.staging.site import ANSWER, Site

CURRENT = "/opt/slipway/deployments/staging/current"
CHANGE = ("--data", "worker.max_running_requests=5")


def test_a_controller_that_is_killed_between_stop_and_start_leaves_what_served_before(pairs: Site) -> None:
    before = {host: len(audit(pairs, host)) for host in ("h1", "h2")}
    flags = {name: flag_of(pairs, name) for name in WORKERS}
    current = pairs.sh("h1", f"readlink {CURRENT}")
    process = pairs.start(*CHANGE)
    said = read_until(process, ": stop prefill-0")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    assert put_back(pairs, "h1", before["h1"]) == ["ok"], said

    assert {name: flag_of(pairs, name) for name in WORKERS} == flags
    assert served(pairs) == [ANSWER] * 6
    assert pairs.sh("h1", f"readlink {CURRENT}") == current
    again = pairs.deploy(*CHANGE)
    assert again.rc == 0, again.out
    assert "took over the lock of" in again.out
    assert {name: flag_of(pairs, name) for name in WORKERS} == dict.fromkeys(WORKERS, "5")


def test_a_worker_that_came_up_between_two_writes_is_started_anew(pairs: Site, tmp_path: Path) -> None:
    """systemd starts a dead worker by itself: here when its environment is written, and its unit not read yet."""
    hook = pairs.folder / "hooks" / "pre-rollout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/written; until [ -e {tmp_path}/go ]; do sleep 0.1; done\n")
    hook.chmod(0o755)
    unit = "slipway-staging-decode-1.service"
    try:
        pairs.sh("h2", f"systemctl stop {unit}")
        process = pairs.start("--data", "worker.max_running_requests=7")
        until((tmp_path / "written").exists, 120)
        pairs.sh("h2", f"systemctl start {unit}")
        (tmp_path / "go").touch()
        said, _ = process.communicate(timeout=300)
    finally:
        shutil.rmtree(hook.parent)

    assert process.returncode == 0, said
    assert said.count("start decode-1") >= 2, said  # of the step, and of the process
    assert {name: flag_of(pairs, name) for name in WORKERS} == dict.fromkeys(WORKERS, "7")


@pytest.mark.full
def test_a_host_that_is_cut_off_puts_its_part_back_and_the_router_takes_it_again(pairs: Site) -> None:
    assert pairs.deploy(*CHANGE).rc == 0
    before = {host: len(audit(pairs, host)) for host in ("h1", "h2")}
    process = pairs.impatient().start("--data", "worker.max_running_requests=6")
    said = read_until(process, ": stop prefill-1")
    pairs.lab["h2"].cable(False)
    rest, _ = process.communicate(timeout=300)
    said += rest
    assert process.returncode == 1, said
    assert "Traceback" not in said

    assert put_back(pairs, "h2", before["h2"]) == ["ok"], said
    assert flag_of(pairs, "prefill-1") == "5"
    pairs.lab["h2"].cable(True)
    assert put_back(pairs, "h1", before["h1"]) == ["ok"], said

    assert pairs.answers()  # the first may still meet a connection that the router had before the cut
    assert served(pairs) == [ANSWER] * 6
    again = pairs.deploy("--data", "worker.max_running_requests=6")
    assert again.rc == 0, again.out
    assert {name: flag_of(pairs, name) for name in WORKERS} == dict.fromkeys(WORKERS, "6")
