"""Changing what serves: what a release that fails leaves behind, and putting an earlier one back."""

import json

import pytest

from tests.e2e.conftest import QUESTION
from tests.e2e.test_verify import faulty


@pytest.fixture
def settled(site):
    """The site as configured by default, before and after."""
    assert site.deploy().rc == 0
    yield site
    done = site.deploy()
    assert done.rc == 0, done.out
    assert site.answer(QUESTION) == "391"


def releases(site):
    """Number -> what is written about it, and the current one."""
    home = site.root / "deployments" / site.name
    about = {int(path.parent.name): json.loads(path.read_text()) for path in home.glob("releases/*/about.json")}
    return about, int((home / "current").resolve().name)


def flags(site, instance):
    """The command line of a running instance."""
    from pathlib import Path

    return Path(f"/proc/{site.pids()[instance]}/cmdline").read_text().split("\0")


def test_a_release_that_answers_wrong_is_put_back_and_kept_as_evidence(settled):
    about, before = releases(settled)
    pids = settled.pids()

    done = faulty(settled, "decode", "wrong-answer")

    assert done.rc == 1, done.out
    number = max(about) + 1
    for words in ("rung known-answers", f"putting release {before} back", f"release {before} serves again",
                  f"releases/{number}/evidence"):  # fmt: skip
        assert words in done.out, done.out
    now, current = releases(settled)
    assert current == before
    assert now[number]["state"] == "failed"
    assert "known-answers" in now[number]["reason"]
    folder = settled.root / "deployments" / settled.name / "releases" / str(number)
    assert "fired up" in (folder / "evidence/decode-0.log").read_text()
    assert any(not row["ok"] for row in json.loads((folder / "evidence/rungs.json").read_text()))
    assert "wrong-answer" in (folder / "plan.json").read_text()
    assert settled.answer(QUESTION) == "391"
    assert settled.pids()["prefill-0"] == pids["prefill-0"]
    again = settled.dry()
    assert again.changes == 0, again.out


def test_the_order_is_shown_before_and_the_outage_is_announced_and_measured(settled):
    dry = settled.dry(decode__max_running_requests=7)
    done = settled.deploy(decode__max_running_requests=7)

    for words in ("rollout in 1 step, strategy rolling", "1. decode-0 on @local: drain, restart",
                  "OUTAGE: no other decode serves"):  # fmt: skip
        assert words in dry.out, dry.out
    assert done.rc == 0, done.out
    assert "OUTAGE of decode begins" in done.out
    assert "OUTAGE of decode over: " in done.out


def test_the_release_before_is_put_back_when_asked_for(settled):
    _, before = releases(settled)
    assert settled.deploy(decode__max_running_requests=7, why="more streams").rc == 0
    about, after = releases(settled)
    assert (about[after]["why"], about[after]["state"]) == ("more streams", "proven")
    assert "7" in flags(settled, "decode-0")

    dry = settled.run("--dry", "playbooks/rollback.py")
    done = settled.run("-y", "playbooks/rollback.py")

    assert f"putting release {before} back" in dry.out
    assert "drain, restart" in dry.out
    assert done.rc == 0, done.out
    assert "--max-running-requests" not in flags(settled, "decode-0")
    assert releases(settled)[1] == before
    assert settled.answer(QUESTION) == "391"
    history = settled.run("-y", "playbooks/releases.py").out
    assert f"{before} (current)" in history
    assert "more streams" in history
    again = settled.run("-y", "playbooks/rollback.py", **{"release": after})
    assert again.rc == 0, again.out
    assert "7" in flags(settled, "decode-0")


@pytest.mark.parametrize(("number", "words"), [(999, "there is no such release; those that served are 1"),
                                               ("x", "there is no such release")])  # fmt: skip
def test_an_unknown_release_is_refused(settled, number, words):
    pids = settled.pids()

    done = settled.run("-y", "playbooks/rollback.py", release=number)

    assert done.rc != 0
    assert words in done.out, done.out
    assert "Traceback" not in done.out
    assert settled.pids() == pids
