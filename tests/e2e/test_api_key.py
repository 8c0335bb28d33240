"""A deployment whose router and workers ask for an API key: the key reaches them, and is to be seen nowhere else."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.e2e.asking import Asking
from tests.e2e.conftest import QUESTION
from tests.e2e.site import CHECKOUT, Site, port_here

pytestmark = pytest.mark.full  # eight deploys and more; without one, tests/slipway/test_keyed.py shows the core
KEY = "sk-e2e-Geheim-4711"
ENV = {"E2E_API_KEY": KEY}
SWEEP = {"shapes": [[16, 4]], "concurrency": [2], "prompts": 2, "warmups": 1}


class Watching:
    """With `with`: every command line of this machine that ever held the key, but for those that look for it."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watching:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.stop.wait(0.03):
            lines = map(command_line, filter(str.isdigit, os.listdir("/proc")))
            self.seen.update(line for line in lines if KEY in line)


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """Deployed with the key of workers from the environment and that of the router from a file."""
    folder = tmp_path_factory.mktemp("k")
    (folder / "key").write_text(f"{KEY}\n")
    places = {"worker.api_key": {"env": "E2E_API_KEY"}, "router.api_key": {"file": str(folder / "key")}}
    site = Site("key", folder / "r", 21600, {"engine.kind": "simulator", "verify.every_s": 2, **places})
    with Watching() as site.watching:
        site.first = site.run("-y", "deploy.py", env=ENV)
    yield site
    gone = site.run("-y", "playbooks/destroy.py", env=ENV)
    assert gone.rc == 0, gone.out
    assert not site.root.exists()
    for results in ("bench", "profile"):
        shutil.rmtree(CHECKOUT / results / site.name, ignore_errors=True)


def asked(port: int, path: str, key: str = "", body: object = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    head = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, head)
    with connection.getresponse() as response:
        text = response.read().decode()
    connection.close()
    return response.status, text


def chat(port: int, key: str = "") -> tuple[int, str]:
    body = {"model": "tiny", "temperature": 0, "max_tokens": 8, "messages": [{"role": "user", "content": QUESTION}]}
    return asked(port, "/v1/chat/completions", key, body)


def holding_the_key(root: Path) -> dict[str, str]:
    """Files below ROOT with the key in them -> who may read them."""
    found = subprocess.run(["grep", "-rlF", KEY, str(root)], capture_output=True, text=True, check=False).stdout
    return {Path(path).name: f"{os.stat(path).st_mode & 0o777:o}" for path in found.split()}


def test_the_whole_ladder_is_climbed_with_the_key_and_nobody_else_sees_it(keyed):
    assert keyed.first.rc == 0, keyed.first.out
    router, decode = keyed.ports["router.port"], keyed.ports["decode.port"]
    assert [chat(port)[0] for port in (router, decode)] == [401, 401]
    assert [chat(port, "another")[0] for port in (router, decode)] == [401, 401]
    status, text = chat(router, KEY)
    assert (status, "391" in text) == (200, True), text

    assert keyed.watching.seen == set()
    assert KEY not in keyed.first.out
    sealed = {"prefill-0.secret": "600", "decode-0.secret": "600", "router-0.secret": "600", "request.json": "600"}
    assert holding_the_key(keyed.root) == sealed
    for path in ("/get_server_info", "/server_info", "/get_model_info", "/v1/models", "/workers", "/health"):
        assert KEY not in asked(router, path)[1], path
    log = (keyed.root / "deployments" / keyed.name / "logs/decode-0.log").read_text()
    assert "api_key='***'" in log


