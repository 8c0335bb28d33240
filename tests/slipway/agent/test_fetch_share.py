"""One copy from the Hub for several hosts: who takes what from whom, and what happens when one of them dies."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import types
from contextlib import ExitStack
from pathlib import Path

import pytest

from slipway.agent.fetch import Fetch, FetchError
from slipway.agent.fetch_mirror import Mirror, Shelf
from slipway.agent.recheck import seal
from tests.hub.checkpoint import write_checkpoint
from tests.hub.repository import Repository
from tests.hub.server import Hub
from tests.slipway.agent.test_fetch import SHARD, is_whole, request_for

ROOT = Path(__file__).resolve().parents[3]
TOKEN, PORT = "of-this-run", 21700 + int(os.environ.get("SLIPWAY_TEST_PORTS_MOVED", "0"))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("share") / "model", shards=3)


@pytest.fixture
def hub(source):
    with Hub([Repository("org/model", source)]) as server:
        yield server


class Hosts:
    """Hosts on loopback addresses, each with a folder and a mirror. gone: names without a mirror."""

    def __init__(self, hub, place, names, members=None, **other):
        self.hub, self.place, self.names, self.members = hub, place, names, members or names
        self.token, self.other, self.failed = place / "token", other, {}
        self.token.write_text(TOKEN + "\n")

    def folder(self, name):
        return self.place / name / "checkpoint"

    def address(self, name):
        return f"127.0.0.{11 + self.names.index(name)}"

    def request(self, name, **other):
        peers = {one: f"http://{self.address(one)}:{PORT}" for one in self.names if one != name}
        share = {"me": name, "members": self.members, "peers": peers, "token_file": str(self.token)}
        return request_for(self.hub, self.folder(name), share=share, **{**self.other, **other})

    def mirror(self, name, pending=True):
        shelf = Shelf(str(self.folder(name)), self.request(name)["files"], pending)
        return Mirror(self.address(name), PORT, shelf, TOKEN)

    def fetch(self, name, **other):
        try:
            Fetch(self.request(name, **other)).run()
        except Exception as error:  # noqa: BLE001 - told by the test
            self.failed[name] = error

    def run(self, *names, **other):
        """All mirrors, and the fetches of `names` side by side."""
        names = names or self.members
        with ExitStack() as stack:
            for name in self.names:
                mirror = stack.enter_context(self.mirror(name, name in names))
                threading.Thread(target=mirror.serve_forever, args=[0.02], daemon=True).start()
                stack.callback(mirror.shutdown)
            threads = [threading.Thread(target=self.fetch, args=[name], kwargs=other) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def size_of(source):
    return sum(path.stat().st_size for path in source.iterdir())


def sent_large(hub):
    """Bytes of large files that left the Hub."""
    return hub.sent - sum(entry.size for entry in small(hub))


def small(hub):
    (repository,) = hub.repositories.values()
    return [entry for entry in repository.commits[repository.branches["main"]].values() if not entry.sha256]


def test_four_hosts_take_one_copy_from_the_hub_between_them(hub, source, tmp_path, capsys):
    hosts = Hosts(hub, tmp_path, ["a", "b", "c", "d"])
    hosts.run()
    assert hosts.failed == {}
    for name in hosts.names:
        is_whole(hosts.folder(name), source)
        assert seal(str(hosts.folder(name)))["problems"] == []
    assert hub.sent == size_of(source)
    assert len({row[1] for row in hub.asked("/store/")}) == len(hub.asked("/store/")) == 3
    assert " from the Hub" in capsys.readouterr().out


def test_a_file_is_passed_on_while_it_is_still_coming(source, tmp_path):
    """One large file, a slow Hub: the last in line has bytes long before the first has all."""
    with Hub([Repository("org/model", source)], cap=150_000) as hub:
        hosts = Hosts(hub, tmp_path, ["a", "b"], workers=8)
        seen = []

        def look():
            parts = [hosts.folder(name) / ".cache/slipway/parts" / SHARD for name in hosts.names]
            while len(seen) < 3 and len(hub.asked("/store/")) < 99 and not hosts.failed:
                sizes = [path.stat().st_size if path.exists() else 0 for path in parts]
                seen.extend([sizes] if all(0 < size < 150_000 for size in sizes) else [])
                time.sleep(0.02)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        hosts.run()
        hosts.failed["over"] = True
        watcher.join()
    assert seen, "both had a part of the file at one time"
    assert hub.sent == size_of(source)


def test_a_host_that_has_it_all_gives_it_and_the_hub_gives_nothing(hub, source, tmp_path):
    hosts = Hosts(hub, tmp_path, ["a", "b", "c"])
    hosts.run("a")  # a host alone takes all from the Hub
    assert hub.sent == size_of(source)
    hosts.members = ["b", "c"]
    hosts.run()
    assert hosts.failed == {}
    is_whole(hosts.folder("c"), source)
    assert hub.sent == size_of(source)


@pytest.mark.parametrize("given", ["", "Bearer wrong", "Bearer " + "x" * 10_000])
def test_without_the_token_there_is_nothing(hub, tmp_path, given):
    hosts = Hosts(hub, tmp_path, ["a"])
    shutil.copytree(hub.repositories["org/model"].root, hosts.folder("a"))
    with hosts.mirror("a") as mirror:
        threading.Thread(target=mirror.serve_forever, args=[0.02], daemon=True).start()
        for path in ("/have", "/files/config.json"):
            assert ask(path, {"Authorization": given}) == (401, b"")
        mirror.shutdown()


def ask(path, headers, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.11", PORT, timeout=5)
    connection.request(method, path, headers=headers)
    reply = connection.getresponse()
    answer = reply.status, reply.read()
    connection.close()
    return answer


def test_only_files_of_the_checkpoint_are_given_and_nothing_is_taken(hub, tmp_path):
    hosts = Hosts(hub, tmp_path, ["a"])
    shutil.copytree(hub.repositories["org/model"].root, hosts.folder("a"))
    (tmp_path / "a" / "secret").write_text("no")
    (hosts.folder("a") / "stranger").write_text("no")
    good = {"Authorization": f"Bearer {TOKEN}"}
    with hosts.mirror("a") as mirror:
        threading.Thread(target=mirror.serve_forever, args=[0.02], daemon=True).start()
        for path in ("/files/../secret", "/files/%2e%2e/secret", "/files/stranger", "/", "/files//etc/passwd"):
            assert ask(path, good) == (404, b"")
        assert ask("/files/config.json", good, "PUT")[0] == 501
        assert (
            ask("/files/config.json", {**good, "Range": "bytes=5-"})[1]
            == (hosts.folder("a") / "config.json").read_bytes()[5:]
        )
        assert mirror.server_address[0] == "127.0.0.11"
        mirror.shutdown()


def test_a_host_that_gives_wrong_bytes_is_not_asked_for_that_file_again(hub, source, tmp_path, capsys):
    hosts = Hosts(hub, tmp_path, ["a", "b"], members=["b"])
    shutil.copytree(source, hosts.folder("a"))
    with (hosts.folder("a") / SHARD).open("r+b") as file:
        file.seek(1000)
        file.write(b"flipped")
    hosts.run()
    assert hosts.failed == {}
    is_whole(hosts.folder("b"), source)
    assert "(from a); fetched again" in capsys.readouterr().out
    assert hub.sent == (source / SHARD).stat().st_size


def test_without_a_hub_everything_comes_from_those_who_have_it(hub, source, tmp_path):
    hosts = Hosts(hub, tmp_path, ["a", "b", "c"], members=["b", "c"], endpoint="")
    shutil.copytree(source, hosts.folder("a"))
    hosts.run()
    assert hosts.failed == {}
    is_whole(hosts.folder("b"), source)
    is_whole(hosts.folder("c"), source)
    assert hub.requests == []


# Three hosts share this process's one client of huggingface_hub, which it drops, open sockets and all, where one of
# them cannot connect.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_host_that_cannot_reach_the_hub_gets_all_from_the_others_and_holds_up_nobody(
    hub, source, tmp_path, capsys, monkeypatch
):
    impatient = types.SimpleNamespace(sleep=lambda seconds: None, time=time.time, monotonic=time.monotonic)
    monkeypatch.setattr("huggingface_hub.utils._http.time", impatient)  # it tries for 23 s before it says so
    hosts = Hosts(hub, tmp_path, ["a", "b", "c"], timeout_s=5, patience_s=30.0)
    whole = hosts.request
    hosts.request = lambda name, **more: whole(
        name, **({"endpoint": "http://127.0.0.1:9"} if name == "a" else {}), **more
    )
    hosts.run()
    assert hosts.failed == {}
    for name in hosts.names:
        is_whole(hosts.folder(name), source)
    assert hub.sent == size_of(source)
    assert "everything comes from other hosts" in capsys.readouterr().out


def test_when_nobody_has_it_that_is_said(hub, tmp_path):
    hosts = Hosts(hub, tmp_path, ["a", "b"], members=["b"], endpoint="", patience_s=0.0)
    hosts.run()
    assert "no host that has it answers" in str(hosts.failed["b"])


def test_a_mirror_ends_when_nobody_asks_any_more(tmp_path, source):
    (tmp_path / "token").write_text(TOKEN)
    files = {path.name: [path.stat().st_size, "sha256:0"] for path in source.iterdir()}
    request = {"path": str(source), "files": files, "address": "127.0.0.11", "port": PORT, "idle_s": 0.1,
               "token_file": str(tmp_path / "token")}  # fmt: skip
    (tmp_path / "request.json").write_text(json.dumps(request))
    command = [sys.executable, "-m", "slipway.agent.fetch_mirror", str(tmp_path / "request.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (done.returncode, TOKEN in done.stdout + done.stderr) == (0, False)
    assert "nobody asks any more" in done.stdout


def start(hosts, name, program, request):
    place = hosts.place / f"{name}-{program}.json"
    place.write_text(json.dumps(request))
    command = [sys.executable, "-m", f"slipway.agent.{program}", str(place)]
    with (hosts.place / f"{name}-{program}.log").open("w") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def test_a_host_that_dies_in_the_middle_is_replaced(source, tmp_path):
    """Host a takes from the Hub and gives to all; it is killed with its mirror, and the next in line takes over."""
    with Hub([Repository("org/model", source)], cap=150_000) as hub:
        hosts = Hosts(hub, tmp_path, ["a", "b", "c"], timeout_s=5)
        running = []
        for name in hosts.names:
            mirror = {**hosts.request(name), "address": hosts.address(name), "port": PORT, "pending": True,
                      "idle_s": 1.0, "token_file": str(hosts.token)}  # fmt: skip
            running.append(start(hosts, name, "fetch_mirror", mirror))
        for name in hosts.names:
            running.append(start(hosts, name, "fetch", hosts.request(name)))
        part = hosts.folder("b") / ".cache/slipway/parts/model-00001-of-00003.safetensors"
        deadline = time.monotonic() + 30
        while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        for process in (running[0], running[3]):
            process.kill()
        codes = [process.wait(60) for process in running]
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert [codes[4], codes[5]] == [0, 0], logs
    for name in ("b", "c"):
        is_whole(hosts.folder(name), source)
    assert "looking who else has it" in logs
    assert TOKEN not in logs


def test_wrong_bytes_from_the_hub_are_still_told_when_hosts_share(hub, tmp_path):
    hub.fault("wrong", SHARD, times=99)
    hosts = Hosts(hub, tmp_path, ["a"])
    hosts.fetch("a")
    assert isinstance(hosts.failed["a"], FetchError)
