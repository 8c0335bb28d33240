"""Runs that are hit in the middle. The whole matrix is tests/staging/crash.py; these are a few of its cells."""

from __future__ import annotations

import os
import signal

import pytest

from tests.staging.crash import BLOWS, Scene, cell, half, hit_from_the_start, remains, row, undisturbed
from tests.staging.crash_scenes import NAMES, scenes
from tests.staging.pairs import WORKERS, flag_of, read_until, served
from tests.staging.site import ANSWER, Site


def scene_of(pairs: Site, flag: int) -> Scene:
    """A change that the deployment has not had yet."""
    words = ("deploy.py", "--data", f"decode.max_running_requests={flag}")
    return Scene("upgrade", pairs.impatient(), words, serves=True)


def test_a_step_whose_program_is_killed_on_the_host_costs_no_answer_and_the_next_run_converges(pairs: Site) -> None:
    done = cell(scene_of(pairs, 21), ": stop decode-1", "process")
    assert done.problems == []
    assert done.outage_s == 0
    assert flag_of(pairs, "decode-1") == "21"


@pytest.mark.full
def test_a_host_that_loses_its_power_in_a_step_comes_back_and_the_next_run_converges(pairs: Site) -> None:
    done = cell(scene_of(pairs, 22), ": start decode-1", "power")
    assert done.problems == []
    assert done.rc == 1
    assert flag_of(pairs, "decode-1") == "22"


def test_ctrl_c_once_ends_after_the_step_in_hand_and_puts_back_what_served(pairs: Site) -> None:
    before = {name: flag_of(pairs, name) for name in WORKERS}
    process = pairs.start("--data", "decode.max_running_requests=23")
    said = read_until(process, ": stop decode-0")
    os.kill(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=200)
    said += rest

    assert process.returncode not in (0, None), said
    assert "Ctrl-C: the rollout stops after what it has in hand" in said
    assert "rollout stopped: stopped by Ctrl-C" in said
    assert "serves again, and every rung of its ladder holds" in said
    assert "Traceback" not in said
    assert {name: flag_of(pairs, name) for name in WORKERS} == before
    assert served(pairs) == [ANSWER] * 6
    assert [line for host in ("h1", "h2") for line in (*remains(pairs, host), *half(pairs, host))] == []


@pytest.mark.full
@pytest.mark.parametrize("blow", BLOWS)
@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_hit_at_any_boundary_the_next_run_converges(staging_machine: None, name: str, blow: str) -> None:
    for scene in scenes([name]):
        done = [hit_from_the_start(scene, number, blow) for number in undisturbed(scene)]
    assert [row(one) for one in done if one.problems] == []
