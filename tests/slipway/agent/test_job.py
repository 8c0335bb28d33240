"""Detached jobs: started once a key, looked at, re-attached, stopped."""

import json
import os
import subprocess
import sys
import time

from slipway.agent.job import last_line, started


def job(*words):
    done = subprocess.run([sys.executable, "-m", "slipway.agent.job", *map(str, words)], capture_output=True, text=True)
    return json.loads(done.stdout)


def wait(folder):
    end = time.monotonic() + 20
    while job("status", folder)["state"] == "running" and time.monotonic() < end:
        time.sleep(0.05)
    return job("status", folder)


def test_it_runs_detached_and_its_end_is_known(tmp_path):
    folder = tmp_path / "j"

    first = job("start", folder, "k1", "sh", "-c", "echo one; echo two; exit 3")
    ended = wait(folder)

    assert first["state"] in ("running", "done")
    assert (ended["state"], ended["rc"], ended["last"]) == ("done", 3, "two")
    assert (folder / "log").read_text() == "one\ntwo\n"


def test_the_same_key_is_attached_to_not_started_again(tmp_path):
    folder = tmp_path / "j"
    first = job("start", folder, "k1", "sleep", "30")

    second = job("start", folder, "k1", "sleep", "30")

    assert second["pid"] == first["pid"]
    assert job("stop", folder)["state"] in ("lost", "done")


def test_a_job_that_ended_well_is_not_run_again_and_one_that_failed_is(tmp_path):
    folder, count = tmp_path / "j", tmp_path / "count"
    script = f"echo x >> {count}; test $(wc -l < {count}) -ge 2"
    for _ in range(4):
        job("start", folder, "k", "sh", "-c", script)
        wait(folder)

    assert count.read_text() == "x\nx\n"


def test_another_key_ends_the_old_job_first(tmp_path):
    folder = tmp_path / "j"
    old = job("start", folder, "k1", "sleep", "60")["pid"]

    job("start", folder, "k2", "true")

    assert wait(folder)["key"] == "k2"
    assert started(old) == ""


def test_a_killed_job_is_lost_not_running(tmp_path):
    folder = tmp_path / "j"
    pid = job("start", folder, "k1", "sleep", "60")["pid"]
    os.killpg(os.getpgid(pid), 9)

    assert wait(folder)["state"] == "lost"


def test_a_command_that_is_not_there_ends_with_127_and_says_so(tmp_path):
    folder = tmp_path / "j"
    job("start", folder, "k", "/no/such/program")

    ended = wait(folder)

    assert ended["rc"] == 127
    assert "cannot run /no/such/program" in ended["last"]


def test_running_names_each_job_that_runs_with_its_last_word_and_no_other(tmp_path):
    job("start", tmp_path / "ended", "k", "true")
    job("start", tmp_path / "going", "k", "sh", "-c", "echo 1 of 2; sleep 60")
    wait(tmp_path / "ended")
    deadline = time.monotonic() + 10
    while job("status", tmp_path / "going")["last"] != "1 of 2" and time.monotonic() < deadline:
        time.sleep(0.02)

    found = job("running", tmp_path)

    job("stop", tmp_path / "going")
    assert {name: one["last"] for name, one in found.items()} == {"going": "1 of 2"}
    assert job("running", tmp_path) == job("running", tmp_path / "nowhere") == {}


def test_an_error_is_told_from_its_beginning_and_progress_by_its_end(tmp_path):
    (tmp_path / "log").write_text("begun\nerror: uv failed: " + "reason " * 100 + "\n")
    assert last_line(str(tmp_path)).startswith("error: uv failed: reason")

    (tmp_path / "log").write_text("0 %" + "." * 400 + "100 %\n")
    assert last_line(str(tmp_path)).endswith("100 %")
