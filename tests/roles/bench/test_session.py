"""A label from its start to its results, measured from the controller against a simulated engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from roles.bench.place import OnController
from roles.bench.session import Session
from roles.remote import RemoteError
from slipway.bench.errors import BenchError
from tests.slipway.agent.load.conftest import engine
from tests.slipway.agent.simulator.harness import ROOT
from tests.slipway.agent.test_bench import sweep

__all__ = ["engine"]
SAMPLERS = SimpleNamespace(gpus={})
ASKING = SimpleNamespace(key="sk-secret", ca=None)
RECORD = {
    "plan": "abc", "engine": {}, "checkpoint": {}, "patches": [], "hosts": {}, "router": {}, "client": {},
    "gpus": {}, "release": 3,
}  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "bench"


def request_of(tmp_path: Path, port: int, **more) -> dict:
    folder = sweep(tmp_path / f"asked{len(list(tmp_path.iterdir()))}", port, (1, 2), (2, 4), **more)
    return json.loads((folder / "sweep.json").read_text())


def session(results: Path, label: str = "one") -> Session:
    return Session(OnController(results, "demo"), results, label, 60, SAMPLERS)


def begun(results: Path, request: dict, repeats: int | None = None, **record) -> Session:
    one = session(results, request["label"])
    assert not one.runs()
    one.start(one.wanted(repeats), request, {**RECORD, **record}, "{}", ASKING)
    return one


def test_a_sweep_whose_deployment_somebody_else_took_is_stopped(engine, results, tmp_path):
    one = begun(results, request_of(tmp_path, engine().port))

    def lost() -> None:
        raise RemoteError("the lock is lost: on h1 it is now held by bob")

    with pytest.raises(RemoteError, match="now held by bob; the sweep was stopped in the cell that it was in"):
        one.watch(lost)

    assert not session(results).runs()


def test_a_label_is_measured_watched_and_kept_and_the_key_is_not(engine, results, tmp_path):
    one = begun(results, request_of(tmp_path, engine().port))

    assert one.watch()
    assert one.finish()

    folder = results / "one"
    assert not (folder / "key").exists()
    assert "sk-secret" not in "".join(path.read_text() for path in folder.iterdir())
    assert len((folder / "results.jsonl").read_text().splitlines()) == 2
    run = json.loads((folder / "provenance.json").read_text())["runs"][0]
    assert (run["repeat"], run["release"], run["host"]) == (1, 3, "controller")
    assert run["started"] <= run["ended"]


def test_repeats_are_appended_until_there_are_as_many_as_asked_for(engine, results, tmp_path):
    request = request_of(tmp_path, engine().port)
    begun(results, request).watch()

    assert session(results).wanted(1) is None
    with pytest.raises(BenchError, match="is measured already"):
        session(results).wanted(None)
    assert begun(results, request, repeats=3).watch()

    lines = [json.loads(line) for line in (results / "one/results.jsonl").read_text().splitlines()]
    assert [line["repeat"] for line in lines] == [1, 1, 2, 2, 3, 3]
    assert session(results).wanted(3) is None


def test_what_was_measured_while_nobody_watched_is_fetched_and_not_refused(engine, results, tmp_path):
    begun(results, request_of(tmp_path, engine().port)).watch()
    elsewhere = Session(OnController(results, "demo"), tmp_path / "mine", "one", 60, SAMPLERS)

    assert elsewhere.wanted(None) is None
    assert elsewhere.finish()
    assert len((tmp_path / "mine/one/results.jsonl").read_text().splitlines()) == 2


def test_something_else_is_no_repeat(engine, results, tmp_path):
    port = engine().port
    begun(results, request_of(tmp_path, port)).watch()

    with pytest.raises(BenchError, match="What differs: plan: abc then, def now"):
        begun(results, request_of(tmp_path, port), repeats=2, plan="def")
    with pytest.raises(BenchError, match=r"What differs: sweep\.api: chat then, completions now"):
        begun(results, request_of(tmp_path, port, api="completions"), repeats=2)


def test_a_sweep_that_was_killed_is_gone_on_with_and_a_running_one_is_watched(engine, results, tmp_path):
    request = request_of(tmp_path, engine(decode_ms=100).port)
    begun(results, request)
    watching = session(results)

    assert watching.runs()
    place = OnController(results, "demo")
    place.ask("job", "stop", place.jobs)
    killed = session(results)
    assert not killed.runs()
    assert killed.wanted(None) == 1
    killed.start(1, request, dict(RECORD), "{}", ASKING)
    assert killed.watch()
    assert killed.finish()


def test_two_labels_do_not_measure_each_other(results):
    place = OnController(results, "demo")
    words = [sys.executable, "-m", "slipway.agent.job", "start", place.jobs, "other/1", "sleep", "60"]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    try:
        with pytest.raises(BenchError, match="other is being measured on controller"):
            session(results).runs()
    finally:
        place.ask("job", "stop", place.jobs)
