"""Old builds go, but never one that a release of any deployment refers to, that runs, or that is being made."""

import json
import os
import subprocess
import sys
import time

import pytest

from slipway.agent.job import started
from slipway.agent.prune import PruneError
from slipway.agent.prune_builds import builds, prune
from slipway.cli import main


@pytest.fixture
def root(tmp_path):
    (tmp_path / "engines").mkdir()
    return tmp_path


def build(root, name, age, complete=True):
    """A build that was completed `age` days ago."""
    path = root / "engines" / name
    path.mkdir()
    (path / "build.json").write_text(json.dumps({"id": name}))
    if complete:
        (path / "complete").write_text("{}")
    for file in (*path.iterdir(), path):
        os.utime(file, (time.time() - age * 86400,) * 2)


def release(root, deployment, number, builds=(), simulator=None, instance="x"):
    folder = root / "deployments" / deployment / "releases" / str(number)
    folder.mkdir(parents=True)
    hosts = [{"builds": [{"id": name} for name in builds], "simulator": simulator}]
    (folder / "plan.json").write_text(json.dumps({"hosts": hosts, "instances": [{"build": instance}]}))


def left(root):
    return sorted(path.name for path in (root / "engines").iterdir())


def test_what_a_release_of_any_deployment_refers_to_stays_however_old(root):
    for number, name in enumerate(["sglang-a", "sglang-b", "router-a", "simulator-a", "sglang-c", "sglang-d"]):
        build(root, name, age=100 - number)
    release(root, "one", 1, ["sglang-a", "router-a"])
    release(root, "one", 2, ["sglang-b"], simulator="simulator-a")
    release(root, "other", 1, instance="sglang-d")

    gone = prune(str(root), 0, really=True)

    assert [row["id"] for row in gone] == ["sglang-c"]
    assert left(root) == ["router-a", "sglang-a", "sglang-b", "sglang-d", "simulator-a"]
    assert {row["id"]: row["used"] for row in builds(str(root))}["sglang-a"] == ["release one/1"]


def test_of_the_others_the_newest_of_each_kind_stay(root):
    for name, age in [("sglang-1", 9), ("sglang-2", 8), ("sglang-3", 7), ("router-1", 6), ("sglang-used", 1)]:
        build(root, name, age)
    release(root, "one", 1, ["sglang-used"])

    assert [row["id"] for row in prune(str(root), 2, really=False)] == ["sglang-1"]
    assert "sglang-1" in left(root)
    prune(str(root), 1, really=True)
    assert left(root) == ["router-1", "sglang-3", "sglang-used"]


def test_what_runs_or_is_being_made_stays(root):
    build(root, "sglang-running", 9)
    build(root, "sglang-made", 9, complete=False)
    build(root, "sglang-half", 9, complete=False)
    program = root / "engines/sglang-running/python"
    program.symlink_to(sys.executable)
    job = root / "jobs/sglang-made"
    job.mkdir(parents=True)
    sleeper = subprocess.Popen([str(program), "-c", "import time; time.sleep(60)"])
    waiter = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (job / "key").write_text("sglang-made")
    (job / "pid").write_text(f"{waiter.pid} {started(waiter.pid)}")
    try:
        gone = prune(str(root), 0, really=True)
    finally:
        for process in (sleeper, waiter):
            process.kill()
            process.wait()

    assert [row["id"] for row in gone] == ["sglang-half"]


def test_a_release_that_cannot_be_read_stops_the_pruning(root):
    build(root, "sglang-1", 9)
    release(root, "one", 1)
    (root / "deployments/one/releases/1/plan.json").write_text("{")

    with pytest.raises(PruneError, match=r"releases/1/plan.json cannot be read \(JSONDecodeError\)"):
        prune(str(root), 0, really=True)
    assert left(root) == ["sglang-1"]


def test_the_command_names_first_and_removes_when_told(root, capsys):
    build(root, "sglang-1", 9)
    build(root, "sglang-2", 8)

    assert main(["builds", "--root", str(root), "--prune", "--kept", "1"]) == 0
    assert capsys.readouterr().out.startswith("would remove sglang-1: 0.00 GB\n")
    assert left(root) == ["sglang-1", "sglang-2"]
    assert main(["builds", "--root", str(root), "--prune", "--kept", "1", "--yes"]) == 0
    assert left(root) == ["sglang-2"]
    assert main(["builds", "--root", str(root / "engines"), "--prune"]) == 1
    assert "ROOT is the folder that holds engines/" in capsys.readouterr().err
