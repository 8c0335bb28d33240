"""Role difference: what differs between the release that is deployed and the plan that is configured now."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import click
from pyinfra import host as current_host
from pyinfra import state
from pyinfra.api import deploy, operation

from roles.remote import execute
from roles.run import Run
from slipway.plan.diff import diff_lines
from slipway.plan.model import to_json

RECORD = "SLIPWAY_DIFFERENCE"  # file that `slipway plan --diff` reads the lines from


@deploy("Difference")
def difference(run: Run) -> None:
    """Compare once, on the first host of the plan; changes nothing."""
    if current_host.name == run.plan.hosts[0].name:
        compare(name="Compare the deployed release with the plan", run=run)


@operation()
def compare(run: Run) -> Generator[Any, None, None]:
    """Print the difference, and write it where `slipway plan --diff` asked for it.

    Example: `compare(name="Compare the deployed release with the plan", run=run)`.
    """
    if state.is_executing:
        lines = _lines(run)
        click.echo("\n".join(lines))
        target = os.environ.get(RECORD)
        if target:
            Path(target).write_text(json.dumps(lines), encoding="utf-8")
    current_host.noop("comparing changes nothing")
    yield from ()


def _lines(run: Run) -> list[str]:
    first = run.plan.hosts[0]
    path = f"{first.paths['deployment']}/current/plan.json"
    output = execute(run.hosts[first.name], ["cat", path])
    if not output.ok:
        return [f"no release of {run.plan.deployment} is deployed on {first.name}: everything is new"]
    try:
        lines = diff_lines(json.loads("\n".join(output.stdout)), to_json(run.plan))
    except (ValueError, KeyError, TypeError) as error:
        return [f"{path} on {first.name} is no recorded plan ({type(error).__name__}: {error})"]
    return lines or ["nothing differs from the deployed release"]
