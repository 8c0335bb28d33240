"""Role status: what runs where, from which release, whether it is healthy, and what a deploy would change."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from typing import Any

import click
from pyinfra import host as current_host
from pyinfra import state
from pyinfra.api import deploy, operation

from roles import jobs
from roles.remote import RemoteError, ask_agent, ensure_agent
from roles.run import Run
from roles.services import Services, worker_question
from roles.status.records import history_lines, logged_words, rate_words, recent_lines
from slipway.plan.model import Instance

HEALTH_TIMEOUT_S = 20
LOG_BYTES = 512 * 1024  # the end of a log is enough for its newest throughput


@deploy("Status")
def status(run: Run) -> None:
    """Print one table for this host; changes nothing on it but for the agent's own file."""
    table(name="Look at what runs", run=run)


@operation()
def table(run: Run) -> Generator[Any, None, None]:
    """Print the host's instances with release, state and health.

    Example: `table(name="Look at what runs", run=run)`.
    """
    if state.is_executing:
        for line in _lines(run, current_host.name):
            click.echo(line)
    current_host.noop("looking changes nothing")
    yield from ()


def _lines(run: Run, name: str) -> list[str]:
    plan = run.plan.host(name)
    pending = [change for change in run.changes[name] if change.role != "rollout" or change.action != "create"]
    lines = [f"{name}: {_release(run, name)}; a deploy would make {len(pending)} change(s)"]
    lines += [f"  {change}" for change in pending[:20]]
    lines += [f"  secrets are not compared: {run.notes['sealed']}"] if "sealed" in run.notes else []
    try:
        ensure_agent(run.hosts[name], plan)
        told = _told(run, name)
        lines += [_job_line(job, found) for job, found in jobs.running(run.hosts[name], plan).items()]
    except RemoteError as error:
        return [*lines, f"  {error}"]
    lines += [_instance(run, instance, told["rates"].get(instance.name)) for instance in run.plan.on(name)]
    lines += [f"  {line}" for line in recent_lines(told)]
    return [*lines, *history_lines(told)] if name == run.plan.hosts[0].name else lines


def _job_line(name: str, found: dict[str, Any]) -> str:
    """What runs detached, with what it last said: a fetch tells bytes, rate, time left and files."""
    return f"  running: {name} since {_duration(found['seconds'])}: {found['last'][:160]}"


def _told(run: Run, name: str) -> dict[str, Any]:
    """What the host's own records and its workers' metrics say."""
    plan = run.plan.host(name)
    workers = {one.name: one.serves_at for one in run.plan.on(name) if one.serves and one.role != "router"}
    request = {"folder": plan.paths["deployment"], "workers": workers}
    output = ask_agent(run.hosts[name], plan, "status", request=request)
    try:
        told: dict[str, Any] = json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        raise RemoteError(f"the host's records could not be read: {output.said}") from None
    return told


def _release(run: Run, name: str) -> str:
    found = run.states[name]["files"][f"{run.plan.host(name).paths['deployment']}/current"]
    if found["kind"] != "link":
        return f"deployment {run.plan.deployment}, no release"
    return f"deployment {run.plan.deployment}, release {found['target'].rpartition('/')[2]}"


def _instance(run: Run, instance: Instance, rates: dict[str, Any] | None) -> str:
    service = run.states[instance.host]["services"][run.wanted[instance.host].manager.service(instance.name)]
    since = service.get("since")
    uptime = f"up {_duration(time.time() - since)}" if since else ""
    parts = [f"  {instance.name:<12}", f"{service['state']:<9}", f"pid {service['pid']:<8}", f"{uptime:<12}"]
    return " ".join(
        [*parts, _health(run, instance), instance.serves_at, *(rate_words(rates) or _logged(run, instance))]
    )


def _logged(run: Run, instance: Instance) -> list[str]:
    if instance.role == "router":
        return []
    found = Services(run, instance.host).read_log(instance.name, scope="start", max_bytes=LOG_BYTES)
    return logged_words(found["throughput"])


def _health(run: Run, instance: Instance) -> str:
    question = {**worker_question(run, instance), "timeout_s": HEALTH_TIMEOUT_S}
    output = ask_agent(
        run.hosts[instance.host], run.plan.host(instance.host), "verify", request={"workers": [question]}
    )
    rows = [json.loads(line) for line in output.stdout if line.startswith("{")]
    if rows and all(row["ok"] for row in rows):
        return "healthy  "
    return f"NOT WELL ({rows[-1]['rung']}: {rows[-1]['detail'][:80]}) " if rows else f"UNKNOWN ({output.said[:80]}) "


def _duration(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    units = [(days, "d"), (hours, "h"), (minutes, "m"), (int(seconds), "s")]
    shown = [f"{value}{unit}" for value, unit in units if value]
    return " ".join(shown[:2]) or "0s"
