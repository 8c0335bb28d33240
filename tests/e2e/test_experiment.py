"""A whole experiment on the simulator: killed in the middle, gone on with, a wrong variant never ranked."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

from slipway.bench.folder import labels, read_result
from tests.e2e.conftest import QUESTION
from tests.e2e.site import BIN, CHECKOUT

LABELS = ["simulator.baseline", "simulator.quick_decode"]


@pytest.fixture
def place(site, tmp_path):
    """An inventory of its own, so that results lie beside it; the deployment is the site's, put back afterwards."""
    shutil.copy(CHECKOUT / "inventory.py", tmp_path)
    shutil.copytree(CHECKOUT / "group_vars", tmp_path / "group_vars")
    yield tmp_path
    assert site.deploy().rc == 0


def environment():
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def read_to(process, text):
    """The driver has printed `text`."""
    printed = []
    for line in process.stdout:
        printed.append(line)
        if text in line:
            return
    raise AssertionError("".join(printed))


class Watched:
    """A file that is looked at again and again, from when it is there first."""

    def __init__(self, path):
        self.path, self.absent, self.over = path, 0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        there = False
        while not self.over.wait(0.05):
            there = there or self.path.exists()
            self.absent += there and not self.path.exists()

    def gaps(self):
        self.over.set()
        self.thread.join()
        return self.absent


def dry(*words):
    command = [str(BIN / "pyinfra"), "--dry", "inventory.py", "playbooks/experiment.py", *words]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_a_dry_run_only_says_what_would_be_measured():
    code, out = dry("--data", "name=simulator")

    assert code == 0, out
    assert "3 of 4 measured, 2 round(s) each, interleaved" in out
    assert "refused: no_such_flag: SGLang 0.5.13 has no --no-such-flag [flag-unknown]" in out


def test_a_run_without_a_name_or_with_a_path_for_one_is_refused():
    for words in ((), ("--data", "name=../x")):
        code, out = dry(*words)

        assert code != 0
        assert "must name a file of experiments/" in out


@pytest.mark.full
def test_a_deployment_leaves_disaggregation_and_comes_back(site, place):
    """What an experiment does that holds the two against one another: another inventory, the same deployment."""
    shutil.copy(CHECKOUT / "aggregated.py", place)
    data = site.overrides({"unified.port": site.first_port + 80})
    words = [str(BIN / "pyinfra"), "-y", *data, str(place / "aggregated.py"), "deploy.py"]

    done = subprocess.run(words, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert set(site.pids()) == {"unified-0", "router-0"}
    assert site.answer(QUESTION) == "391"
    back = site.deploy()
    assert back.rc == 0, back.out
    assert set(site.pids()) == {"prefill-0", "decode-0", "router-0"}
    assert site.answer(QUESTION) == "391"


@pytest.mark.full
def test_an_experiment_is_killed_and_gone_on_with(site, place):
    inventory = str(place / "inventory.py")
    words = [str(BIN / "slipway"), "experiment", "simulator", inventory, *site.overrides({})]
    first = subprocess.Popen(
        words, cwd=CHECKOUT, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    lock = Watched(site.root / "deployments" / site.name / "lock")
    read_to(first, "round 1 of 2: quick_decode")
    other = site.deploy(**{"rollout.lock_wait_s": 0})  # somebody else, with another plan
    assert other.rc == 1, other.out
    assert re.search(r"is being changed by \S+ pid \d+ \(experiment simulator(: deploy|: bench)? since", other.out), (
        other.out
    )
    assert lock.gaps() == 0  # not for a moment between the steps until here
    read_to(first, "measuring simulator.quick_decode")
    first.send_signal(signal.SIGKILL)  # what it had started goes on without it
    first.wait(60)
    first.stdout.close()

    playbook = [
        str(BIN / "pyinfra"),
        "-y",
        *site.overrides({"name": "simulator"}),
        inventory,
        "playbooks/experiment.py",
    ]
    done = subprocess.run(playbook, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, timeout=900)

    out = done.stdout + done.stderr
    assert done.returncode == 0, out
    for label in LABELS:
        cells = [(cell.shape.concurrency, cell.repeat) for cell in read_result(place / "bench", label).cells]
        assert sorted(cells) == [(1, 1), (1, 2), (4, 1), (4, 2)]  # measured once each, though a run was killed
    assert labels(place / "bench") == LABELS  # the wrong variant has no figures at all
    state = json.loads((place / "bench/simulator/state.json").read_text())
    assert state["restored"] is True
    assert state["variants"]["wrong_answers"]["status"] == "wrong"
    assert "rung pairs" in state["variants"]["wrong_answers"]["why"]
    assert state["variants"]["no_such_flag"]["status"] == "refused"
    assert "Recommended: quick_decode" in out
    assert "the baseline is back, verified" in out
    assert site.answer(QUESTION) == "391"
    assert not lock.path.exists()  # given back at the end
    page = (place / "bench/simulator/report.html").read_text()
    assert "wrong_answers" in page
    assert "SIMULATED" in page

    again = subprocess.run(words, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "measuring" not in again.stdout  # everything is measured: nothing is touched
    diff = ["bench", "diff", *LABELS, "--bench", str(place / "bench")]
    said = subprocess.run(
        [str(BIN / "slipway"), *diff], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    ).stdout
    assert "environment.SLIPWAY_SIM_TIMING" in said
    assert "nothing else differs" in said
