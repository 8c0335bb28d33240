"""What is said when a release cannot be put back either: what runs where, and commands that can be pasted."""

import pytest
from pyinfra import logger

from roles.remote import RemoteError
from roles.rollout import back
from roles.run import RefusedError, Run
from slipway.converge.wanted import wanted_on
from tests.slipway.plan.site import opened
from tests.slipway.rollout.test_order import SMALL

PAIR = {"prefill": ["a"], "decode": ["b"], "router": ["a"]}


@pytest.fixture
def said(tmp_path, monkeypatch):
    """A rollout that failed, whose release 3 is put back by `past`, and all that is said about it."""
    found = opened(tmp_path, PAIR, SMALL)
    plan = found.plan({})
    wanted = {host.name: wanted_on(plan, host.name) for host in plan.hosts}
    run = Run(plan, found, {}, wanted, {}, dict.fromkeys("ab"))
    config = wanted["b"].configs["decode-0"]
    run.states = {
        "a": {"live": {"prefill-0": {"role": "prefill", "config": "old", "url": "http://a:30000"}}, "routers": {}},
        "b": {"live": {"decode-0": {"role": "decode", "config": config, "url": "http://b:30000"}}, "routers": {}},
    }
    row = {"name": "decode-0.env", "path": "/opt/x y/decode-0.env", "mode": "644", "sealed": False}
    sealed = {"name": "decode-0.secret", "path": "/opt/decode-0.secret", "mode": "600", "sealed": True}

    def ask(_run, host, **_request):
        if host == "a":
            raise RemoteError("a: no answer")
        return {"files": [row, sealed], "configs": {"decode-0": "x"}}

    lines = []
    monkeypatch.setattr(back, "ask", ask)
    monkeypatch.setattr(back, "fail", lambda *_: ["b:/opt/releases/4/evidence"])
    monkeypatch.setattr(back, "evidence", lambda *_: {})
    monkeypatch.setattr(back, "reread_what_answers", lambda _run: run.notes.get("silent", {}))
    monkeypatch.setattr(logger, "error", lines.append)
    return run, lines, monkeypatch


def test_what_runs_where_and_the_commands_to_finish_by_hand(said):
    run, lines, monkeypatch = said
    monkeypatch.setattr(back, "served_before", lambda _run: 3)

    def past(_run, _number):
        raise RefusedError("release 3 cannot be put back: its build is gone")

    monkeypatch.setattr(back, "past", past)
    back.put_back(run, RemoteError("decode-0 died"))

    text = "\n".join(lines)
    for words in (
        "evidence: b:/opt/releases/4/evidence",
        "release 3 could not be put back: release 3 cannot be put back: its build is gone",
        "a: prefill-0 runs configuration old, as an earlier release has it http://a:30000",
        "as the failed release has it http://b:30000",
        "a: router-0 is DOWN",
        'make rollback DATA="release=3"',
        "# a: no answer",
        "/deployments/demo/releases/3/files/decode-0.env '/opt/x y/decode-0.env'",
        "# /opt/decode-0.secret holds secrets, which no release keeps",
        "stop slipway-demo-decode-0",
    ):
        assert words in text, text


def test_a_host_that_is_down_is_named_with_what_it_should_run_and_of_the_others_what_runs(said):
    run, lines, _ = said
    run.notes["silent"] = {"a": "the connection to a broke (no sign of life)"}
    run.states["b"]["live"]["decode-0"]["config"] = "x"

    back.by_hand(run, 3, RemoteError("the connection to a broke (no sign of life)"), "the configuration")

    text = "\n".join(lines)
    assert "every host keeps its releases" in text
    assert "a: DOES NOT ANSWER (the connection to a broke (no sign of life)); what runs there is not known" in text
    assert "the plan has prefill-0, router-0 there" in text
    assert "b: decode-0 runs configuration x, as release 3 has it http://b:30000" in text
    assert "a: prefill-0 runs" not in text
    assert "a: router-0 is DOWN" not in text
    assert 'make rollback DATA="release=3"' in text


def test_a_first_deploy_has_nothing_to_put_back(said):
    run, lines, monkeypatch = said
    monkeypatch.setattr(back, "served_before", lambda _run: None)

    back.put_back(run, RemoteError("decode-0 died"))

    assert "there is no release to put back" in lines[-1]
