"""What a host is asked: files, folders, builds, ports and processes, without changing any of them."""

import hashlib
import json
import os
import socket
import subprocess
import sys

import pytest

from slipway.agent.build import write_json
from slipway.agent.state import build_state, fingerprint, process_marks, read_state
from slipway.bundle import agent_source


def test_it_runs_from_its_source_alone(tmp_path):
    (tmp_path / "f").write_text("x")
    request = json.dumps({"files": [str(tmp_path / "f")]})

    done = subprocess.run([sys.executable, "-c", agent_source("state"), request], capture_output=True, text=True)

    assert json.loads(done.stdout)["files"][str(tmp_path / "f")]["sha256"] == hashlib.sha256(b"x").hexdigest()


def test_files_are_told_apart(tmp_path):
    (tmp_path / "file").write_text("text\n")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    names = ["file", "link", "none", "."]

    found = read_state({"files": [str(tmp_path / name) for name in names]})["files"]

    kinds = [found[str(tmp_path / name)]["kind"] for name in names]
    assert kinds == ["file", "link", "absent", "folder"]
    assert found[str(tmp_path / "file")]["mode"] == "640"
    assert found[str(tmp_path / "link")]["target"] == "file"


def sealed(path):
    (path / "venv").mkdir(parents=True)
    (path / "venv/module.py").write_text("x = 1\n")
    digest, files = fingerprint(str(path))
    write_json(str(path / "complete"), {"fingerprint": digest, "files": files})
    return path


def edit(path):
    (path / "venv/module.py").write_text("x = 2\n")


def remove(path):
    (path / "venv/module.py").unlink()


def add(path):
    (path / "venv/more.py").touch()


def mode(path):
    (path / "venv/module.py").chmod(0o755)


def touch(path):
    os.utime(path / "venv/module.py", ns=(1, 1))


@pytest.mark.parametrize("harm", [edit, remove, add, mode, touch])
def test_a_build_that_was_touched_is_damaged(tmp_path, harm):
    path = sealed(tmp_path / "b")
    assert build_state(str(path)) == {"kind": "complete"}

    harm(path)

    assert build_state(str(path))["kind"] == "damaged"


def test_bytecode_does_not_count(tmp_path):
    path = sealed(tmp_path / "b")
    (path / "venv/__pycache__").mkdir()
    (path / "venv/__pycache__/module.cpython-311.pyc").touch()

    assert build_state(str(path)) == {"kind": "complete"}


def test_a_build_without_its_marker_is_incomplete(tmp_path):
    path = sealed(tmp_path / "b")
    (path / "complete").unlink()

    assert build_state(str(path)) == {"kind": "incomplete"}
    assert build_state(str(tmp_path / "none")) == {"kind": "absent"}


def test_a_listener_is_named_with_its_process():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = read_state({"ports": [port, 1]})["ports"]

    assert list(found) == [str(port)]
    assert found[str(port)]["pid"] == os.getpid()
    assert "python" in found[str(port)]["command"]


def test_free_space_is_told_for_a_folder_that_is_yet_to_be(tmp_path):
    path = str(tmp_path / "a/b/c")

    assert read_state({"disks": [path]})["disks"][path] > 0


@pytest.mark.parametrize(
    ("unit", "told"),
    [("", "a1"), ("a1", "a1"), ("b2", "a1 in the unit of b2")],
    ids=["without a unit", "as its unit", "between two writes"],
)
def test_a_process_that_was_started_between_two_writes_runs_neither_configuration(unit, told):
    env = {**os.environ, "SLIPWAY_CONFIG": "a1", **({"SLIPWAY_UNIT": unit} if unit else {})}
    command = ["sh", "-c", "echo began; read end"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = process_marks(process.pid)
        process.kill()
    assert found["config"] == told
