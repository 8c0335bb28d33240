"""Fixtures for tests on staging hosts.

lab          h1 and h2, for the whole session, in whatever state the last test left them
hosts        the lab, put back after the test: to the newest snapshot, or to newly installed
fresh_lab    the lab as newly installed, for one module; what the module snapshots is dropped after it
run_pyinfra, run_slipway, start_pyinfra    the programs, run where the controller is
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.staging.lab import Lab, missing
from tests.staging.lab.commands import Done

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
ADDRESSES = {"h1": "10.77.0.11", "h2": "10.77.0.12"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests in this folder carry the marker `staging`."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.staging)


@functools.cache
def _why_not() -> str:
    return missing()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip where hosts cannot run; in CI that is a failure.

    From here and not from a fixture, since pytest folds these skips into one line of its summary.
    """
    if "staging_machine" not in getattr(item, "fixturenames", ()) or not (why := _why_not()):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and {why}", pytrace=False)
    pytest.skip(f"STAGING NOT TESTED: {why}")


@pytest.fixture(scope="session")
def staging_machine() -> None:
    """For tests that start hosts: they run only where those can."""


@pytest.fixture(scope="session")
def lab(staging_machine: None) -> Iterator[Lab]:
    with Lab(ADDRESSES) as lab:
        yield lab
    assert lab.leftovers() == []


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Lab]:
    """The reset comes after the test, so that a test starts at once."""
    yield lab
    lab.reset()


@pytest.fixture(scope="module")
def fresh_lab(lab: Lab) -> Iterator[Lab]:
    """Deploy onto it in a module fixture, snapshot(), and `hosts` comes back to that after each test."""
    lab.reset(fresh=True)
    yield lab
    lab.reset(fresh=True)


def _program(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _runner(lab: Lab, name: str) -> Callable[..., Done]:
    def run(
        *arguments: object,
        env: dict[str, str] | None = None,
        cwd: Path = REPOSITORY,
        timeout: float = 300,
        check: bool = False,
    ) -> Done:
        """stdout and stderr come back as one text, in .stdout; with check, a failure raises with it."""
        full = lab.environment | (env or {})
        return lab.ctl(_program(name), *arguments, check=check, env=full, cwd=cwd, timeout=timeout)

    return run


@pytest.fixture(scope="session")
def run_pyinfra(lab: Lab) -> Callable[..., Done]:
    return _runner(lab, "pyinfra")


@pytest.fixture(scope="session")
def run_slipway(lab: Lab) -> Callable[..., Done]:
    return _runner(lab, "slipway")


@pytest.fixture
def start_pyinfra(lab: Lab) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """For what happens during a run: kill it, cut a cable. stdout and stderr are one pipe."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        options.setdefault("cwd", REPOSITORY)
        process = lab.start(_program("pyinfra"), *arguments, env=lab.environment | (env or {}), **options)
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
