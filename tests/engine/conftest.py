"""The real SGLang on this machine's CPU, built and deployed once for the tests of this folder. Never skipped."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.e2e.site import Site


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


@pytest.fixture(scope="session")
def engine_site():
    """A prefill, a decode and the router; everything that `make deploy` does, under a ROOT of its own."""
    root = Path(tempfile.mkdtemp(prefix="slw-", dir="/var/tmp"))
    site = Site("cpu", root, 22000)
    site.shared_before = shared_memory()
    try:
        site.first = site.run("-y", "deploy.py", timeout=1800)  # a busy machine builds and loads for long
        yield site
    finally:  # nothing stays when the deploy does not end either
        gone = site.destroy()
        left = root.exists()
        shutil.rmtree(root, ignore_errors=True)
    assert gone.rc == 0, gone.out
    assert not left
    assert site.pids() == {}
    assert {name for name in shared_memory() - site.shared_before if name.startswith(("sem.mp-", "sglang"))} == set()
