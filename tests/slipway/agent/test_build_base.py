"""Builds laid over the packages of a Python that the host has already."""

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from slipway.agent.state import build_state
from tests.slipway.agent.test_build import wheel

TORCH = "class version:\n    cuda = '13.0'\n"


def requiring(folder, needs):
    """A wheel of `thing`, which needs torch and imports it."""
    path = wheel(folder, body="import torch\nx = torch.version.cuda\n")
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    files["thing-1.0.dist-info/METADATA"] += f"Requires-Dist: {needs}\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A Python with torch in it, which is not ours."""
    folder = tmp_path_factory.mktemp("base")
    python = folder / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (site,) = folder.glob("venv/lib/*/site-packages")
    (site / "pip.pth").write_text(sysconfig.get_paths()["purelib"])  # our own, which is quicker than another one
    torch = wheel(folder / "wheels", name="torch", version="2.11.0+cu130", body=TORCH)
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", torch], check=True)
    return python


@pytest.fixture
def make(base, tmp_path):
    def run(uv=True, needs="torch==2.11.0", **more):
        wheels = tmp_path / "wheels"
        found = requiring(wheels, needs)
        sha = hashlib.sha256(found.read_bytes()).hexdigest()
        request = {
            "path": str(tmp_path / "engines/thing"), "id": "thing", "python": str(base), "locked": True,
            "requirements": f"thing==1.0 --hash=sha256:{sha}\n", "imports": ["thing"], "disk_gb": 0.01,
            "environment": {}, "sources": {"wheelhouse": str(wheels)}, "inputs": {}, "uv": str(tmp_path / "uv"),
            "base": {"python": str(base), "packages": {"torch": "2.11.0"}, "cuda_majors": [13]}, "pip": str(base),
            "distribution": "thing", "version": "1.0", **more,
        }  # fmt: skip
        path = tmp_path / "request.json"
        path.write_text(json.dumps(request))
        (tmp_path / "engines").mkdir(exist_ok=True)
        places = f"{Path(sys.executable).parent}:{os.environ['PATH']}" if uv else "/usr/bin:/bin"
        done = subprocess.run(
            [sys.executable, "-m", "slipway.agent.build", str(path)],
            env={**os.environ, "PATH": places}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout.strip().splitlines()[-1], tmp_path / "engines/thing"

    return run


@pytest.mark.parametrize("uv", [True, False])
def test_torch_is_the_base_s_and_all_else_the_build_s_own(make, uv):
    rc, last, path = make(uv)

    assert rc == 0, last
    ask = "import thing, torch; print(thing.x, thing.__file__, torch.__file__)"
    said = subprocess.run([path / "venv/bin/python", "-c", ask], capture_output=True, text=True).stdout.split()
    assert said[0] == "13.0"
    assert said[1].startswith(str(path))
    assert "/base" in said[2]
    assert list(path.glob("venv/lib/*/site-packages/torch*")) == []


def test_a_base_with_another_torch_is_refused_with_both_versions(make, base):
    rc, last, _ = make(base={"python": str(base), "packages": {"torch": "2.13.0"}, "cuda_majors": [13]})

    assert rc == 1
    assert "has torch 2.11.0+cu130; the release needs 2.13.0 (engine.base_python)" in last


def test_a_base_whose_torch_is_for_another_cuda_is_refused(make, base):
    rc, last, _ = make(base={"python": str(base), "packages": {"torch": "2.11.0"}, "cuda_majors": [12]})

    assert rc == 1
    assert last.endswith("is built for CUDA 13.0; the release's kernels are for CUDA 12")


def test_a_base_without_torch_or_that_is_not_there_is_refused(make, base):
    rc, last, _ = make(base={"python": str(base), "packages": {"triton": "3.6.0"}, "cuda_majors": []})
    assert (rc, "has no triton; the release needs 3.6.0" in last) == (1, True), last

    rc, last, _ = make(base={"python": "/nowhere/python3", "packages": {"torch": "2.11.0"}, "cuda_majors": [13]})
    words = "error: /nowhere/python3 is no program on this host; set engine.base_python to one, or to null"
    assert (rc, last) == (1, words)


def test_requirements_that_the_base_does_not_meet_are_gaps_unless_they_are_known(make):
    rc, last, _ = make(needs="torch==2.13.0")
    assert rc == 1
    assert last.startswith("error: packages do not agree: thing 1.0 ")

    rc, last, _ = make(needs="torch==2.13.0", pip_check_known={"thing": "runs with 2.11 as well"})
    assert rc == 0, last


def test_a_base_whose_torch_changes_later_makes_the_build_a_damaged_one(make, base):
    _, _, path = make()
    (record,) = base.parent.parent.glob("lib/*/site-packages/torch-*.dist-info/METADATA")
    before = record.stat()

    os.utime(record, ns=(1, 1))
    assert build_state(str(path)) == {"kind": "damaged", "base": str(record)}

    os.utime(record, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert build_state(str(path)) == {"kind": "complete"}
