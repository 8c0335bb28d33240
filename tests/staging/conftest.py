"""Fixtures for tests on staging hosts.

lab          h1 and h2, for the whole session, in whatever state the last test left them
hosts        the lab, put back after the test: to the newest snapshot, or to newly installed
fresh_lab    the lab as newly installed, for one module; what the module snapshots is dropped after it
run_pyinfra, run_slipway, start_pyinfra    the programs, run where the controller is
wheelhouse   the wheels of the router and of uv, downloaded once and kept outside the tree
deployed     examples/staging on a lab of its own, for the whole session; tests leave it as it was
site         the same, for a test that breaks something: put back afterwards
pairs        two prefill and two decode workers on a lab of its own; tests change what serves, and leave it serving
bare         hosts as newly installed, for a whole deploy
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.builds.recipe import recipe_named, requirements_of
from tests.cache import cache_folder
from tests.staging.lab import Lab, missing
from tests.staging.lab.commands import Done
from tests.staging.pairs import SLOWLY, make_pairs
from tests.staging.site import Site, fill_wheelhouse

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


@pytest.fixture(scope="session")
def wheelhouse(staging_machine: None) -> Path:
    return wheelhouse_folder()


def wheelhouse_folder() -> Path:
    locks = "".join(requirements_of(recipe_named(name), "") for name in ("router", "installer"))
    return fill_wheelhouse(cache_folder() / f"wheelhouse-{hashlib.sha256(locks.encode()).hexdigest()[:12]}")


@pytest.fixture(scope="session")
def deployed(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Its own lab, as the other one is reset to fresh hosts again and again."""
    with Lab(ADDRESSES, prefix=f"stg{os.getpid()}d") as lab:
        site = Site(lab, wheelhouse, tmp_path_factory.mktemp("site"), {"service.restart_delay_s": 1})
        ran = site.deploy()
        assert ran.rc == 0, ran.out
        site.first = ran
        lab.snapshot()
        assert site.answers()
        yield site
    assert lab.leftovers() == []


@pytest.fixture
def site(deployed: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Put back when the test says that it left something, or failed."""
    deployed.healthy = False
    yield deployed
    if not deployed.healthy:
        deployed.lab.reset()
        assert deployed.answers()


@pytest.fixture(scope="session")
def pairs(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(ADDRESSES, prefix=f"stg{os.getpid()}p") as lab:
        folder = tmp_path_factory.mktemp("pairs")
        plain = Site(lab, wheelhouse, folder, {"service.restart_delay_s": 1})
        site = make_pairs(plain, folder / "site", {"rollout.confirm_s": 20, "worker.env.SLIPWAY_SIM_TIMING": SLOWLY})
        ran = site.deploy()
        assert ran.rc == 0, ran.out
        yield site
    assert lab.leftovers() == []


@pytest.fixture
def bare(lab: Lab, wheelhouse: Path, tmp_path: Path) -> Iterator[Site]:
    lab.reset(fresh=True)
    yield Site(lab, wheelhouse, tmp_path)
    lab.reset(fresh=True)
