"""Gates: a build counts only when what will run it can run it, as the user and in the environment that it will have."""

import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from slipway.agent import gates
from slipway.bundle import agent_bundle
from tests.slipway.agent.test_build import wheel

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
NOBODY = "nobody"
PYTHON = "/usr/bin/python3"  # what other users may run; ours may lie in a home folder


@pytest.fixture
def make():
    """Build `thing` where other users may look, too."""
    root = Path(tempfile.mkdtemp(prefix="slg-", dir="/var/tmp"))
    root.chmod(0o755)

    def run(body="x = 1\n", **more):
        found = wheel(root / "wheels", body=body)
        sha = hashlib.sha256(found.read_bytes()).hexdigest()
        request = {
            "path": str(root / "engines/thing"), "id": "thing", "python": PYTHON, "locked": True,
            "requirements": f"thing==1.0 --hash=sha256:{sha}\n", "imports": ["thing"], "disk_gb": 0.01,
            "environment": {}, "sources": {"find_links": str(root / "wheels")}, "inputs": {}, "uv": str(root / "uv"),
            "distribution": "thing", "version": "1.0", **more,
        }  # fmt: skip
        (root / "request.json").write_text(json.dumps(request))
        bundle = root / "agent.pyz"  # as on a host: the other user may have no way to our checkout
        bundle.write_bytes(agent_bundle())
        done = subprocess.run(
            [sys.executable, str(bundle), "build", str(root / "request.json")],
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SECRET_OF_THE_LOGIN": "1"},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout.strip().splitlines()[-1], root / "engines/thing"

    yield run
    shutil.rmtree(root)


@needs_root
def test_the_gates_run_as_the_service_s_user_and_in_its_environment(make):
    body = (
        "import getpass, os, pwd\n"
        f"if os.getuid() != 0:\n    assert pwd.getpwuid(os.getuid()).pw_name == '{NOBODY}'\n"
        "    assert os.environ['OF_THE_UNIT'] == 'yes' and 'SECRET_OF_THE_LOGIN' not in os.environ\n"
        "    open(os.path.join(os.environ['TMPDIR'], 'mine'), 'w').close()\n"
    )
    rc, last, path = make(body, service={"user": NOBODY, "env": {"OF_THE_UNIT": "yes", "PATH": "/usr/bin:/bin"}})

    assert rc == 0, last
    recorded = json.loads((path / "build.json").read_text())
    assert recorded["gated"] == {"as": NOBODY, "imports": ["thing"]}
    assert recorded["tools"]["uv"].startswith("uv ")
    assert recorded["tools"]["python"].startswith("Python 3.")
    assert recorded["lock"] == hashlib.sha256((path / "requirements.txt").read_bytes()).hexdigest()
    assert {p.stat().st_uid for p in path.rglob("*")} == {0}


@needs_root
def test_what_only_root_can_import_is_refused_with_the_user_s_name(make):
    body = "import os\nif os.getuid():\n    open('/root/secret')\n"
    rc, last, _ = make(body, service={"user": NOBODY, "env": {"PATH": "/usr/bin:/bin"}})

    assert rc == 1
    assert last.startswith(f"error: the build does not import as {NOBODY}: thing: PermissionError")


@needs_root
def test_a_user_that_is_not_there_is_said(make):
    rc, last, _ = make(service={"user": "no-such-user", "env": {}})

    assert rc == 1
    assert last == "error: the user no-such-user, which the service is to run as, is not there; see service.user"


@needs_root
def test_a_python_that_the_user_may_not_run_is_named(make):
    hidden = Path(tempfile.mkdtemp(prefix="slg-", dir="/var/tmp"))  # 700
    shutil.copy(os.path.realpath(PYTHON), hidden / "python3")
    try:
        rc, last, _ = make(python=str(hidden / "python3"), service={"user": NOBODY, "env": {}})
    finally:
        shutil.rmtree(hidden)

    assert (rc, last.startswith(f"error: {NOBODY} may not run {hidden}/python3; use a Python outside")) == (1, True), (
        last
    )


def test_our_own_user_imports_in_the_unit_s_environment_and_leaves_the_bytecode(make):
    body = "import os\nassert os.environ['OF_THE_UNIT'] == 'yes' and 'SECRET_OF_THE_LOGIN' not in os.environ\n"
    env = {"OF_THE_UNIT": "yes", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    rc, last, path = make(body, service={"user": pwd.getpwuid(os.geteuid()).pw_name, "env": env})

    assert rc == 0, last
    assert list(path.rglob("__pycache__/thing.*.pyc"))


def test_a_compiler_that_is_not_found_is_named_with_where_it_was_looked_for(make):
    tool = {"names": ["no-such-cc"], "places": ["$CUDA_HOME/bin"], "unless": [], "why": "kernels are compiled"}
    rc, last, _ = make(tools=[tool])
    assert rc == 1
    assert last.endswith("no no-such-cc in PATH, $CUDA_HOME/bin: kernels are compiled")


def test_a_compiler_counts_in_the_unit_s_places_or_when_a_package_makes_it_needless(make, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/no-such-cc").write_text("#!/bin/sh\n")
    (tmp_path / "bin/no-such-cc").chmod(0o755)
    tool = {"names": ["no-such-cc"], "places": ["$CUDA_HOME/bin"], "unless": [], "why": "kernels are compiled"}
    me = pwd.getpwuid(os.geteuid()).pw_name
    env = {"PATH": "/usr/bin:/bin", "CUDA_HOME": str(tmp_path)}

    assert make(tools=[tool], service={"user": me, "env": env})[0] == 0
    shutil.rmtree(tmp_path / "bin")
    assert make(tools=[{**tool, "unless": ["thing"]}])[0] == 0


def torch(built, sees=True):
    """Only what torch documents: a real one has no question for the driver's CUDA."""
    cuda = SimpleNamespace(is_available=lambda: sees)
    return SimpleNamespace(__version__="2.11.0", version=SimpleNamespace(cuda=built), cuda=cuda)


@pytest.mark.parametrize(
    ("driver", "found", "gpus", "wrong"),
    [
        (13000, torch("13.0"), True, ""),
        (12080, torch("13.0"), True,
         "torch 2.11.0 is built for CUDA 13.0; the driver has CUDA 12.8: install a newer one"),
        (13000, torch("13.0", sees=False), True,
         "torch 2.11.0 for CUDA 13.0 finds no GPU, though there are some: see nvidia-smi"),
        (0, torch("13.0"), True, ""),  # a driver that does not tell is left to torch
        (12080, torch("13.0"), False, ""),
        (12080, torch(None), True, ""),
        (12080, None, True, ""),
    ],
)  # fmt: skip
def test_torch_s_cuda_is_held_against_the_driver_s(monkeypatch, driver, found, gpus, wrong):
    monkeypatch.setattr(gates, "driver_cuda", lambda: driver)

    assert gates.wrong_driver(found, gpus) == wrong


def test_a_machine_without_a_driver_tells_no_cuda(monkeypatch):
    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(gates.ctypes, "CDLL", absent)

    assert gates.driver_cuda() == 0
