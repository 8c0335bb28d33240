"""A checkpoint of the Hub in a plan: recorded by the CLI, pinned to a commit, refused when the record does not fit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.cli import main
from slipway.plan.hub import chosen
from tests.hub.checkpoint import write_checkpoint
from tests.hub.repository import Repository
from tests.hub.server import Hub

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = """
prefill = ["@local"]
decode = ["@local"]
router = ["@local"]
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    root = write_checkpoint(tmp_path_factory.mktemp("hub") / "model")
    with Hub([Repository("org/model", root, token="hf_secret")]) as server:
        yield server


@pytest.fixture
def inventory(tmp_path, hub, monkeypatch):
    monkeypatch.setenv("MODEL_TOKEN", "hf_secret")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "inventory.py").write_text(INVENTORY)
    configure(tmp_path, hub)
    return tmp_path / "inventory.py"


def configure(folder, hub, **model):
    default = {"repo": "org/model", "endpoint": hub.url, "token": {"env": "MODEL_TOKEN"}}
    text = {"deployment": "t", "engine": {"kind": "simulator"}, "model": {**default, **model}}
    (folder / "group_vars" / "all.yml").write_text(json.dumps(text))


def planned(inventory, capsys):
    capsys.readouterr()
    code = main(["plan", "--json", str(inventory)])
    return code, json.loads(capsys.readouterr().out)


def test_patterns_choose_as_the_client_does():
    from huggingface_hub.utils import filter_repo_objects

    names = ["config.json", "model-1.safetensors", "original/model.pth", "tokenizer.json"]
    for include, exclude in ((["*.json"], []), ([], ["original/", "*.pth"]), (["*.json", "model*"], ["token*"])):
        theirs = list(filter_repo_objects(names, allow_patterns=include or None, ignore_patterns=exclude))
        assert list(chosen(dict.fromkeys(names), include, exclude)) == theirs


def test_a_branch_is_pinned_and_only_small_files_are_read(hub, inventory, capsys):
    hub.requests.clear()
    assert main(["checkpoint", "facts", str(inventory)]) == 0
    commit = hub.repositories["org/model"].branches["main"]
    assert f"org/model main is {commit}; 9 files" in capsys.readouterr().out
    assert [row for row in hub.asked("/resolve/") if "safetensors" in row[1] and "index" not in row[1]] == []
    _, plan = planned(inventory, capsys)
    checkpoint = plan["hosts"][0]["checkpoint"]
    assert (checkpoint["revision"], checkpoint["served_name"]) == (commit, "model")
    assert checkpoint["path"].endswith(f"/checkpoints/org--model/{commit}")
    assert checkpoint["files"]["token"] == {"env": "MODEL_TOKEN"}
    assert "hf_secret" not in json.dumps(plan)
    assert [build["kind"] for build in plan["hosts"][0]["builds"] if build["kind"] == "hub"] == ["hub"]
    assert not [one for one in plan["findings"] if one["rule"] in ("model-folder", "checkpoint-unproven")]


