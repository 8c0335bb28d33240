"""The lock over several hosts: folders here stand in for hosts, the programs are the real ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roles import lock
from roles.origin import process
from roles.remote import Output, RemoteError
from roles.run import RefusedError
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