def test_what_follows_a_deploy_has_the_key_too(keyed):
    assert keyed.first.rc == 0, keyed.first.out
    before = keyed.pids()
    with Watching() as watching:
        same = keyed.run("-y", "deploy.py", env=ENV)
        sweep = {"label": keyed.name, "bench.sweep": "small", "bench.sweeps.small": SWEEP}
        measured = keyed.run("-y", "playbooks/bench.py", env=ENV, **sweep)
        profiled = keyed.run("-y", "playbooks/profile.py", env=ENV, label=keyed.name, seconds=1, streams=2)
        changed = keyed.run("-y", "deploy.py", env=ENV, **{"decode.env": {"SOME": "change"}})
        shown = keyed.run("-y", "playbooks/status.py", env=ENV, **{"decode.env": {"SOME": "change"}})

    done = (same, measured, profiled, changed, shown)
    assert [one.rc for one in done] == [0] * len(done), "\n".join(one.out for one in done)
    assert same.changes == 0
    assert {name for name, pid in keyed.pids().items() if pid != before[name]} == {"decode-0"}
    assert "periodic verification" in shown.out
    assert "NOT WELL" not in shown.out
    assert "a deploy would make 0 change(s)" in shown.out
    assert watching.seen == set()
    assert not any(KEY in one.out for one in done)
    assert set(holding_the_key(keyed.root).values()) == {"600"}
    for folder in ("bench", "profile"):
        assert list((CHECKOUT / folder / keyed.name).iterdir())
        assert holding_the_key(CHECKOUT / folder / keyed.name) == {}


def test_who_has_no_key_can_look_and_is_told_what_was_not_compared(keyed):
    shown = keyed.run("-y", "playbooks/status.py", **{"decode.env": {"SOME": "change"}})

    assert shown.rc == 0, shown.out
    assert "a deploy would make 0 change(s)" in shown.out
    assert "secrets are not compared: api_key: the environment variable E2E_API_KEY is not set here" in shown.out


@pytest.mark.parametrize(
    ("env", "more", "words"),
    [
        ({}, {}, "api_key: the environment variable E2E_API_KEY is not set here; export it"),
        ({"E2E_API_KEY": "other"}, {}, "api_key: prefill-0 asks for another key than the router sends"),
        ({**ENV, "W": "wrong"}, {"verify.api_key": {"env": "W"}}, "it does not take the API key of verify.api_key"),
    ],
)
def test_a_key_that_is_missing_or_wrong_is_told_before_anything_is_touched(keyed, env, more, words):
    before = keyed.pids()
    done = keyed.run("-y", "playbooks/verify.py" if more else "deploy.py", env=env, **more)

    assert done.rc == 1, done.out
    assert words in done.out, done.out
    assert "Traceback" not in done.out
    assert not {KEY, "other", "wrong"} & set(done.out.split())
    assert keyed.pids() == before


def test_what_a_dead_controller_leaves_is_put_back_with_the_key(keyed):
    assert keyed.first.rc == 0, keyed.first.out
    before = keyed.pids()
    with Watching() as watching:
        keyed.hit(": start decode-0", env=ENV, **{"rollout.confirm_s": 10, "decode.env": {"NEVER": "proven"}})

        assert keyed.put_back() == ["ok"]

    status, text = chat(keyed.ports["router.port"], KEY)
    assert (status, "391" in text) == (200, True), text
    assert chat(keyed.ports["decode.port"])[0] == 401
    assert {name for name, pid in keyed.pids().items() if pid != before[name]} == {"decode-0"}
    assert b"NEVER=" not in Path(f"/proc/{keyed.pids()['decode-0']}/environ").read_bytes()
    assert watching.seen == set()
    assert set(holding_the_key(keyed.root).values()) == {"600"}


def test_a_second_set_that_stands_in_has_the_key_too(keyed):
    assert keyed.first.rc == 0, keyed.first.out
    before, green = keyed.pids(), {"rollout.strategy": "blue-green", "rollout.green_port": port_here(21690)}
    with Watching() as watching, Asking(keyed.ports["router.port"], key=KEY) as asking:
        done = keyed.run("-y", "deploy.py", env=ENV, **green, **{"worker.env": {"ANOTHER": "change"}})

    assert done.rc == 0, done.out
    assert "router-0-green known-answers" in done.out
    assert "OUTAGE" not in done.out
    assert (asking.lost, asking.asked > 10) == ([], True)
    assert watching.seen == set()
    assert KEY not in done.out
    assert {name for name, pid in keyed.pids().items() if pid != before[name]} == {"prefill-0", "decode-0"}
    assert set(holding_the_key(keyed.root).values()) == {"600"}
