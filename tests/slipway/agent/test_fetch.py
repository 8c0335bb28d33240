"""Fetching from the Hub: what an operator sees when it goes well, and for each way in which it does not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slipway.agent import fetch as program
from slipway.agent import manifest
from slipway.agent.fetch import Fetch, FetchError
from slipway.agent.fetch_http import TransferError
from slipway.agent.fetch_hub import Client, HubError
from slipway.agent.recheck import seal
from slipway.agent.state import look
from tests.hub.checkpoint import write_checkpoint
from tests.hub.repository import Repository
from tests.hub.server import Hub
from tests.slipway.agent.verify.scripted import serving

ROOT = Path(__file__).resolve().parents[3]
SHARD = "model-00002-of-00003.safetensors"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("hub") / "model")


@pytest.fixture
def hub(source):
    with Hub([Repository("org/model", source)]) as server:
        yield server


@pytest.fixture
def mirror():
    """An endpoint that answers every question with what it is told to."""
    answers = []
    with serving(lambda *_: (200, answers[0])) as url:
        yield url, answers


@pytest.mark.parametrize("listed", [[{"type": "file", "path": "a"}], ["a"], {"files": []}, [{"path": "a", "lfs": {}}]])
def test_a_mirror_that_lists_files_in_a_form_of_its_own_is_told_in_a_sentence(mirror, listed):
    url, answers = mirror
    answers.append(listed)

    with pytest.raises(HubError) as failed:
        Client(url, "org/model").files("0" * 40)

    assert f"{url} lists the files of org/model in a form that is not the Hub's" in str(failed.value)
    assert "correct model.endpoint" in str(failed.value)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Both sleep a second and more before each retry; the order of things stays, the seconds go."""
    slept = []
    monkeypatch.setattr(Fetch, "pause", lambda self, seconds: slept.append(seconds))
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", slept.append)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", slept.append)
    return slept


def request_for(hub, target, name="org/model", **other):
    repository = hub.repositories[name]
    commit = repository.branches["main"]
    files = {path: [entry.size, ("sha256:" if entry.sha256 else "git:") + entry.etag]
             for path, entry in repository.commits[commit].items()}  # fmt: skip
    made = {"path": str(target), "repo": name, "commit": commit, "endpoint": hub.url, "files": files, "workers": 2}
    return {**made, "timeout_s": 0.5, "patience_s": 5.0, "every_s": 0.05, **other}


def fetch(hub, target, **other):
    Fetch(request_for(hub, target, **other)).run()


def is_whole(target, source):
    assert manifest.check(str(target)) == []
    for path in source.iterdir():
        assert (target / path.name).read_bytes() == path.read_bytes()


def test_every_file_is_fetched_proven_and_listed(hub, source, tmp_path, capsys):
    target = tmp_path / "checkpoint"
    fetch(hub, target)
    is_whole(target, source)
    assert "9 files" in capsys.readouterr().out
    assert look(str(target))["kind"] == "partial"  # until the controller has inspected it
    assert seal(str(target)) == {"kind": "complete", "problems": [], "files": 9}


def test_a_second_run_fetches_nothing(hub, tmp_path):
    fetch(hub, tmp_path / "checkpoint")
    before = hub.sent
    fetch(hub, tmp_path / "checkpoint")
    assert hub.sent == before


def test_a_cut_connection_goes_on_where_it_ended(hub, source, tmp_path):
    hub.fault("cut", SHARD, at=50_000)
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)
    ranges = [row[2] for row in hub.asked("/store/") if row[2]]
    assert ranges == ["bytes=50000-"]


def test_a_transfer_that_ends_early_without_a_word_is_completed(hub, source, tmp_path, capsys):
    hub.fault("truncated", SHARD, at=50_000)
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)


def test_wrong_bytes_of_the_right_size_are_kept_and_fetched_again(hub, source, tmp_path, capsys):
    hub.fault("wrong", SHARD)
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)
    kept = list((tmp_path / "quarantine" / "checkpoint").iterdir())
    assert [path.name.rpartition(".")[0] for path in kept] == [SHARD]
    assert f"{SHARD}: sha256 " in capsys.readouterr().out


def test_a_small_file_is_proven_by_its_git_hash(hub, source, tmp_path):
    hub.fault("wrong", "/config.json")
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)


