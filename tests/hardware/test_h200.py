"""The script for the pair of H200, rehearsed: the simulated engine, and the answers of such a machine's nvidia-smi."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.e2e.site import CHECKOUT, port_here
from tests.hardware.nvidia_smi import install

STAGES = ["prepare", "aggregated", "disaggregated", "change", "wrong", "killed", "by-hand", "destroy"]
PORTS = {"unified.port": 22300, "prefill.port": 22300, "prefill.bootstrap_port": 22310, "decode.port": 22320,
         "router.port": 22330, "router.metrics_port": 22340}  # fmt: skip


@pytest.mark.full
def test_every_stage_holds_with_the_simulator(tmp_path):
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin")
    root = Path(tempfile.mkdtemp(prefix="slh-", dir="/var/tmp")) / "r"
    data = [word for key, port in PORTS.items() for word in ("--data", f"{key}={port_here(port)}")]
    out = tmp_path / "out"
    command = [sys.executable, "-m", "hardware.h200", *STAGES, "--simulated", "--root", root, "--out", out]
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        [*command, "--packed", tmp_path, "--scratch", tmp_path / "scratch", *data],
        cwd=CHECKOUT, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip

    root.parent.rmdir()
    assert done.returncode == 0, done.stdout
    stages = {row["stage"]: row for row in map(json.loads, (out / "stages.jsonl").read_text().splitlines())}
    assert list(stages) == STAGES
    assert [row["streams"] for row in json.loads((out / "by-hand.json").read_text())] == [1, 8, 16]
    assert (out / "deployment.tar.xz").stat().st_size > 1000
