"""A deployment whose checkpoint comes from a Hub: fetched on the host, inspected, verified, and left alone after."""

import json
import os
import shutil
from pathlib import Path

import pytest

from slipway.cli import main
from tests.e2e.site import CHECKOUT, Site
from tests.hub.repository import Repository
from tests.hub.server import Hub

SECRET = "hf_not_to_be_seen"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    root = shutil.copytree(CHECKOUT / "models" / "tiny", tmp_path_factory.mktemp("hub") / "tiny")
    with Hub([Repository("org/tiny", root, token=SECRET)]) as server:
        yield server


@pytest.fixture(scope="module")
def site(hub, tmp_path_factory):
    folder = tmp_path_factory.mktemp("h")
    facts, token = folder / "facts", folder / "token"
    token.write_text(SECRET)
    call = ["checkpoint", "facts", "org/tiny", "--endpoint", hub.url, "--into", str(facts), "--token-file", str(token)]
    assert main(call) == 0
    model = {"path": None, "repo": "org/tiny", "facts": str(facts), "token": {"file": str(token)}}
    data = {f"model.{key}": value for key, value in model.items()}
    site = Site("hub", folder / "r", 21500, {"engine.kind": "simulator", **data})
    yield site
    gone = site.destroy()
    assert gone.rc == 0, gone.out


@pytest.fixture(scope="module")
def first(site, hub):
    """One transfer is cut on the way."""
    hub.fault("cut", "model.safetensors", at=100_000)
    done = site.deploy()
    assert done.rc == 0, done.out
    return done


def checkpoint_of(site) -> Path:
    (found,) = (site.root / "checkpoints" / "org--tiny").glob("?" * 40)
    return found


def test_the_deploy_says_which_commit_it_fetches_and_serves_it(site, hub, first):
    commit = hub.repositories["org/tiny"].branches["main"]
    assert f"of org/tiny main at {commit} from {hub.url}" in first.out
    assert checkpoint_of(site).name == commit
    plan = json.loads((site.root / "deployments" / site.name / "current" / "plan.json").read_text())
    assert {host["checkpoint"]["revision"] for host in plan["hosts"]} == {commit}


def test_a_second_deploy_changes_nothing_and_fetches_nothing(site, hub, first):
    before = len(hub.requests)
    again = site.deploy()
    assert (again.rc, again.changes) == (0, 0), again.out
    assert len(hub.requests) == before


def test_the_token_is_nowhere_on_the_host(site, first):
    assert SECRET not in first.out
    places = [path for path in site.root.rglob("*") if path.is_file() and path.stat().st_size < 5_000_000]
    assert [path for path in places if SECRET.encode() in path.read_bytes()] == []


def test_a_damaged_file_is_fetched_again_and_nothing_else(site, hub, first):
    file = checkpoint_of(site) / "model.safetensors"
    os.truncate(file, 1000)
    hub.requests.clear()
    again = site.deploy()
    assert again.rc == 0, again.out
    assert "model.safetensors: 1000 bytes; must be" in again.out
    assert [row[1].rpartition("/")[2] for row in hub.asked("/resolve/", "HEAD")] == ["model.safetensors"]
    kept = list((site.root / "checkpoints" / "org--tiny" / "quarantine").rglob("model.safetensors.*"))
    assert [path.stat().st_size for path in kept] == [1000]


def test_the_playbook_looks_at_hosts_and_prunes_only_what_no_release_refers_to(site, first):
    looked = site.run("-y", "playbooks/checkpoint.py")
    assert looked.rc == 0, looked.out
    assert f"{checkpoint_of(site)}: complete, 0 problem(s)" in looked.out
    (site.root / "checkpoints" / "org--old" / "a").mkdir(parents=True)
    pruned = site.run("-y", "playbooks/checkpoint.py", env={"SLIPWAY_CHECKPOINT": "remove"})
    assert "removed " in pruned.out
    assert checkpoint_of(site).exists()
    assert not (site.root / "checkpoints" / "org--old" / "a").exists()
