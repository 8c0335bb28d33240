"""Periodic verification: what it finds shows in the metrics, and nothing else changes."""

import json
from types import SimpleNamespace

import pytest

from slipway.agent import periodic
from slipway.knowledge.log_patterns import matchers

GOOD = {"rung": "known-answers", "subject": "router-0", "ok": True, "seconds": 0.5, "detail": "3 of 3 right"}
WRONG = {**GOOD, "ok": False, "detail": "'17*23' -> '392'; must be '391'"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a request, and the ladder's rows under the test's control."""
    log = tmp_path / "decode-0.log"
    log.write_text("all is well\n")
    rows = [GOOD]
    monkeypatch.setattr(periodic, "asked", lambda request: [dict(row) for row in rows])
    request = {
        "deployment": 'a"b', "subjects": [], "patterns": list(matchers()), "timeout_s": 60,
        "logs": [{"name": "decode-0", "source": {"kind": "file", "path": str(log)}}],
    }  # fmt: skip
    (tmp_path / "request.json").write_text(json.dumps(request))
    return SimpleNamespace(path=tmp_path, rows=rows, log=log)


def samples(folder):
    """Metric with labels -> value, as a collector would read the file."""
    lines = (folder.path / "verify.prom").read_text().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


HERE = '{deployment="a\\"b"}'


def test_a_good_deployment_is_1_and_a_wrong_answer_is_0(folder):
    periodic.once(str(folder.path))
    assert samples(folder)[f"slipway_verify_ok{HERE}"] == 1

    folder.rows[:] = [WRONG]
    periodic.once(str(folder.path))

    found = samples(folder)
    assert found[f"slipway_verify_ok{HERE}"] == 0
    assert found['slipway_verify_rung_ok{deployment="a\\"b",subject="router-0",rung="known-answers"}'] == 0
    assert (found[f"slipway_verify_runs_total{HERE}"], found[f"slipway_verify_failures_total{HERE}"]) == (2, 1)


def test_every_metric_has_its_help_and_type_once(folder):
    periodic.once(str(folder.path))

    text = (folder.path / "verify.prom").read_text()
    for name in periodic.HELP:
        assert text.count(f"# TYPE {name} ") == text.count(f"# HELP {name} ") == 1
    assert text.endswith("\n")


def test_bad_lines_count_from_the_first_look_on_and_each_once(folder):
    folder.log.write_text("torch.OutOfMemoryError: before anybody looked\n")
    label = 'slipway_log_alarms_total{deployment="a\\"b",instance="decode-0",pattern="cuda-oom",severity="error"}'

    assert periodic.once(str(folder.path))["ok"]
    with folder.log.open("a") as file:
        file.write("torch.OutOfMemoryError: now\n")
    bad = periodic.once(str(folder.path))
    again = periodic.once(str(folder.path))

    assert (bad["ok"], again["ok"]) == (False, True)
    assert samples(folder)[label] == 1


def test_without_a_request_it_says_so_and_does_not_die(tmp_path):
    assert periodic.main([str(tmp_path)]) == 0
    assert "deploy once more" in json.loads((tmp_path / "last.json").read_text())["rows"][0]["detail"]


def test_a_ladder_that_hangs_is_ended_and_told(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(periodic.sys, "executable", "/bin/false")

    rows = periodic.asked({"subjects": [], "timeout_s": 5})

    assert (rows[0]["ok"], rows[0]["rung"]) == (False, "periodic")
