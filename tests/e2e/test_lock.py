"""Two runs against one deployment, as real processes on this machine."""

import json
import os
import signal
import subprocess
import time

import pytest

from tests.e2e.site import BIN, CHECKOUT, Site


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    site = Site("lock", tmp_path_factory.mktemp("l"), 21300, {"engine.kind": "simulator"})
    yield site
    gone = site.destroy()
    assert gone.rc == 0, gone.out
    assert not site.root.exists()


def started(site: Site, until: str, **more: object) -> subprocess.Popen:
    """A deploy that has come as far as a line with `until`."""
    process = subprocess.Popen(
        site.command("-y", "deploy.py", **more),
        cwd=CHECKOUT,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in process.stdout:
        if until in line:
            return process
    raise AssertionError(f"it ended without {until!r}")


def home(site: Site):
    return site.root / "deployments" / site.name


def audit(site: Site) -> list[dict]:
    return [json.loads(line) for line in (home(site) / "audit.jsonl").read_text().splitlines()]


def test_two_deploys_at_once_a_dead_one_and_an_interrupted_one(bare):
    first = started(bare, "Starting operation: Engine")
    try:
        refused = bare.deploy(**{"rollout.lock_wait_s": 0})
        holder = json.loads((home(bare) / "lock").read_text())

        assert refused.rc == 1, refused.out
        assert f"{bare.name} is being changed by {holder['who']}@{holder['from']} pid {first.pid}" in refused.out
        assert f"(deploy since {holder['since']})" in refused.out
        assert f"--data break_lock={holder['id']}" in refused.out
        assert "nothing was changed" in refused.out
        assert "Traceback" not in refused.out

        looked = bare.dry()  # takes no lock
        assert looked.rc == 0, looked.out
        assert json.loads((home(bare) / "lock").read_text()) == holder
    finally:
        first.kill()
        first.communicate()

    # The first is gone, on this machine: its lock holds nobody up. One that is asked to stop stops cleanly.
    second = started(bare, "Starting operation: Engine")
    second.send_signal(signal.SIGINT)
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 130, said
    assert "Ctrl-C: stopped" in said
    assert "Traceback" not in said
    assert not (home(bare) / "lock").exists()
    assert not (home(bare) / "current").exists()

    done = bare.deploy()
    assert done.rc == 0, done.out
    assert not (home(bare) / "lock").exists()
    results = [row["result"] for row in audit(bare) if row["step"] == "deploy"]
    assert results == ["begun", "begun", "interrupted", "begun", "ok"]


def test_a_lock_of_another_machine_is_waited_for_broken_by_name_or_dead_by_its_silence(bare):
    lock = home(bare) / "lock"
    foreign = {"id": "f00d", "who": "ann", "from": "elsewhere", "what": "rollback", "since": "today", "pid": 7}
    lock.write_text(json.dumps(foreign))
    change = {"decode.max_running_requests": 5}

    refused = bare.deploy(**change, **{"rollout.lock_wait_s": 1, "break_lock": "c0de"})
    assert refused.rc == 1, refused.out
    assert "is being changed by ann@elsewhere pid 7 (rollback since today)" in refused.out
    assert "after 2 s" in refused.out or "after 3 s" in refused.out

    broken = bare.deploy(**change, **{"rollout.lock_wait_s": 0, "break_lock": "f00d"})
    assert broken.rc == 0, broken.out
    assert "took over the lock of ann@elsewhere" in broken.out
    assert "broken as asked" in broken.out

    lock.write_text(json.dumps(foreign))
    os.utime(lock, (time.time() - 130, time.time() - 130))
    gone = bare.destroy()  # takes the lock as a deploy does
    assert gone.rc == 0, gone.out
    assert "it gave no sign of life for 13" in gone.out
    assert not bare.root.exists()
