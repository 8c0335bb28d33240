"""Role rollout: the one coordinated step over all hosts that stops and starts what serves, and its record.

It runs after everything that touches no traffic has converged on every host; the host that comes to it first
does it for all, in the plan's order, and stops at the first failure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import logger
from pyinfra import state as running
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.hooks import after, before
from roles.interrupt import in_hand
from roles.releases import prepare, seal
from roles.remote import RemoteError
from roles.rollout.back import put_back
from roles.rollout.closing import failed_at_exit
from roles.rollout.walk import unsettled, walk_steps
from roles.run import RefusedError, Run
from roles.steps import converge
from slipway.converge.change import Change

_lock = BoundedSemaphore(1)


@deploy("Rollout")
def rollout(run: Run) -> None:
    """Start, restart and remove instances as their state asks for."""
    changes = [change for change in run.here("rollout") if not change.subject.startswith("release")]
    roll(name="Start and restart instances", run=run, changes=changes)


@operation()
def roll(run: Run, changes: list[Change]) -> Generator[Any, None, None]:
    """Make the changes of all hosts, once for all of them.

    Example: `roll(name="Start and restart instances", run=run, changes=run.here("rollout"))`.
    """
    if not changes and not (running.is_executing and unsettled(run)):
        current_host.noop("every instance runs what the plan says")
        return
    yield FunctionCommand(_once, (run,), {})


def _once(state: Any, host: Host, run: Run) -> bool:
    with _lock, in_hand("rollout"):
        if "rollout" not in run.notes:
            run.notes["rollout"] = _guarded(state, run)
    return bool(run.notes["rollout"])


def _guarded(state: Any, run: Run) -> bool:
    """Refuse when an earlier step failed anywhere: traffic is touched only from a converged state."""
    failed = sorted(host.name for host in state.failed_hosts)
    if failed:
        logger.error(f"    an earlier step failed on {', '.join(failed)}: nothing that serves was touched")
        return False
    try:
        before(run, "rollout")
        prepare(run)
    except (RemoteError, RefusedError) as error:
        logger.error(f"    {error}; nothing that serves was touched")
        after(run, "rollout", "failed")
        return False
    done = _attempt(run)
    after(run, "rollout", "ok" if done else "failed")
    return done


def _attempt(run: Run) -> bool:
    """The rollout and its gate; when either fails, the release that served before is put back."""
    try:
        run.notes["climbed"] = walk_steps(run)
    except (RemoteError, RefusedError) as error:
        logger.error(f"    rollout stopped: {error}")
        failed_at_exit(run, error, put_back(run, error))
        return False
    return True


@deploy("Record")
def record(run: Run) -> None:
    """Write the release that is now proven, and point `current` at it."""
    changes = [change for change in run.here("rollout") if change.subject.startswith("release")]
    converge(name="Record the release", changes=changes, make=_recorder(run))


def _recorder(run: Run) -> Callable[[Host, Change], None]:
    def make(host: Host, change: Change) -> None:
        if host.name not in run.notes.get("prepared", {}):
            prepare(run, [host.name])
        seal(run, host.name, change.data[0])

    return make
