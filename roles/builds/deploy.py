"""Role builds: lists the builds of a host with their patches, and removes old ones that nothing uses."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import click
from pyinfra import host as current_host
from pyinfra import logger, state
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, ensure_agent, execute
from roles.run import Run
from slipway.builds.records import HEAD, row_of
from slipway.plan.model import HostPlan
from slipway.report import table

ACTIONS = ("list", "dry", "remove")


@deploy("Builds")
def builds(run: Run) -> None:
    """Do what SLIPWAY_BUILDS says: list (the default), dry or remove (unused ones beyond host.builds_kept, or 0)."""
    action = os.environ.get("SLIPWAY_BUILDS", "list")
    if action == "list":
        listing(name="List the builds", run=run)
    else:
        pruning(name="Prune the builds", plan=run.host_plan, kept=_kept(run) or 0, action=action)


@deploy("Prune")
def prune(run: Run) -> None:
    """After a deploy: remove unused builds beyond host.builds_kept; nothing where that is not set."""
    if _kept(run) is not None:
        pruning(name="Prune the builds", plan=run.host_plan, kept=_kept(run), action="remove")


def _kept(run: Run) -> int | None:
    return run.opened.deployment.host(current_host.name).builds_kept


@operation()
def listing(run: Run) -> Generator[Any, None, None]:
    """Print the host's builds with state, patches and age.

    Example: `listing(name="List the builds", run=run)`.
    """
    if state.is_executing:
        rows = [row_of(record) for record in _records(run, current_host.name)]
        for line in table(HEAD, rows) if rows else ["no builds"]:
            click.echo(f"{current_host.name}: {line}")
    current_host.noop("looking changes nothing")
    yield from ()


@operation()
def pruning(plan: HostPlan, kept: int, action: str) -> Generator[Any, None, None]:
    """Remove unused builds beyond `kept` of each kind, or say which.

    Example: `pruning(name="Prune the builds", plan=run.host_plan, kept=2, action="dry")`.
    """
    yield FunctionCommand(_prune, (plan, kept, action), {})


def _prune(state: Any, host: Host, plan: HostPlan, kept: int, action: str) -> bool:
    try:
        for line in _pruned(host, plan, kept, action):
            logger.info(f"{host.print_prefix}{line}")
    except RemoteError as error:
        logger.error(f"{host.print_prefix}{error}; no build was removed")
        return False
    return True


def _pruned(host: Host, plan: HostPlan, kept: int, action: str) -> list[str]:
    """A line for each build that goes. Raises RemoteError."""
    if action not in ACTIONS:
        raise RemoteError(f"SLIPWAY_BUILDS is {action}; must be one of {', '.join(ACTIONS)}")
    ensure_agent(host, plan)
    output = ask_agent(host, plan, "prune_builds", action, plan.paths["root"], str(kept))
    if not output.ok:
        raise RemoteError(output.said)
    said = "removed" if action == "remove" else "would remove"
    rows = json.loads(output.stdout[-1])
    return [f"{said} the unused build {row['id']}, {row['bytes'] / 1e9:.2f} GB" for row in rows]


def _records(run: Run, name: str) -> list[dict[str, Any]]:
    host, engines = run.hosts[name], run.plan.host(name).paths["engines"]
    folders = [line.strip().rstrip("/") for line in execute(host, ["ls", engines]).stdout if line.strip()]
    return [_record(run, name, f"{engines}/{folder}") for folder in folders]


def _record(run: Run, name: str, folder: str) -> dict[str, Any]:
    """One build; what is not there, or half written, is told by `complete`."""
    text = "\n".join(execute(run.hosts[name], ["cat", f"{folder}/build.json"]).stdout)
    complete = execute(run.hosts[name], ["test", "-f", f"{folder}/complete"]).ok
    try:
        record = json.loads(text)
    except ValueError:
        record = {}
    return {"id": folder.rpartition("/")[2], **record, "complete": complete}
