"""Role rollout: the one coordinated step over all hosts that stops and starts what serves, and its record.

It runs after everything that touches no traffic has converged on every host; the host that comes to it first
does it for all, in the plan's order, and stops at the first failure.
"""

from __future__ import annotations

import os
import time
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
from roles.remote import RemoteError, check
from roles.rollout.start import wait_started
from roles.rollout.walk import Walk
from roles.run import RefusedError, Run, print_limits, reread, rollout_changes, steps_of
from roles.services import Services
from roles.steps import converge
from roles.write import write_rows
from slipway.converge.change import Change
from slipway.plan.model import Instance

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
    if not changes and not (running.is_executing and _unsettled(run)):
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
        _roll(run)
    except (RemoteError, RefusedError) as error:
        logger.error(f"    rollout stopped: {error}")
        after(run, "rollout", "failed")
        return False
    after(run, "rollout", "ok")
    return True


def _roll(run: Run) -> None:
    """The steps, then what the managers are still due, then the whole ladder."""
    pending, found = rollout_changes(run), steps_of(run)
    reread(run, run.wanted)
    walk = Walk(run)
    for change in pending:
        walk.on(change.host)
    walk.walk(found)
    for change in pending:
        if change.action == "enable":
            _enable(walk.on(change.host), change)
    _settle(run, {one.name for step in found for one in step.instances})
    reread(run, run.wanted)
    print_limits(run, walk.services)


def _enable(service: Services, change: Change) -> None:
    logger.info(f"    {service.host.name}: enable {change.data} ({change.reason})")
    for words in service.manager.enable(change.data):
        check(service.host, words)


def _unsettled(run: Run) -> list[Instance]:
    """Instances that run but did not listen yet when the host was asked: a crash or a reboot just before us."""
    return [one for one in run.plan.instances if one.serves and not _listens(run, one)]


def _listens(run: Run, instance: Instance) -> bool:
    return all(str(port) in run.states[instance.host]["ports"] for port in instance.ports.values())


def _settle(run: Run, seen: set[str]) -> None:
    """Wait for what is still coming up by itself, so that verification asks what can answer."""
    waiting = [instance for instance in _unsettled(run) if instance.name not in seen]
    wait_started(run, {one.host: Services(run, one.host) for one in waiting}, waiting)


@deploy("Record")
def record(run: Run) -> None:
    """Write the release that is now proven, and point `current` at it."""
    changes = [change for change in run.here("rollout") if change.subject.startswith("release")]
    converge(name="Record the release", changes=changes, make=_recorder(run))


def _recorder(run: Run) -> Callable[[Host, Change], None]:
    def make(host: Host, change: Change) -> None:
        number, text = change.data
        home = run.plan.host(host.name).paths["deployment"]
        folder = f"{home}/releases/{number}"
        rows = [{"path": f"{folder}/plan.json", "text": text, "mode": "644", "user": ""}]
        rows += [
            {"path": f"{folder}/files/{file.path.rpartition('/')[2]}", "text": file.text, "mode": "644", "user": ""}
            for file in run.wanted[host.name].files
            if not file.sealed
        ]
        about = f'{{"release": {number}, "who": "{_who()}", "when": "{_now()}"}}\n'
        rows.append({"path": f"{folder}/about.json", "text": about, "mode": "644", "user": ""})
        write_rows(host, {"files": rows, "links": {f"{home}/current": f"releases/{number}"}})

    return make


def _who() -> str:
    return "".join(
        c for c in os.environ.get("SUDO_USER") or os.environ.get("USER") or "unknown" if c.isalnum() or c in "-_."
    )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
