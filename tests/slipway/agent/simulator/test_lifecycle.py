"""Start, stop and refusal to start, as a service manager sees them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipapp
from pathlib import Path

import pytest

from .conftest import Start
from .harness import ROOT, Reply, Simulator, ask, chat_body


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-S", "-m", "slipway.agent.simulator", *argv]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=10, check=False
    )


def test_phases_closed_then_503_then_200(start: Start) -> None:
    simulator = start(ready=False, SLIPWAY_SIM_LOAD_S="0.4", SLIPWAY_SIM_WARMUP_S="0.4")
    seen: list[int] = []
    deadline = time.monotonic() + 10
    while (not seen or seen[-1] != 200) and time.monotonic() < deadline:
        status = simulator.health()
        if not seen or seen[-1] != status:
            seen.append(status)
        time.sleep(0.01)
    assert seen == [0, 503, 200]


def test_the_log_reads_like_the_engines(start: Start) -> None:
    log = start().log
    for text in ("server_args=ServerArgs(model_path=", "Load weight begin.", "Load weight end.", "Uvicorn running on"):
        assert text in log
    assert log.index("Load weight end.") < log.index("The server is fired up and ready to roll!")
    assert all(line.startswith("[20") for line in log.splitlines())


@pytest.mark.parametrize(
    ("argv", "env", "message"),
    [
        (["--model-path", "/nonexistent"], {}, "no config.json there"),
        ([], {}, "--model-path is required"),
        (["--model-path", "M"], {"SLIPWAY_SIM_FAULTS": "garbag"}, "did you mean garbage?"),
        (["--model-path", "M"], {"SLIPWAY_SIM_FAULTS": "hang-after=soon"}, "REQUESTS must be a number"),
        (["--model-path", "M"], {"SLIPWAY_SIM_TIMING": '{"decode": 1}'}, "must be a JSON object of prefill_base_ms"),
        (["--model-path", "M", "--disaggregation-mode", "both"], {}, "must be null, prefill or decode"),
    ],
)
def test_a_start_that_cannot_work_is_one_line_and_exit_1(
    model: Path, argv: list[str], env: dict[str, str], message: str
) -> None:
    done = run(*[str(model) if word == "M" else word for word in argv], **env)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_taken_port_is_exit_1(model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run("--model-path", str(model), "--port", port, SLIPWAY_SIM_LOAD_S="0")
    assert done.returncode == 1
    assert "address already in use" in done.stderr


def ask_in_background(simulator: Simulator, replies: list[Reply]) -> threading.Thread:
    body = chat_body("drain", max_tokens=40, ignore_eos=True)
    target = lambda: replies.append(ask(simulator.port, "/v1/chat/completions", body))  # noqa: E731
    thread = threading.Thread(target=target)
    thread.start()
    time.sleep(0.15)
    return thread


@pytest.mark.parametrize(("release", "status"), [("0.5.13", -signal.SIGKILL), ("0.5.19", 0)])
def test_sigterm_drains_and_ends_as_the_release_does(start: Start, release: str, status: int) -> None:
    simulator = start(SLIPWAY_SIM_RELEASE=release, SLIPWAY_SIM_TIMING='{"decode_ms": 20}')
    replies: list[Reply] = []
    thread = ask_in_background(simulator, replies)
    simulator.process.terminate()
    simulator.wait_log("SIGTERM received")
    assert simulator.health() == 503
    thread.join()
    assert replies[0].json["usage"]["completion_tokens"] == 40
    assert simulator.process.wait(timeout=5) == status
    assert "Gracefully exiting... Remaining number of requests 1." in simulator.log


def test_it_runs_from_a_zip(model: Path, tmp_path: Path) -> None:
    """As it is copied to hosts: the agents in one file."""
    tree = tmp_path / "tree" / "slipway"
    shutil.copytree(ROOT / "slipway/agent/simulator", tree / "agent/simulator")
    for package in (tree, tree / "agent"):
        (package / "__init__.py").write_text("")
    (tmp_path / "tree/__main__.py").write_text(
        "import sys\nfrom slipway.agent.simulator.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    zipapp.create_archive(tmp_path / "tree", tmp_path / "agent.pyz")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "agent.pyz"), "--list-faults"], capture_output=True, text=True, check=True
    )
    assert "wrong-answer" in done.stdout


def test_list_faults_prints_the_table() -> None:
    done = run("--list-faults")
    assert done.returncode == 0
    assert "wrong-answer" in done.stdout
    assert len(done.stdout.splitlines()) >= 60


def test_a_broken_known_answers_file_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "known_answers.json").write_text(json.dumps({"a": 1}))
    done = run("--model-path", str(tmp_path))
    assert (done.returncode, "must be a list of" in done.stderr) == (1, True)
