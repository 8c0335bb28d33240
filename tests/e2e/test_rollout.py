"""Changing what serves: what a release that fails leaves behind, and putting an earlier one back."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.asking import Asking
from tests.e2e.conftest import QUESTION
from tests.e2e.site import BIN, CHECKOUT, port_here
from tests.e2e.test_verify import faulty

SLOWER = json.dumps({"decode_ms": 20})  # so that requests are always under way
ASKED = {"worker.env": {"SLIPWAY_SIM_TIMING": SLOWER}}


@pytest.fixture
def settled(site):
    """The site; as configured by default afterwards."""
    yield site
    done = site.deploy()
    assert done.rc == 0, done.out
    assert site.answer(QUESTION) == "391"


def home(site):
    return site.root / "deployments" / site.name


def releases(site):
    """Number -> what is written about it, and the current one."""
    about = {int(path.parent.name): json.loads(path.read_text()) for path in home(site).glob("releases/*/about.json")}
    return about, int((home(site) / "current").resolve().name)


def flags(site, instance):
    """The command line of a running instance."""
    return Path(f"/proc/{site.pids()[instance]}/cmdline").read_text().split("\0")


def has(done, *words):
    for word in words:
        assert word in done.out, done.out


def test_a_release_that_answers_wrong_is_put_back_and_kept_as_evidence(site):
    about, before = releases(site)
    pids = site.pids()

    done = faulty(site, "decode", "wrong-answer")

    assert done.rc == 1, done.out
    number = max(about) + 1
    has(done, "router-0, rung pairs", f"putting release {before} back", f"release {before} serves again",
        f"releases/{number}/evidence")  # fmt: skip
    last = done.out.partition("No hosts remaining!")[2].splitlines()
    assert last[2] == f"Deployment {site.name}: NOT changed as asked.", done.out
    assert last[3].startswith("  why: router-0, rung pairs: 1 of 1 pairs do not work")
    assert last[4] == f"  now: release {before} serves again, and every rung of its ladder holds"
    now, current = releases(site)
    assert (current, now[number]["state"]) == (before, "failed")
    assert "rung pairs" in now[number]["reason"]
    folder = home(site) / "releases" / str(number)
    assert "fired up" in (folder / "evidence/decode-0.log").read_text()
    assert any(not row["ok"] for row in json.loads((folder / "evidence/rungs.json").read_text()))
    assert "wrong-answer" in (folder / "plan.json").read_text()
    assert site.answer(QUESTION) == "391"
    assert site.pids()["prefill-0"] == pids["prefill-0"]
    again = site.dry()
    assert again.changes == 0, again.out
    refused = site.run("-y", "playbooks/rollback.py", release=number)
    assert refused.rc != 0
    has(refused, f"release {number} failed and never served", "nothing was changed")


def test_a_flag_changes_in_the_order_that_was_shown_and_the_release_before_is_put_back(settled):
    _, before = releases(settled)
    dry = settled.dry(decode__max_running_requests=7)
    has(dry, "rollout in 1 step, strategy rolling", "1. decode-0 on @local: drain, restart",
        "OUTAGE: no other decode serves")  # fmt: skip

    done = settled.deploy(decode__max_running_requests=7, why="more streams")

    assert done.rc == 0, done.out
    has(done, "OUTAGE of decode begins", "OUTAGE of decode over: ")
    about, after = releases(settled)
    assert (about[after]["why"], about[after]["state"]) == ("more streams", "proven")
    assert "7" in flags(settled, "decode-0")
    words = [BIN / "slipway", "diff", str(before), str(after), *settled.overrides({})]
    lines = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, timeout=120).stdout.splitlines()
    assert "~ instance decode-0" in lines
    assert any("max-running-requests 7" in line for line in lines)
    dry = settled.run("--dry", "playbooks/rollback.py")
    has(dry, f"putting release {before} back", "drain, restart")
    back = settled.run("-y", "playbooks/rollback.py")
    assert back.rc == 0, back.out
    assert "--max-running-requests" not in flags(settled, "decode-0")
    assert releases(settled)[1] == before
    assert settled.answer(QUESTION) == "391"
    has(settled.run("-y", "playbooks/releases.py"), f"{before} (current)", "more streams")
    unknown = settled.run("-y", "playbooks/rollback.py", release=999)
    assert unknown.rc != 0
    has(unknown, "release=999: there is no such release", "nothing was changed")
    assert "Traceback" not in unknown.out


@pytest.mark.full
def test_workers_come_and_go_without_a_lost_request_or_a_restart_of_the_router(settled):
    two = {**ASKED, "decode.instances": 2}
    assert settled.deploy(**ASKED).rc == 0
    router = settled.pids()["router-0"]

    with Asking(settled.ports["router.port"]) as asking:
        more = settled.deploy(**two)
        changed = settled.deploy(**two, **{"decode.max_running_requests": 7})
        fewer = settled.deploy(**ASKED, **{"decode.max_running_requests": 7})

    for done in (more, changed, fewer):
        assert done.rc == 0, done.out
        assert "OUTAGE" not in done.out, done.out
    has(changed, "step 1 of 2: restart decode-0", "step 2 of 2: restart decode-1")
    has(fewer, "step 1 of 1: remove decode-1")
    assert asking.lost == []
    assert asking.asked > 20
    assert settled.pids()["router-0"] == router
    assert set(settled.pids()) == {"prefill-0", "decode-0", "router-0"}


@pytest.mark.full
def test_a_second_set_serves_while_a_single_pair_is_replaced(settled):
    green = {"rollout.strategy": "blue-green", "rollout.green_port": port_here(21850)}
    changed = {"worker.env": {**ASKED["worker.env"], "CHANGED": "1"}}
    assert settled.deploy(**ASKED).rc == 0
    before = settled.pids()

    with Asking(settled.ports["router.port"]) as asking:
        done = settled.deploy(**green, **changed)

    assert done.rc == 0, done.out
    has(done, "step 1 of 3: green prefill-0-green, decode-0-green, router-0-green", "router-0-green known-answers",
        "step 2 of 3: restart prefill-0, decode-0", "step 3 of 3: remove")  # fmt: skip
    assert "OUTAGE" not in done.out
    assert asking.lost == []
    assert asking.asked > 10
    after = settled.pids()
    assert set(after) == set(before)
    assert {name for name in after if after[name] != before[name]} == {"prefill-0", "decode-0"}
    assert not list((home(settled) / "services").glob("*green*"))
    wrong = faulty(settled, "worker", "wrong-answer", **green)
    assert wrong.rc == 1, wrong.out
    has(wrong, "router-0-green, rung known-answers", "serves again")
    assert settled.pids() == after
