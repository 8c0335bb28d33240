"""A server that is up and wrong fails the deploy: with the rung, the reason, and its last log lines."""

import json
import os
import re
import signal

import pytest

from tests.e2e.conftest import QUESTION


@pytest.fixture
def mended(site):
    """The site, deployed right again afterwards."""
    yield site
    done = site.deploy()
    assert done.rc == 0, done.out
    assert site.answer(QUESTION) == "391"


def faulty(site, role, fault, **more):
    return site.deploy(**{f"{role}.env": {"SLIPWAY_SIM_FAULTS": fault}, **more})


def failed(done, *words):
    assert done.rc == 1, done.out
    ours = [line for line in done.out.splitlines() if not line.startswith("      ")]  # a log may hold a traceback
    assert not any("Traceback" in line for line in ours), done.out
    for word in words:
        assert word in done.out, done.out
    assert "create release" not in done.out.split("Beginning operation run")[1]


def test_the_ladder_alone_and_its_results_as_json(site, tmp_path):
    results = tmp_path / "verified.json"

    done = site.run("-y", "playbooks/verify.py", **{"verify.json": str(results), "verify.burst": 40})

    assert done.rc == 0, done.out
    found = json.loads(results.read_text())
    assert found["ok"]
    rungs = {row["rung"] for row in found["rows"]}
    assert rungs >= {"settings", "bootstrap", "pairs", "near-limit", "over-limit", "burst", "reached", "logs"}
    assert all(row["ok"] for row in found["rows"])
    kept = json.loads((site.root / "deployments" / site.name / "verified.json").read_text())
    assert kept == found


def test_what_the_ladder_is_to_ask_with_is_read_before_anything_changes(site, tmp_path):
    done = site.deploy(**{"verify.known_answers": "absent.yml", "decode.env": {"SOME": "change"}})

    assert done.rc == 1, done.out
    assert "absent.yml: cannot be read: No such file or directory" in done.out
    assert "nothing was changed" in done.out
    assert site.dry().changes == 0


def test_an_instance_that_is_gone_fails_the_ladder_and_the_others_are_still_told(site):
    os.kill(site.pids()["decode-0"], signal.SIGSTOP)
    try:
        done = site.run("-y", "playbooks/verify.py", **{"verify.request_timeout_s": 3})
    finally:
        os.kill(site.pids()["decode-0"], signal.SIGCONT)

    assert done.rc == 1, done.out
    assert re.search(r"FAIL decode-0 +health", done.out), done.out
    assert re.search(r"ok +prefill-0 +metrics", done.out), done.out


def test_a_wrong_answer(mended):
    done = faulty(mended, "decode", "wrong-answer")

    failed(done, "rung pairs", "must be '", "last lines of decode-0")


def test_a_worker_that_dies_at_start(mended):
    done = faulty(mended, "prefill", "dies-at-start")

    failed(done, "prefill-0 di", "the compiled kernels do not fit", "last lines of prefill-0")


def test_a_worker_that_never_gets_ready_within_its_budget(mended):
    done = faulty(mended, "decode", "stuck-503", **{"decode.start_budget_s": 4})

    failed(done, "decode-0 did not come up within its start budget of 4 s", "/health answers 503")


def test_a_stream_without_an_end(mended):
    done = faulty(mended, "decode", "no-done")

    failed(done, "rung streaming", "without [DONE]")


def test_a_decode_that_cannot_fetch_from_prefill(mended):
    done = faulty(mended, "decode", "transfer-errors")

    failed(done, "router-0, rung pairs")
