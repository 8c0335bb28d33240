"""Looks after the checkpoints that lie on a host: what there is, whether it is sound, what may go."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable
from typing import Any

from pyinfra import logger
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, ensure_agent
from roles.run import Run
from slipway.plan.hub import HubFiles
from slipway.plan.model import HostPlan

ACTIONS = ("look", "full", "list", "dry", "remove")


@deploy("Checkpoints")
def care(run: Run) -> None:
    """Do what SLIPWAY_CHECKPOINT says."""
    each(name="Checkpoints", plan=run.host_plan, action=os.environ.get("SLIPWAY_CHECKPOINT", "look"))


@operation()
def each(plan: HostPlan, action: str) -> Generator[Any, None, None]:
    """Example: `each(name="Checkpoints", plan=run.host_plan, action="look")`."""
    yield FunctionCommand(_care, (plan, action), {})


def _care(state: Any, host: Host, plan: HostPlan, action: str) -> bool:
    try:
        ensure_agent(host, plan)
        lines, well = _answer(host, plan, action)
    except RemoteError as error:
        lines, well = [str(error)], False
    for line in lines:
        (logger.info if well else logger.error)(f"{host.print_prefix}{line}")
    return well


def _answer(host: Host, plan: HostPlan, action: str) -> tuple[list[str], bool]:
    if action not in ACTIONS:
        raise RemoteError(f"SLIPWAY_CHECKPOINT is {action}; must be one of {', '.join(ACTIONS)}")
    if action not in ("look", "full"):
        return list(_rows(_asked(host, plan, "prune", action, plan.paths["root"]), action)), True
    if plan.checkpoint is None or not isinstance(plan.checkpoint.files, HubFiles):
        return ["its checkpoint does not come from the Hub; the deploy itself compares it"], True
    found = _asked(host, plan, "recheck", action, plan.checkpoint.path)
    well = found["kind"] == "complete" and not found["problems"]
    return [*found["problems"], f"{plan.checkpoint.path}: {found['kind']}, {len(found['problems'])} problem(s)"], well


def _rows(rows: Iterable[dict[str, Any]], action: str) -> Iterable[str]:
    said = {"list": "", "dry": "would remove ", "remove": "removed "}[action]
    for row in rows:
        yield f"{said}{row['path']}: {row['bytes'] / 1e9:.2f} GB, {row['kind']}, {', '.join(row['used']) or 'unused'}"


def _asked(host: Host, plan: HostPlan, *words: str) -> Any:
    """The JSON on the last line; exit 1 with problems is an answer too."""
    output = ask_agent(host, plan, *words)
    try:
        return json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        raise RemoteError(output.said) from None