def test_a_403_while_recording_is_one_sentence_and_leaves_no_record(hub, inventory, capsys):
    hub.fault("forbidden", "/api/models/")
    assert main(["checkpoint", "facts", str(inventory)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: {hub.url} forbids org/model (403) and gives no reason; most likely a proxy")
    assert told.count("\n") == 1
    assert "hf_secret" not in told
    assert not (inventory.parent / ".slipway/checkpoints/org--model/hub.json").exists()


def test_the_plan_shows_the_commit_that_a_branch_stands_for(hub, inventory, capsys):
    main(["checkpoint", "facts", str(inventory)])
    capsys.readouterr()
    assert main(["plan", str(inventory)]) == 0
    assert hub.repositories["org/model"].branches["main"] in capsys.readouterr().out


def test_a_mirror_is_fetched_from_instead_of_where_it_was_recorded(hub, inventory, capsys):
    main(["checkpoint", "facts", str(inventory)])
    recorded = planned(inventory, capsys)[1]["hosts"][0]["checkpoint"]
    configure(inventory.parent, hub, endpoint="http://mirror:8080")
    mirrored = planned(inventory, capsys)[1]["hosts"][0]["checkpoint"]
    assert (recorded["files"]["endpoint"], mirrored["files"]["endpoint"]) == (hub.url, "http://mirror:8080")
    assert recorded["path"] == mirrored["path"]  # the same commit, wherever it comes from


def test_a_repository_that_nobody_recorded_is_an_error_with_the_command(inventory, capsys):
    code, plan = planned(inventory, capsys)
    (found,) = [one for one in plan["findings"] if one["rule"] == "model-folder"]
    assert code == 1
    assert found["message"] == "model.repo org/model: .slipway/checkpoints/org--model has no record of it"
    assert "slipway checkpoint facts" in found["fix"]


def test_another_revision_or_an_edited_file_is_not_planned_by(hub, inventory, capsys):
    main(["checkpoint", "facts", str(inventory)])
    folder = inventory.parent
    configure(folder, hub, revision="v2")
    said = "it was recorded for org/model at main, the configuration asks for org/model at v2"
    assert said in json.dumps(planned(inventory, capsys)[1]["findings"])
    configure(folder, hub)
    (folder / ".slipway/checkpoints/org--model/config.json").write_text("{}")
    assert "config.json is not the file of the recorded commit" in json.dumps(planned(inventory, capsys)[1])


def test_patterns_get_a_folder_of_their_own(hub, inventory, capsys):
    main(["checkpoint", "facts", str(inventory)])
    configure(inventory.parent, hub, exclude=["*.md", "model-00002*"])
    _, plan = planned(inventory, capsys)
    checkpoint = plan["hosts"][0]["checkpoint"]
    assert "model-00002-of-00003.safetensors" not in checkpoint["files"]["entries"]
    assert len(checkpoint["path"].rpartition("/")[2]) == 49


def test_a_path_beside_a_repository_is_refused(hub, inventory, capsys):
    configure(inventory.parent, hub, path="models/tiny")
    assert "model.path and model.repo are both set" in json.dumps(planned(inventory, capsys)[1]["findings"])


def test_one_repository_can_be_recorded_without_an_inventory(hub, tmp_path, capsys):
    token = tmp_path / "token"
    token.write_text("hf_secret\n")
    call = ["checkpoint", "facts", "org/model", "--endpoint", hub.url, "--into", str(tmp_path / "facts")]
    assert main(call) == 1
    assert "model.token names no token" in capsys.readouterr().err
    assert main([*call, "--token-file", str(token)]) == 0
    assert (tmp_path / "facts" / "hub.json").is_file()
    assert "hf_secret" not in "".join(path.read_text() for path in (tmp_path / "facts").iterdir())


def test_pruning_leaves_what_any_release_refers_to(tmp_path, capsys):
    kept, old, unused = (tmp_path / "checkpoints" / "org--model" / name for name in ("a", "b", "c"))
    for path in (kept, old, unused):
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(b"0" * 1000)
    for number, path in ((1, old), (2, kept)):
        release = tmp_path / "deployments" / "demo" / "releases" / str(number)
        release.mkdir(parents=True)
        (release / "plan.json").write_text(json.dumps({"hosts": [{"checkpoint": {"path": str(path)}}, {}]}))
    assert main(["checkpoint", "list", str(tmp_path)]) == 0
    assert "(demo/1)" in capsys.readouterr().out
    assert main(["checkpoint", "prune", str(tmp_path)]) == 0
    assert unused.exists()
    assert f"would remove {unused}" in capsys.readouterr().out
    assert main(["checkpoint", "prune", str(tmp_path), "--yes"]) == 0
    assert [path.exists() for path in (kept, old, unused)] == [True, True, False]


def test_a_release_that_cannot_be_read_stops_the_pruning(tmp_path, capsys):
    unused = tmp_path / "checkpoints" / "org--model" / "a"
    unused.mkdir(parents=True)
    release = tmp_path / "deployments" / "demo" / "releases" / "1"
    release.mkdir(parents=True)
    (release / "plan.json").write_text("half a fi")
    assert main(["checkpoint", "prune", str(tmp_path), "--yes"]) == 1
    assert "what it refers to is unknown; nothing was removed" in capsys.readouterr().err
    assert unused.exists()


def test_nothing_is_pruned_while_a_deploy_runs(tmp_path, capsys):
    """Its checkpoint is there before the release that refers to it."""
    fresh = tmp_path / "checkpoints" / "org--model" / "a"
    fresh.mkdir(parents=True)
    lock = tmp_path / "deployments" / "demo" / "lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"id": "1", "who": "ann"}))
    assert main(["checkpoint", "prune", str(tmp_path), "--yes"]) == 1
    assert "demo is being changed (ann, last sign of life 0 s ago)" in capsys.readouterr().err
    assert fresh.exists()
    os.utime(lock, (1, 1))
    assert main(["checkpoint", "prune", str(tmp_path), "--yes"]) == 0
    assert not fresh.exists()


def test_verify_tells_each_bad_file(tmp_path, capsys):
    from slipway.agent.manifest import write

    folder = write_checkpoint(tmp_path / "model", shards=1, shard_bytes=1000)
    write(str(folder))
    assert main(["checkpoint", "verify", str(folder)]) == 0
    (folder / "config.json").write_text("{}")
    capsys.readouterr()
    assert main(["checkpoint", "verify", str(folder)]) == 1
    assert "config.json: expected" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["fetch", "recheck", "prune"])
def test_what_runs_on_hosts_needs_no_package(module):
    code = f"import slipway.agent.{module}, sys; sys.exit('huggingface_hub' in sys.modules)"
    assert subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT).returncode == 0
