"""Role builds: lists the builds of a host with their patches; changes nothing."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import click
from pyinfra import host as current_host
from pyinfra import state
from pyinfra.api import deploy, operation

from roles.remote import execute
from roles.run import Run
from slipway.builds.records import HEAD, row_of
from slipway.report import table


@deploy("Builds")
def builds(run: Run) -> None:
    """Print one table for this host."""
    listing(name="List the builds", run=run)


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
