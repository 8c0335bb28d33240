"""What the test command says of its runs: one that fails fails it, none that fails does not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/test"
PYTHON = """#!/bin/sh
case "$*" in
    *--ignore*) run=rest ;;
    *pytest*tests/e2e) run=e2e ;;
    *pytest*tests/staging) run=staging ;;
    *) exit 0 ;;
esac
echo "$run ran"
[ "$run" != "$FAILS" ]
"""


@pytest.fixture
def tree(tmp_path):
    """A checkout in which every run of tests is a shell script."""
    for name in ("scripts/lint", ".venv/bin/chromium", "cache/smg-1.13.0/bin/smg"):
        program(tmp_path / name, "#!/bin/sh\n")
    program(tmp_path / ".venv/bin/python", PYTHON)
    shutil.copy(SCRIPT, tmp_path / "scripts/test")
    return tmp_path


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def run(tree, fails):
    env = {**os.environ, "SLIPWAY_CACHE": str(tree / "cache"), "FAILS": fails}
    return subprocess.run([tree / "scripts/test"], env=env, capture_output=True, text=True, timeout=30)


def test_three_runs_that_pass_pass(tree):
    done = run(tree, "none")

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if line.endswith(" ran")] == ["rest", "e2e", "staging"]


@pytest.mark.parametrize("fails", ["rest", "e2e", "staging"])
def test_one_run_that_fails_fails_all_and_the_others_are_shown(tree, fails):
    done = run(tree, fails)

    assert done.returncode == 1
    assert done.stdout.count(" ran") == 3
