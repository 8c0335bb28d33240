"""Role difference: what differs between two releases, or between a release and the plan that is configured now."""

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

from roles.inventory import asked
from roles.releases import ask
from roles.remote import RemoteError, execute
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
    """Between two releases, a release and the plan, or the current release and the plan, as --data release asks."""
    before, _, after = str(asked("release") or "current").partition("..")
    try:
        old, new = _recorded(run, before), _recorded(run, after) if after else to_json(run.plan)
        lines = diff_lines(old, new)
    except RemoteError as error:
        return [str(error)]
    except (ValueError, KeyError, TypeError) as error:
        return [f"release {before} or {after or 'the plan'} is no recorded plan ({type(error).__name__}: {error})"]
    one = "the deployed release" if before == "current" else f"release {before}"
    return lines or [f"nothing differs from {one}" if not after else f"nothing differs between {before} and {after}"]


def _recorded(run: Run, name: str) -> Any:
    """The plan of a release, by number or 'current', from the first host that has it. Raises RemoteError."""
    first = run.plan.hosts[0]
    if name == "current":
        output = execute(run.hosts[first.name], ["cat", f"{first.paths['deployment']}/current/plan.json"])
        if not output.ok:
            raise RemoteError(f"no release of {run.plan.deployment} is deployed on {first.name}: everything is new")
        return json.loads("\n".join(output.stdout))
    if not name.isdigit():
        raise RemoteError(f"release={name}: must be N, N..M, N..current or current..N")
    return json.loads(ask(run, first.name, action="read", number=int(name))["plan"])
