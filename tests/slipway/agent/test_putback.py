"""When a host puts back by itself what a rollout was changing there, and when it does not."""

import json
import os
import threading
import time

import pytest

from slipway.agent import lock, putback
from slipway.agent.verify.client import asked_at
from tests.slipway.agent.verify.scripted import self_signed, serving


@pytest.fixture
def home(tmp_path):
    """A deployment whose current release has one instance, decode-0."""
    files = tmp_path / "releases" / "1" / "files"
    files.mkdir(parents=True)
    (tmp_path / "current").symlink_to("releases/1")
    (files.parent / "plan.json").write_text(json.dumps({"instances": [{"name": "decode-0"}]}))
    (files / "decode-0.env").write_text("A=1\nSLIPWAY_CONFIG=0123456789abcdef\n")
    (files / "decode-0.service").write_text("as it was")
    (files / "decode-0.secret.1").write_text("never read")
    rows = [{"name": "decode-0.env", "path": "/services/decode-0.env", "sealed": False},
            {"name": "decode-0.service", "path": f"{tmp_path}/decode-0.service", "sealed": False},
            {"name": "decode-0.secret.1", "path": f"{tmp_path}/decode-0.secret", "sealed": True}]  # fmt: skip
    listed = [{"mode": "644", "user": "", **row} for row in rows]
    (files.parent / "files.json").write_text(json.dumps({"files": listed}))
    (tmp_path / "decode-0.service").write_text("as it is to be")
    return tmp_path


def request(home, **more):
    paths = (f"{home}/decode-0.service", f"{home}/decode-0.secret")
    own = {"name": "decode-0", "files": [{"path": path, "mode": "644", "user": ""} for path in paths]}
    return {"folder": str(home), "deployment": "demo", "lock": "one", "confirm_s": 1, "watcher": ["true"],
            "instances": [own], "reload": [], "routers": [], "workers": [], **more}  # fmt: skip


@pytest.fixture
def acted(monkeypatch):
    """What would be put back; the rest of it needs a host with services."""
    calls = []
    monkeypatch.setattr(putback, "POLL_S", 0.05)
    monkeypatch.setattr(putback, "put_back", lambda folder, request: calls.append(request) or iter(["done"]))
    return calls


def held(home, ident="one"):
    lock.take({"folder": str(home), "holder": {"id": ident}, "over": "one"})


def test_it_acts_when_nothing_is_heard_and_says_so(home, acted):
    held(home)
    assert putback.arm(request(home)) == {"armed": ["decode-0"]}

    putback.watch(str(home))

    assert len(acted) == 1
    rows = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
    assert [(row["who"], row["step"], row["result"]) for row in rows] == [
        ("the host itself", "put back decode-0", "begun"),
        ("the host itself", "put back decode-0", "ok"),
    ]
    assert putback.confirm(str(home)) == {"back": ["decode-0"], "detail": "done"}


def test_it_leaves_what_was_confirmed(home, acted):
    held(home)
    putback.arm(request(home))
    watcher = threading.Thread(target=putback.watch, args=[str(home)])
    watcher.start()
    time.sleep(0.2)

    assert putback.confirm(str(home)) == {"back": []}

    watcher.join(timeout=10)
    assert not watcher.is_alive()
    assert acted == []


def test_it_waits_as_long_as_signs_of_life_come_and_ends_when_another_run_takes_over(home, acted):
    held(home)
    putback.arm(request(home))
    watcher = threading.Thread(target=putback.watch, args=[str(home)])
    watcher.start()
    for _ in range(10):
        time.sleep(0.25)
        assert lock.beat({"folder": str(home), "id": "one"}) == {"state": "taken"}
    assert watcher.is_alive()

    held(home, "other")

    watcher.join(timeout=10)
    assert not watcher.is_alive()
    assert acted == []


def test_a_lock_given_back_without_a_word_is_silence_too(home, acted):
    held(home)
    putback.arm(request(home))
    lock.release({"folder": str(home), "id": "one"})

    putback.watch(str(home))

    assert len(acted) == 1


def test_what_no_release_had_is_left_alone(home, acted):
    (home / "current").unlink()
    held(home)

    assert putback.arm(request(home)) == {"armed": []}
    putback.watch(str(home))

    assert acted == []


def test_another_run_waits_while_the_host_puts_back(home):
    me = {"pid": os.getpid(), "started": putback.job.started(os.getpid())}
    putback.write(putback.place(str(home), "acting"), me)

    found = lock.take({"folder": str(home), "holder": {"id": "other"}})

    assert (found["state"], found["holder"]["who"]) == ("held", "the host itself")
    putback.write(putback.place(str(home), "acting"), {**me, "started": "1"})  # of before a reboot
    assert lock.take({"folder": str(home), "holder": {"id": "other"}})["state"] == "taken"


def test_files_come_back_as_the_current_release_has_them(home):
    [one] = request(home)["instances"]

    putback.restore(str(home), one)

    assert (home / "decode-0.service").read_text() == "as it was"
    assert not (home / "decode-0.secret").exists()
    assert putback.config_of(str(home), one) == "0123456789abcdef"


def test_a_watcher_that_does_not_start_is_an_error(home):
    answer = putback.arm(request(home, watcher=["sh", "-c", "echo no bus; exit 1"]))

    assert answer == {"armed": [], "error": "no bus"}
    assert not (home / "putback" / "armed.json").exists()


def test_one_that_speaks_tls_is_asked_by_https_and_its_certificate_is_checked(tmp_path):
    certificate = self_signed(tmp_path)
    with serving(lambda *_: (200, {}), certificate) as url:
        assert asked_at(url.replace("https", "http"), ["python", "--ssl-certfile=/its.pem"]) == url
        assert putback.well(url, certificate.with_suffix(".crt").read_text())
        assert not putback.well(url, None)
    assert asked_at("http://10.0.0.1:30000", ["python"]) == "http://10.0.0.1:30000"