def test_bytes_that_stay_wrong_are_told(hub, tmp_path):
    hub.fault("wrong", SHARD, times=2)
    with pytest.raises(FetchError, match=f"{SHARD}: twice the bytes were not those that the Hub lists"):
        fetch(hub, tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint" / SHARD).exists()


def test_a_stalled_transfer_is_taken_up_again(hub, source, tmp_path):
    hub.fault("stalled", SHARD, at=1000, seconds=3)
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)


def test_a_server_that_only_stalls_is_named(hub, tmp_path):
    hub.fault("stalled", SHARD, times=99, at=0)
    with pytest.raises(TransferError, match="sent nothing for too long"):
        fetch(hub, tmp_path / "checkpoint", timeout_s=0.05, patience_s=0.0)


def test_too_many_requests_are_waited_out_as_told(hub, source, tmp_path, no_waiting):
    hub.fault("busy", SHARD, seconds=7)
    hub.fault("busy", "/store/", seconds=7)
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)
    assert max(no_waiting) >= 7


def test_an_error_of_the_hub_passes(hub, source, tmp_path, capsys):
    hub.fault("broken", "/resolve/")
    hub.fault("broken", "/store/")
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)
    assert "answers 500" in capsys.readouterr().out


def test_a_server_that_ignores_ranges_is_read_from_the_start(hub, source, tmp_path):
    hub.fault("cut", SHARD, at=50_000)
    hub.fault("no_range", SHARD)
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("refused", r"refused the token for org/model \(401\)"),
        ("gated", "org/model is gated and this account was not let in: accept its conditions at http"),
        ("no_repo", "there is no repository org/model at http.*, or it is private and model.token names no token"),
        ("no_revision", "org/model has no revision"),
    ],
)
def test_a_refusal_is_one_sentence_with_what_to_do(hub, tmp_path, fault, said):
    hub.fault(fault, "/tree/", times=99)
    with pytest.raises(HubError, match=said) as caught:
        fetch(hub, tmp_path / "checkpoint")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        pytest.param("/tree/", "org/model", id="list"),
        pytest.param("/resolve/{commit}/config.json", "org/model/config.json", id="small"),
        pytest.param("/resolve/{commit}/" + SHARD, f"org/model/{SHARD}", id="large"),
    ],
)
def test_a_403_without_a_reason_points_at_the_way_and_is_asked_for_once(hub, tmp_path, no_waiting, path, what):
    path = path.format(commit=hub.repositories["org/model"].branches["main"])
    hub.fault("forbidden", path, times=10**6)
    with pytest.raises(HubError) as caught:
        fetch(hub, tmp_path / "checkpoint")
    assert str(caught.value) == (
        f"{hub.url} forbids {what} (403) and gives no reason; most likely a proxy or firewall on the way refuses it, "
        f"else it wants a token and model.token names none: have {hub.url} let through to this host, or set "
        "model.endpoint to a mirror; else let model.token name a token that may read org/model (a fine-grained one "
        "lists what it may read)"
    )
    assert [row[0] for row in hub.requests if path in row[1]] == ["HEAD" if SHARD in path else "GET"]
    assert no_waiting == []


def test_a_403_with_the_hub_s_reason_points_at_the_token_and_repeats_the_reason(hub, tmp_path):
    (tmp_path / "token").write_text("hf_secret")
    hub.fault("forbidden", "/tree/", times=99, said="Fine-grained token lacks `repo.content.read`.")
    with pytest.raises(HubError) as caught:
        fetch(hub, tmp_path / "checkpoint", token_file=str(tmp_path / "token"))
    assert str(caught.value) == (
        f"{hub.url} forbids org/model (403: Fine-grained token lacks `repo.content.read`); most likely the token has "
        "no right to read it: let model.token name a token that may read org/model (a fine-grained one lists what it "
        "may read)"
    )


