"""Role profile: the engine's profiler around a known load, and where the time went; the engine is left as it was."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import click
from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import logger, state
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.inventory import asked
from roles.profile.read import show
from roles.profile.record import Wish, fetch, record
from roles.remote import RemoteError
from roles.run import RefusedError, Run
from slipway.profile import TraceError

_lock = BoundedSemaphore(1)


@deploy("Profile")
def profile(run: Run) -> None:
    """Profile the worker that --data worker=NAME gives."""
    with _lock:
        if "profile" not in run.notes:
            run.notes["profile"] = wish(run)
    once(name="Profile a worker", run=run)


@operation()
def once(run: Run) -> Generator[Any, None, None]:
    """Profile once, from the host that comes first.

    Example: `once(name="Profile a worker", run=run)`.
    """
    if state.is_executing and current_host.name == next(iter(run.hosts)):
        yield FunctionCommand(_profile, (run,), {})
    else:
        current_host.noop("one worker is profiled for all hosts")


def wish(run: Run) -> Wish:
    """What was asked for. Raises RefusedError."""
    workers = [one for role in ("decode", "unified", "prefill") for one in run.plan.serving(role)]
    name = asked("worker") or workers[0].name
    found = next((one for one in workers if one.name == name), None)
    if found is None:
        raise RefusedError(f"--data worker={name}: must be one of {', '.join(one.name for one in workers)}")
    seconds = _number("seconds", asked("seconds"), 3, 60)
    streams = _number("streams", asked("streams"), 8, 1024)
    label = str(asked("label") or f"{found.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    if not label.replace("-", "").replace("_", "").replace(".", "").isalnum() or label.startswith("."):
        raise RefusedError(f"--data label={label}: must be letters, digits, dots, dashes and underscores")
    return Wish(found, seconds, int(streams), run.opened.inventory.parent / "profile" / label)


def _number(name: str, given: Any, default: float, most: float) -> float:
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given <= most:
        raise RefusedError(f"--data {name}={given}: must be a number above 0, and at most {most:g}")
    return given


def _profile(state: Any, host: Host, run: Run) -> bool:
    wanted: Wish = run.notes["profile"]
    try:
        sizes, load = record(run, wanted)
        paths = fetch(run, wanted, sizes)
        lines = show(wanted.worker.name, paths, load)
    except (RemoteError, TraceError) as error:
        logger.error(f"    no profile of {wanted.worker.name}: {error}")
        return False
    click.echo("\n".join(lines))
    return True
