"""The lock over several hosts: folders here stand in for hosts, the programs are the real ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roles import lock
from roles.remote import Output, RemoteError
from roles.run import RefusedError
from slipway.agent.job import started
from slipway.agent.process import CAMPAIGN, process
from slipway.config.deployment import RolloutSettings

NAMES = ("h1", "h2", "h3")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def execute(_host: str, words: list[str], stdin: str | None = None) -> Output:
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, input=stdin)
        return Output(done.returncode == 0, done.stdout.splitlines(), [])

    monkeypatch.setattr(lock, "execute", execute)
    monkeypatch.setattr(lock, "asked", lambda _name: None)
    paths = {name: SimpleNamespace(paths={"deployment": str(tmp_path / name)}) for name in NAMES}
    plan = SimpleNamespace(deployment="demo", host=lambda name: paths[name])
    fields = dict.fromkeys(RolloutSettings.__dataclass_fields__, 0) | {"lock_expires_s": 120}
    opened = SimpleNamespace(deployment=SimpleNamespace(hosts=[SimpleNamespace(rollout=SimpleNamespace(**fields))]))
    return SimpleNamespace(hosts=dict.fromkeys(NAMES, ""), plan=plan, opened=opened, notes={})


def held(ident: str, **more: Any) -> lock.Lock:
    return lock.Lock({"id": ident, "who": "ann", "from": "desk", "what": "deploy", "since": "now", **process(), **more})


def locks(tmp_path: Path) -> dict[str, str]:
    found = {name: tmp_path / name / "lock" for name in NAMES}
    return {name: json.loads(path.read_text())["id"] for name, path in found.items() if path.exists()}


def test_it_is_had_on_all_hosts_or_on_none(run: Any, tmp_path: Path) -> None:
    one, other = held("one"), held("other")
    other.holder["boot"] = "of another machine"
    assert lock._take(run, "h3", other, True) == ""

    refusal = lock._take_all(run, one, True)

    assert "demo is being changed by ann@desk pid" in refusal
    assert "lock on h3" in refusal
    assert "--data break_lock=other" in refusal
    assert locks(tmp_path) == {"h3": "other"}
    assert not (tmp_path / "h1").exists()  # nothing stays of the attempt
    lock._give_back(run, other)
    assert lock._take_all(run, one, True) == ""
    assert locks(tmp_path) == dict.fromkeys(NAMES, "one")


def test_a_run_whose_process_is_gone_holds_nobody_up_and_one_that_lives_does(run: Any, tmp_path: Path) -> None:
    gone = held("gone", started="1")
    assert lock._take_all(run, gone, True) == ""
    assert lock._take_all(run, held("next"), True) == ""
    assert locks(tmp_path) == dict.fromkeys(NAMES, "next")

    with pytest.raises(RefusedError, match="nothing was changed"):
        lock._wait(run, held("third"), True)


def test_a_run_that_lost_its_lock_notices_before_it_changes_more(run: Any, tmp_path: Path) -> None:
    mine = run.notes["lock"] = held("mine")
    assert lock._take_all(run, mine, True) == ""
    lock.still_held(run)
    (tmp_path / "h2" / "lock").write_text(json.dumps({"id": "other", "who": "bob", "what": "deploy"}))
    mine.beaten = -100.0

    with pytest.raises(RemoteError, match="the lock is lost: on h2 it is now held by bob"):
        lock.still_held(run)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process whose step this one is."""
    process_of = subprocess.Popen(["sleep", "600"])
    mark = {**process(), "pid": process_of.pid, "started": started(process_of.pid)}
    monkeypatch.setenv(CAMPAIGN, json.dumps({"id": "camp", "what": "experiment nightly", "since": "noon", **mark}))
    yield process_of
    process_of.kill()
    process_of.wait()


def step(run: Any, what: str) -> lock.Lock:
    """A step of the campaign that has the lock."""
    one = lock.Lock(lock._holder(what))
    assert lock._take_all(run, one, True) == ""
    one.beaten = 1.0
    return one


def test_between_two_steps_the_lock_is_the_campaign_s_and_nobody_comes_in(
    run: Any, driver: Any, tmp_path: Path
) -> None:
    first = step(run, "deploy")
    assert "(experiment nightly: deploy since noon)" in lock._take(run, "h1", held("other"), True)

    lock._give_back(run, first)

    refusal = lock._take(run, "h1", held("other"), True)
    assert f"pid {driver.pid} (experiment nightly since noon)" in refusal
    assert locks(tmp_path) == dict.fromkeys(NAMES, "camp")
    step(run, "bench")
    assert "(experiment nightly: bench since noon)" in lock._take(run, "h2", held("other"), True)


def test_a_campaign_whose_driver_is_gone_holds_nobody_up(run: Any, driver: Any, tmp_path: Path) -> None:
    lock._give_back(run, step(run, "deploy"))
    last = step(run, "bench")
    driver.kill()
    driver.wait()
    assert "(experiment nightly: bench since noon)" in lock._take(run, "h1", held("other"), True)  # the step lives

    lock._give_back(run, last)

    assert locks(tmp_path) == {}


def test_a_lock_that_a_dead_driver_left_between_two_steps_is_taken_over(run: Any, driver: Any, tmp_path: Path) -> None:
    lock._give_back(run, step(run, "deploy"))
    driver.kill()
    driver.wait()

    assert lock._take_all(run, held("other"), True) == ""
    assert locks(tmp_path) == dict.fromkeys(NAMES, "other")


def test_a_step_that_is_interrupted_gives_the_lock_back(run: Any, driver: Any, tmp_path: Path) -> None:
    one = step(run, "deploy")
    run.notes["interrupted"] = "Ctrl-C"

    lock._give_back(run, one)

    assert driver.poll() is None
    assert locks(tmp_path) == {}


def test_the_end_of_a_campaign_gives_its_lock_back_and_says_who_has_another(
    run: Any, driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(lock.logger, "info", said.append)
    monkeypatch.setattr(lock, "option", lambda _name: None)
    lock._give_back(run, step(run, "deploy"))
    (tmp_path / "h2" / "lock").write_text(json.dumps({"id": "other", "who": "bob", "what": "deploy"}))

    lock.unlock(run)

    assert driver.poll() is None
    assert locks(tmp_path) == {"h2": "other"}
    assert said == [
        "    h1: no lock camp", "    h2: it has not the lock camp; it is held by bob (deploy), id other",
        "    h3: no lock camp",
    ]  # fmt: skip


def test_what_a_host_watches_over_outlives_the_end_of_a_step(run: Any, driver: Any, tmp_path: Path) -> None:
    """A step that ends with a host cut off leaves the others armed; handing the lock on must not disarm them."""
    one = step(run, "deploy")
    armed = tmp_path / "h1" / "putback" / "armed.json"
    armed.parent.mkdir()
    armed.write_text("{}")

    lock._give_back(run, one)

    assert driver.poll() is None
    assert armed.exists()
