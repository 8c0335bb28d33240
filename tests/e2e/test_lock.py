"""Two runs against one deployment, as real processes on this machine."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from tests.e2e.site import BIN, CHECKOUT, Site


@pytest.fixture
def changed(site):
    """The site with something to put right, which restarts nothing."""
    tamper(site)
    return site


def tamper(site: Site) -> None:
    (site.root / "deployments" / site.name / "services" / "decode-0.env").chmod(0o600)


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


def test_two_deploys_at_once_a_dead_one_and_an_interrupted_one(changed):
    site, count = changed, len(audit(changed))
    first = started(site, "Starting operation: Host")
    first.send_signal(signal.SIGSTOP)  # it would be done before the second comes
    try:
        refused = site.deploy(**{"rollout.lock_wait_s": 0})
        holder = json.loads((home(site) / "lock").read_text())

        assert refused.rc == 1, refused.out
        assert f"{site.name} is being changed by {holder['who']}@{holder['from']} pid {first.pid}" in refused.out
        assert f"(deploy since {holder['since']})" in refused.out
        assert f"--data break_lock={holder['id']}" in refused.out
        assert "nothing was changed" in refused.out
        assert "Traceback" not in refused.out

        looked = site.dry()  # takes no lock
        assert looked.rc == 0, looked.out
        assert json.loads((home(site) / "lock").read_text()) == holder
    finally:
        first.kill()
        first.communicate()

    # The first is gone, on this machine: its lock holds nobody up. One that is asked to stop stops cleanly.
    tamper(site)
    second = started(site, "Starting operation: Host")
    second.send_signal(signal.SIGINT)
    with second.stdout:
        said = second.stdout.read()  # communicate() would lose what the loop before has buffered
    assert second.wait(60) == 130, said
    assert "Ctrl-C: stopped" in said
    assert "Traceback" not in said
    assert not (home(site) / "lock").exists()

    tamper(site)
    done = site.deploy()
    assert done.rc == 0, done.out
    assert not (home(site) / "lock").exists()
    results = [row["result"] for row in audit(site)[count:] if row["step"] == "deploy"]
    assert results == ["begun", "begun", "interrupted", "begun", "ok"]


def test_a_lock_of_another_machine_is_waited_for_broken_by_name_or_dead_by_its_silence(changed):
    lock = home(changed) / "lock"
    foreign = {"id": "f00d", "who": "ann", "from": "elsewhere", "what": "rollback", "since": "today", "pid": 7}
    lock.write_text(json.dumps(foreign))

    refused = changed.deploy(**{"rollout.lock_wait_s": 1, "break_lock": "c0de"})
    assert refused.rc == 1, refused.out
    assert "is being changed by ann@elsewhere pid 7 (rollback since today)" in refused.out
    assert re.search(r"break_lock=f00d after \d+ s; nothing was changed", refused.out), refused.out

    broken = changed.deploy(**{"rollout.lock_wait_s": 0, "break_lock": "f00d"})
    assert broken.rc == 0, broken.out
    assert "took over the lock of ann@elsewhere" in broken.out
    assert "broken as asked" in broken.out

    tamper(changed)
    lock.write_text(json.dumps(foreign))
    os.utime(lock, (time.time() - 130, time.time() - 130))
    silent = changed.deploy(**{"rollout.lock_wait_s": 0})
    assert silent.rc == 0, silent.out
    assert "it gave no sign of life for 1" in silent.out, silent.out
    assert not lock.exists()
