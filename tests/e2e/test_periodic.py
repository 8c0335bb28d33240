"""Periodic verification under supervisor: it looks by itself, tells a wrong answer by its metrics, and goes again."""

import json
import os
import re
import signal
import time

import pytest

from tests.e2e.conftest import QUESTION

pytestmark = pytest.mark.full  # five deploys; under systemd tests/staging/test_periodic.py shows the same


@pytest.fixture
def watched(site):
    """The site with a look each second; without afterwards."""
    done = site.deploy(verify__every_s=1)
    assert done.rc == 0, done.out
    assert "enable periodic verification" in done.out
    yield site
    gone = site.deploy()
    assert gone.rc == 0, gone.out
    assert not (folder(site)).exists()
    assert site.dry().changes == 0


def folder(site):
    return site.root / "deployments" / site.name / "verify"


def metric(site, name):
    """The value of a metric; None while there is none."""
    try:
        lines = (folder(site) / "verify.prom").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{")), None)


def wait(site, name, value, seconds=60):
    end = time.monotonic() + seconds
    while metric(site, name) != value:
        assert time.monotonic() < end, (folder(site) / "last.json").read_text()
        time.sleep(0.2)


def come_back_with(site, known, answers):
    """The workers die, and their manager brings them back: healthy, with other answers."""
    known.write_text(answers)
    pids = site.pids()
    for name in ("prefill-0", "decode-0"):
        os.kill(pids[name], signal.SIGKILL)
    end = time.monotonic() + 60
    while site.ask(QUESTION)[0] != 200 or site.pids().get("decode-0") == pids["decode-0"]:
        assert time.monotonic() < end
        time.sleep(0.5)


def test_a_wrong_answer_of_a_healthy_deployment_shows_in_the_metric_and_nothing_is_restarted(watched):
    wait(watched, "slipway_verify_ok", 1)
    assert watched.dry(verify__every_s=1).changes == 0
    (known,) = watched.root.glob("checkpoints/*/*/known_answers.json")
    was = known.read_text()
    come_back_with(watched, known, json.dumps([{**row, "answer": "402"} for row in json.loads(was)]))

    wait(watched, "slipway_verify_ok", 0)
    before = watched.pids()
    failures = metric(watched, "slipway_verify_failures_total")
    end = time.monotonic() + 30
    while metric(watched, "slipway_verify_failures_total") < failures + 2:
        assert time.monotonic() < end
        time.sleep(0.2)

    assert watched.answer(QUESTION) == "402"
    assert watched.pids() == before
    shown = watched.run("-y", "playbooks/status.py", **{"verify.every_s": 1}).out
    assert re.search(r"periodic verification \d+ s ago: NOT WELL, .*known-answers", shown), shown
    come_back_with(watched, known, was)
    wait(watched, "slipway_verify_ok", 1)