def test_a_store_that_only_it_refuses_is_named(hub, tmp_path, no_waiting):
    """The Hub is let through, the host that it sends large files from is not."""
    hub.fault("forbidden", "/store/", times=10**6)
    with pytest.raises(TransferError) as caught:
        fetch(hub, tmp_path / "checkpoint")
    assert str(caught.value).startswith(f"{hub.store} refuses org/model/model-0000")
    assert "(403) although its bytes were said to be there; most likely a proxy or firewall" in str(caught.value)
    assert f"lets the Hub through but not {hub.store}: ask whoever runs it" in str(caught.value)
    asked = [row[1] for row in hub.asked("/store/")]
    assert (len(asked), no_waiting) == (len(set(asked)), []), "none is asked for again"


def test_a_disabled_repository_is_not_blamed_on_the_token(hub, tmp_path):
    hub.fault("forbidden", "/tree/", said="Access to this resource is disabled.")
    with pytest.raises(HubError, match=r"has disabled org/model \(403\), for whatever token; choose another"):
        fetch(hub, tmp_path / "checkpoint")


class Proxy(BaseHTTPRequestHandler):
    """One that lets nobody through."""

    def do_CONNECT(self):
        self.server.asked.append(self.path)
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_proxy_that_refuses_the_way_is_told_from_the_hub(hub, tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps({**request_for(hub, tmp_path / "checkpoint"), "endpoint": "https://hub.example"}))
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        proxy.asked = []
        threading.Thread(target=proxy.serve_forever, args=[0.02], daemon=True).start()
        variables = {**os.environ, "https_proxy": f"http://127.0.0.1:{proxy.server_address[1]}", "no_proxy": ""}
        command = [sys.executable, "-m", "slipway.agent.fetch", str(request)]
        ran = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)
        proxy.shutdown()
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "error: org/model: the proxy on the way to https://hub.example answers 403 Forbidden; ask who" in ran.stdout
    assert proxy.asked == ["hub.example:443"]


@pytest.mark.parametrize("fault", ["gated", "forbidden"])
def test_a_refusal_in_the_middle_stops_at_once_and_keeps_what_came(hub, source, tmp_path, fault):
    hub.fault(fault, SHARD, times=99)
    with pytest.raises(HubError, match=fault[:5]):
        fetch(hub, tmp_path / "checkpoint")
    hub.faults.clear()
    fetch(hub, tmp_path / "checkpoint")
    is_whole(tmp_path / "checkpoint", source)


