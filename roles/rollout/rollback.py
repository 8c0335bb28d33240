"""What playbooks/rollback.py and playbooks/releases.py do: put back the release that somebody asks for; list them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import click
from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import logger
from pyinfra import state as running
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.interrupt import in_hand
from roles.inventory import asked
from roles.releases import Releases, listed, past
from roles.remote import RemoteError, ensure_agent
from roles.rollout.back import by_hand, files_of, point_back, restore
from roles.run import RefusedError, Run, policy_of, rollout_changes, steps_of
from slipway.report import table
from slipway.rollout import step_lines

_lock = BoundedSemaphore(1)
HEAD = ("RELEASE", "STATE", "WHEN", "WHO", "WHY", "BUILDS")


@deploy("Rollback")
def rollback(run: Run) -> None:
    """Put a release back: the one that is asked for, else the one before the current. Raises RefusedError."""
    with _lock:
        if "rollback" not in run.notes:
            run.notes["rollback"] = old = past(run, _chosen(run))
            _announce(old)
    restoring(name="Put the release back", run=run, old=run.notes["rollback"])


@operation()
def restoring(run: Run, old: Run) -> Generator[Any, None, None]:
    """Write its files and walk its steps, once for all hosts; a no-op when all is as that release left it.

    Example: `restoring(name="Put the release back", run=run, old=past(run, 3))`.
    """
    if not old.pending() and _is_current(run, old):
        current_host.noop(f"release {old.past} is what runs")
        return
    yield FunctionCommand(_once, (run, old), {})


def _once(state: Any, host: Host, run: Run, old: Run) -> bool:
    with _lock:
        if "restored" not in run.notes:
            run.notes["restored"] = _restored(run, old)
    return bool(run.notes["restored"])


def _restored(run: Run, old: Run) -> bool:
    try:
        for name, host in old.hosts.items():
            ensure_agent(host, run.plan.host(name))
        with in_hand("rollback"):
            restore(old)
            point_back(old)
    except (RemoteError, RefusedError) as error:
        by_hand(run, old.past, error, "the configuration")
        return False
    logger.info(f"    release {old.past} serves, and every rung of its ladder holds")
    return True


def _announce(old: Run) -> None:
    click.echo(f"--> Slipway: putting release {old.past} back", err=True)
    for change in [*files_of(old), *rollout_changes(old)]:
        click.echo(f"    [{change.host}] {change}", err=True)
    for line in step_lines(steps_of(old), policy_of(old)):
        click.echo(f"    {line}", err=True)


def _is_current(run: Run, old: Run) -> bool:
    return all(one.current == old.past for one in run.notes["releases"].values() if old.past in one.about)


# ---- which


def _chosen(run: Run) -> int:
    """The number that is asked for, else that of the last release before the current. Raises RefusedError."""
    try:
        found = run.notes["releases"] = listed(run)
    except RemoteError as error:
        raise RefusedError(f"{error}; nothing was changed") from None
    wanted = asked("release")
    return _previous(found) if wanted is None else _named(found, wanted)


def _previous(found: dict[str, Releases]) -> int:
    """What served before the current release did: not one that was itself rolled back from since."""
    current = max((one.current or 0 for one in found.values()), default=0)
    proven = {number for one in found.values() for number in one.proven}
    noted = [one.about[current]["before"] for one in found.values() if "before" in one.about.get(current, {})]
    before = {number for number in noted if number in proven} if noted else {n for n in proven if n < current}
    if not before:
        raise RefusedError(f"there is no release before the current one ({current or 'none'}); {_have(found)}")
    return max(before)


def _named(found: dict[str, Releases], wanted: Any) -> int:
    about = next((one.about[wanted] for one in found.values() if wanted in one.about), None)
    if about is None:
        raise RefusedError(f"release={wanted}: there is no such release; {_have(found)}; nothing was changed")
    if about.get("state") == "failed":
        reason = about.get("reason", "no reason is recorded")
        raise RefusedError(f"release {wanted} failed and never served ({reason}); {_have(found)}; nothing was changed")
    return int(wanted)


def _have(found: dict[str, Releases]) -> str:
    numbers = sorted({number for one in found.values() for number in one.proven})
    return f"those that served are {', '.join(map(str, numbers)) or 'none'}"


# ---- history


@deploy("Releases")
def releases(run: Run) -> None:
    """Print what was deployed, once for all hosts; changes nothing."""
    history(name="List the releases", run=run)


@operation()
def history(run: Run) -> Generator[Any, None, None]:
    """Print the releases of this host. Example: `history(name="List the releases", run=run)`."""
    if running.is_executing:
        with _lock:
            if "history" not in run.notes:
                run.notes["history"] = listed(run)
        click.echo("\n".join(_history(current_host.name, run.notes["history"][current_host.name])))
    current_host.noop("looking changes nothing")
    yield from ()


def _history(host: str, found: Releases) -> list[str]:
    rows = [
        (f"{number}{' (current)' if number == found.current else ''}", str(about.get("state", "")),
         str(about.get("when", "")), f"{about.get('who', '')}@{about.get('from', '')}", str(about.get("why", "")),
         ", ".join(about.get("builds", ())))
        for number, about in sorted(found.about.items())
    ]  # fmt: skip
    return [f"{host}:", *table(HEAD, rows)] if rows else [f"{host}: no release"]
