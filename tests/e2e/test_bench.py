"""A sweep on a deployment, as a user starts it: what it leaves, what it refuses, and a connection that is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.site import CHECKOUT

CELLS = {"shapes": [[64, 16]], "concurrency": [1, 4], "prompts": 4, "warmups": 1}
LONG = {"shapes": [[64, 64]], "concurrency": [2, 4], "prompts": 100, "warmups": 1}


@pytest.fixture
def results(site):
    """Where labels are fetched to; what the tests leave there goes."""
    yield CHECKOUT / "bench"
    for folder in (CHECKOUT / "bench").glob(f"{site.name}-*"):
        shutil.rmtree(folder)


def measure(site, label, **more):
    data = {"label": f"{site.name}-{label}", "bench.sweep": "small", "bench.sweeps.small": CELLS, **more}
    return site.run("-y", "playbooks/bench.py", **data)


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_a_sweep_leaves_results_with_what_they_were_measured_on(site, results):
    first = measure(site, "a")
    again = measure(site, "a")
    more = measure(site, "a", repeats=2)

    folder = results / f"{site.name}-a"
    assert (first.rc, more.rc) == (0, 0), first.out + more.out
    assert "2 cells, 0 void" in first.out
    assert again.rc != 0
    assert "is measured already (1 repeat(s)); choose another label, or ask for more: --data repeats=2" in again.out
    cells = lines(folder)
    assert [(cell["cell"], cell["repeat"]) for cell in cells] == [
        ("64-16-c1", 1), ("64-16-c4", 1), ("64-16-c1", 2), ("64-16-c4", 2),
    ]  # fmt: skip
    assert {cell["status"] for cell in cells} == {"valid"}
    assert cells[1]["total_output_tokens"] == 16 * 16
    assert cells[1]["server"]["kv_transfers"] == 16
    assert cells[1]["server"]["missing"] == []
    record = json.loads((folder / "provenance.json").read_text())
    assert record["simulated"] is True
    assert [(run["repeat"], run["verified"]) for run in record["runs"]] == [(1, True), (2, True)]
    assert all(run["started"] <= run["ended"] for run in record["runs"])
    assert {"plan.json", "sweep.json", "requests.jsonl", "done.json"} <= {path.name for path in folder.iterdir()}


def test_what_is_not_deployed_or_does_not_verify_is_not_measured(site, results, tmp_path):
    wrong = tmp_path / "answers.json"
    wrong.write_text(json.dumps([{"question": "What is 17*23? Answer with the number only.", "answer": "392"}]))

    other = measure(site, "b", **{"decode.max_running_requests": 7})
    unproven = measure(site, "b", **{"verify.known_answers": str(wrong)})

    assert other.rc != 0
    assert "what is deployed is not what is configured" in other.out
    assert unproven.rc != 0
    assert "the deployment does not verify, so it is not measured" in unproven.out
    assert not (results / f"{site.name}-b").exists()


def test_a_sweep_whose_controller_vanished_is_taken_up_again(site, results):
    label = f"{site.name}-c"
    data = {"label": label, "bench.sweep": "long", "bench.sweeps.long": LONG}
    command = site.command("-y", "playbooks/bench.py", **data)
    first = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in first.stdout:
        if "measuring" in line:
            break
    first.send_signal(signal.SIGKILL)
    first.communicate()

    second = site.run("-y", "playbooks/bench.py", **data)

    assert second.rc == 0, second.out
    assert "watching it" in second.out or "was measured while nobody watched" in second.out
    assert [(cell["cell"], cell["status"]) for cell in lines(results / label)] == [
        ("64-64-c2", "valid"), ("64-64-c4", "valid"),
    ]  # fmt: skip


@pytest.mark.full
def test_two_sweeps_do_not_measure_each_other(site, results):
    job = [sys.executable, "-m", "slipway.agent.job"]
    folder = str(site.root / f"jobs/bench-{site.name}")
    subprocess.run([*job, "start", folder, "other/1", "sleep", "120"], cwd=CHECKOUT, check=True)
    try:
        refused = measure(site, "d")
    finally:
        subprocess.run([*job, "stop", folder], cwd=CHECKOUT, check=True)

    assert refused.rc != 0
    assert "other is being measured on @local" in refused.out


@pytest.mark.full
def test_a_router_that_dies_in_the_middle_voids_its_cell_and_the_next_is_measured(site, results):
    data = {"label": f"{site.name}-e", "bench.sweep": "long", "bench.sweeps.long": {**LONG, "prompts": 200}}
    command = site.command("-y", "playbooks/bench.py", **data)
    running = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = site.root / f"jobs/bench-{site.name}/log"
    while not (log.is_file() and "/400 requests, " in log.read_text()):
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.2)

    os.kill(site.pids()["router-0"], signal.SIGKILL)

    said = running.communicate(timeout=120)[0]
    assert running.returncode == 0, said
    first, second = lines(results / f"{site.name}-e")
    assert first["status"] == "void"
    assert any("the connection was closed" in reason or "broke" in reason for reason in first["reasons"])
    assert f"void: {first['cell']}, repeat 1: " in said
    assert (second["status"], second["failed"]) == ("valid", 0)