@pytest.mark.parametrize("fault", ["other_list", "empty_list"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_list_of_files_that_changes_is_no_success(hub, tmp_path, fault, when):
    made = Fetch(request_for(hub, tmp_path / "checkpoint"))
    if when == "after":
        made.check_disk = lambda pending: hub.fault(fault, "/tree/")
    else:
        hub.fault(fault, "/tree/")
    with pytest.raises(FetchError, match=r"the list of files at org/model [0-9a-f]{12} differs: .* planned files"):
        made.run()
    assert look(str(tmp_path / "checkpoint"))["kind"] == "partial"


def test_a_moved_branch_changes_nothing_about_a_pinned_commit(tmp_path, source):
    copy = shutil.copytree(source, tmp_path / "source")
    repository = Repository("org/model", copy)
    kept = {path: (entry.size, entry.etag) for path, entry in repository.commits[repository.branches["main"]].items()}
    with Hub([repository]) as hub:
        request = request_for(hub, tmp_path / "checkpoint")
        for entry in repository.commits[request["commit"]].values():
            object.__setattr__(entry, "source", source / entry.path)
        (copy / "config.json").write_text('{"changed": true}')
        repository.branches["main"] = repository.commit()
        assert Client(hub.url, "org/model").commit("main") != request["commit"]
        Fetch(request).run()
    assert set(kept) == {path.name for path in source.iterdir()}
    is_whole(tmp_path / "checkpoint", source)


def test_a_stale_file_of_another_commit_is_not_taken_for_this_one(hub, source, tmp_path):
    target = tmp_path / "checkpoint"
    target.mkdir()
    (target / "config.json").write_text("{}")
    (target / "model-00009-of-00009.safetensors").write_bytes(b"left over")
    fetch(hub, target)
    is_whole(target, source)
    kept = {path.name.rpartition(".")[0] for path in (tmp_path / "quarantine" / "checkpoint").iterdir()}
    assert kept == {"config.json", "model-00009-of-00009.safetensors"}


def test_a_manifest_of_the_repository_stays_what_it_is(tmp_path):
    root = write_checkpoint(tmp_path / "source", shards=1, shard_bytes=1000)
    (root / "manifest.json").write_text("theirs")
    with Hub([Repository("org/model", root)]) as hub:
        fetch(hub, tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / "manifest.json").read_text() == "theirs"
    assert seal(str(tmp_path / "checkpoint"))["problems"] == []


def test_a_disk_too_small_is_told_before_the_first_byte(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "free_bytes", lambda path: 500_000)
    with pytest.raises(FetchError, match=r"500\.0 kB free and 6\d\d\.\d kB .* come: 1\d\d\.\d kB are missing"):
        fetch(hub, tmp_path / "checkpoint")
    assert hub.asked("/resolve/") + hub.asked("/resolve/", "HEAD") == []


def test_progress_tells_bytes_rate_time_left_and_files(source, tmp_path, capsys):
    with Hub([Repository("org/model", source)], cap=400_000) as hub:
        fetch(hub, tmp_path / "checkpoint")
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if "left" in line]
    assert shown, lines
    assert " of 6" in shown[-1]
    assert "kB/s" in shown[-1]
    assert "of 9 files" in shown[-1]


def test_a_bandwidth_cap_holds(hub, source, tmp_path):
    began = time.monotonic()
    fetch(hub, tmp_path / "checkpoint", bandwidth=600_000)
    assert time.monotonic() - began > 0.8
    is_whole(tmp_path / "checkpoint", source)


def test_a_token_goes_to_the_hub_and_nowhere_else(source, tmp_path, capsys):
    token, place = "hf_secret", tmp_path / "token"
    place.write_text(token + "\n")
    with Hub([Repository("org/model", source, token=token)]) as hub:
        with pytest.raises(HubError, match=r"private and model\.token names no token"):
            fetch(hub, tmp_path / "checkpoint")
        fetch(hub, tmp_path / "checkpoint", token_file=str(place), passing_token=True)
        assert {row[3] for row in (*hub.asked("/resolve/"), *hub.asked("/resolve/", "HEAD"))} == {f"Bearer {token}"}
        assert {row[3] for row in hub.asked("/store/")} == {""}
    assert not place.exists()
    assert token not in capsys.readouterr().out
    written = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert [path for path in written if token.encode() in path.read_bytes()] == []


def test_a_token_file_that_is_not_there_is_named(hub, tmp_path):
    with pytest.raises(FetchError, match=r"model\.token: /nowhere/token cannot be read"):
        fetch(hub, tmp_path / "checkpoint", token_file="/nowhere/token")


def test_what_a_power_cut_may_have_taken_is_read_again_before_it_counts(hub, source, tmp_path, monkeypatch):
    """The record reached the disk, the bytes did not: a file of the right size, time and inode, full of zeros."""
    target = tmp_path / "checkpoint"
    fetch(hub, target)
    before = (target / SHARD).stat()
    (target / SHARD).write_bytes(b"\0" * before.st_size)
    os.utime(target / SHARD, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setattr(program, "boot_id", lambda: "another boot")
    hub.requests.clear()
    fetch(hub, target)
    is_whole(target, source)
    assert [row[1].rpartition("/")[2] for row in hub.asked("/resolve/", "HEAD")] == [SHARD]


def test_a_killed_fetch_goes_on_and_no_byte_comes_twice(source, tmp_path):
    with Hub([Repository("org/model", source)], cap=400_000) as hub:
        request = tmp_path / "request.json"
        request.write_text(json.dumps(request_for(hub, tmp_path / "checkpoint", workers=1)))
        run = [sys.executable, "-m", "slipway.agent.fetch", str(request)]
        first = subprocess.Popen(run, cwd=ROOT, stdout=subprocess.PIPE)
        parts = tmp_path / "checkpoint" / ".cache" / "slipway" / "parts"
        deadline = time.monotonic() + 20
        while not any(path.stat().st_size for path in parts.glob("model-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
        hub.cap, (part,) = 0, parts.glob("model-*")
        came = part.stat().st_size
        again = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
        assert again.returncode == 0, again.stdout
        assert f"bytes={came}-" in [row[2] for row in hub.asked("/store/")]
    is_whole(tmp_path / "checkpoint", source)
