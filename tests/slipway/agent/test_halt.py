"""Stopping leaves nothing: no process, no shared memory, no temporary file; and touches nobody else's."""

import json
import os
import subprocess
import sys
import time

import pytest

HOLDER = """
import mmap, os, sys, time
path = sys.argv[1]
with open(path, "wb") as file:
    file.truncate(4096)
descriptor = os.open(path, os.O_RDWR)
area = mmap.mmap(descriptor, 4096)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder():
    """A process with marks that has mapped a file in /dev/shm; both go with the test."""
    started = []

    def start(instance, name):
        env = {**os.environ, "SLIPWAY_DEPLOYMENT": "halt-test", "SLIPWAY_INSTANCE": instance}
        path = f"/dev/shm/{name}-{os.getpid()}"
        process = subprocess.Popen([sys.executable, "-c", HOLDER, path], env=env, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        started.append((process, path))
        return process, path

    yield start
    for process, path in started:
        process.kill()
        process.wait()
        process.stdout.close()
        if os.path.exists(path):
            os.unlink(path)


def halt(instance, commands, tmp="", patience=5):
    request = {
        "deployment": "halt-test",
        "instance": instance,
        "commands": commands,
        "patience_s": patience,
        "tmp": tmp,
    }
    done = subprocess.run(
        [sys.executable, "-m", "slipway.agent.halt"], input=json.dumps(request), capture_output=True, text=True
    )
    return done.returncode, json.loads(done.stdout)


def test_shared_memory_and_temporary_files_go_with_the_process(holder, tmp_path):
    process, path = holder("prefill-0", "slw-a")
    (tmp_path / "socket").touch()
    (tmp_path / "folder").mkdir()

    rc, result = halt("prefill-0", [["kill", str(process.pid)]], str(tmp_path))

    assert (rc, result["alive"], result["killed"]) == (0, [], [])
    assert result["removed"] == [os.path.basename(path)]
    assert not os.path.exists(path)
    assert list(tmp_path.iterdir()) == []


def test_another_instance_and_its_memory_are_left_alone(holder):
    mine, _ = holder("prefill-0", "slw-a")
    other, kept = holder("decode-0", "slw-b")

    halt("prefill-0", [["kill", str(mine.pid)]])

    assert other.poll() is None
    assert os.path.exists(kept)


def test_a_process_that_does_not_stop_is_killed_and_named(holder):
    process, _ = holder("prefill-0", "slw-a")

    rc, result = halt("prefill-0", [["true"]], patience=0.2)

    assert (rc, result["killed"]) == (0, [process.pid])
    time.sleep(0.1)
    assert process.poll() is not None


def test_what_the_manager_said_of_a_failed_stop_is_told():
    rc, result = halt("none", [["sh", "-c", "echo no such service; exit 3"]])

    assert (rc, result["failures"]) == (0, ["no such service"])
