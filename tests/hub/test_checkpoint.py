"""What an operator reads while a deploy fetches its checkpoint, and when it cannot have it."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from slipway.cli import main
from tests.e2e.site import CHECKOUT, Site
from tests.hub.playbook import PLAYBOOK
from tests.hub.repository import Repository
from tests.hub.server import Hub
from tests.slipway.agent.test_fetch import request_for

SECRET = "hf_not_to_be_seen"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("f")


@pytest.fixture(scope="module")
def hub(place):
    with Hub(
        [Repository("org/tiny", shutil.copytree(CHECKOUT / "models" / "tiny", place / "tiny"), token=SECRET)]
    ) as hub:
        yield hub


@pytest.fixture(scope="module")
def site(hub, place):
    """The Hub's client is built by a first run, which fetches; each test takes the checkpoint away again."""
    (place / "play.py").write_text(PLAYBOOK)
    (place / "token").write_text(SECRET)
    facts = ["--endpoint", hub.url, "--into", str(place / "facts"), "--token-file", str(place / "token")]
    assert main(["checkpoint", "facts", "org/tiny", *facts]) == 0
    model = {"path": None, "repo": "org/tiny", "facts": str(place / "facts"), "token": {"file": str(place / "token")}}
    data = {f"model.{key}": value for key, value in model.items()}
    site = Site("ref", place / "r", 21900, {"engine.kind": "simulator", **data})
    first = site.run("-y", str(place / "play.py"))
    assert first.rc == 0, first.out
    return site


@pytest.fixture
def tried(site, hub, place):
    """A run that has everything to fetch."""

    def run(**more):
        shutil.rmtree(site.root / "checkpoints", ignore_errors=True)
        hub.requests.clear()
        return site.run("-y", str(place / "play.py"), **{key.replace("__", "."): value for key, value in more.items()})

    yield run
    hub.faults.clear()


def test_the_status_tells_how_far_a_running_fetch_is(site, hub, tmp_path):
    hub.fault("slow", "model.safetensors", rate=20_000)  # bytes a second
    (tmp_path / "token").write_text(SECRET)
    made = request_for(hub, tmp_path / "c", name="org/tiny", every_s=0.2, token_file=str(tmp_path / "token"))
    (tmp_path / "request.json").write_text(json.dumps(made))
    job = [sys.executable, "-m", "slipway.agent.job"]
    command = [sys.executable, "-m", "slipway.agent.fetch", str(tmp_path / "request.json")]
    subprocess.run([*job, "start", str(site.root / "jobs/checkpoint-x"), "k", *command], cwd=CHECKOUT, check=True)
    try:
        looked = site.run("-y", "playbooks/status.py")
    finally:
        subprocess.run([*job, "stop", str(site.root / "jobs/checkpoint-x")], cwd=CHECKOUT, check=True)
    (line,) = [line for line in looked.out.splitlines() if "checkpoint-x" in line]
    assert re.search(r"running: checkpoint-x since \d+s: .* of .*B \(\d+%\), .*B/s, .*, \d+ of \d+ files", line)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("gated", "org/tiny is gated and this account was not let in: accept its conditions at"),
        pytest.param(
            "refused",
            "refused the token for org/tiny (401): it has expired or is mistyped; renew what model.token names",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "forbidden",
            "forbids org/tiny (403) and gives no reason; most likely a proxy or firewall on the way refuses it",
            marks=pytest.mark.full,
        ),
        pytest.param("no_repo", "there is no repository org/tiny at", marks=pytest.mark.full),
        pytest.param("other_list", "differs: 1 of", marks=pytest.mark.full),
    ],
)
def test_what_the_hub_refuses_stops_the_deploy_in_one_sentence(tried, hub, fault, said):
    hub.fault(fault, "/tree/", times=99)
    ran = tried()
    assert ran.rc != 0
    (line,) = [line for line in ran.out.splitlines() if "failed: the job checkpoint-" in line]
    assert said in line
    assert "Traceback" not in ran.out
    assert SECRET not in ran.out


def test_what_passes_is_waited_out_and_the_deploy_goes_on(tried, hub):
    """Too many requests, an error of the Hub, a cut and a truncated transfer, all in one fetch."""
    hub.fault("busy", "/store/", seconds=1)
    hub.fault("broken", "/store/")
    hub.fault("cut", "model.safetensors", at=50_000)
    hub.fault("truncated", "model.safetensors", at=60_000)
    ran = tried(model__fetch_timeout_s=2)
    assert ran.rc == 0, ran.out
    assert sum(bool(row[2]) for row in hub.asked("/store/")) >= 2  # taken up where it ended


@pytest.mark.full
def test_a_private_repository_without_a_token_says_so(tried):
    ran = tried(model__token=None)
    assert ran.rc != 0
    assert "it is private and model.token names no token" in ran.out


def test_a_token_that_lies_on_the_hosts_is_used_there_and_stays_there(tried, hub, place):
    (place / "on-host").write_text(SECRET)
    ran = tried(model__token={"host_file": str(place / "on-host")})
    assert ran.rc == 0, ran.out
    assert (place / "on-host").read_text() == SECRET
    assert f"Bearer {SECRET}" in {row[3] for row in hub.asked("/resolve/", "HEAD")}
    assert SECRET not in ran.out


@pytest.mark.full
def test_a_host_without_that_token_file_is_named_with_it(tried):
    ran = tried(model__token={"host_file": "/nowhere/token"})
    assert ran.rc != 0
    assert "model.token: /nowhere/token cannot be read: No such file or directory" in ran.out


def test_a_disk_too_small_is_refused_with_both_sizes_before_anything_changes(tried, hub, place):
    record = place / "facts" / "hub.json"
    kept = record.read_text()
    data = json.loads(kept)
    data["files"]["model.safetensors"][0] = 10**16
    record.write_text(json.dumps(data))
    try:
        ran = tried()
    finally:
        record.write_text(kept)
    assert ran.rc != 0
    assert "the checkpoint needs 10000000.0 GB: free some, or set `root:`" in ran.out
    assert "nothing was changed" in ran.out
    assert hub.requests == []


@pytest.mark.full
def test_a_record_that_is_not_the_commit_s_is_found_out_before_anything_is_fetched(tried, hub, place):
    """Another config.json than the repository has, with the hash to go with it."""
    ran = tried(model__facts=str(forged(place)))
    assert ran.rc != 0
    assert "differs: 1 of" in ran.out
    assert "e.g. config.json" in ran.out
    assert hub.asked("/store/") == []


def forged(place):
    """A record whose config.json says something else, with its own hash."""
    from tests.hub.repository import blob_id

    folder = shutil.copytree(place / "facts", place / "forged", dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config["of_another"] = 1
    text = json.dumps(config)
    (folder / "config.json").write_text(text)
    record = json.loads((folder / "hub.json").read_text())
    record["files"]["config.json"] = [len(text), f"git:{blob_id(text.encode())}"]
    (folder / "hub.json").write_text(json.dumps(record))
    return folder
