"""Detached jobs on a host: started once, watched with progress, and stopped only by their deadline."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyinfra import logger
from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, check
from slipway.plan.model import HostPlan


@dataclass(frozen=True)
class Job:
    """One job: its folder on the host, the key that says what it makes, and its command line."""

    name: str
    folder: str
    key: str
    command: Sequence[str]


def start(host: Host, plan: HostPlan, job: Job) -> None:
    """Start the job unless it runs or has ended well already. Raises RemoteError."""
    output = ask_agent(host, plan, "job", "start", job.folder, job.key, *job.command)
    if not output.ok:
        raise RemoteError(f"the job {job.name} could not be started: {output.said}")


def forget_ended(host: Host, plan: HostPlan, job: Job) -> None:
    """A job that ended is no reason not to do it again: what it made may be gone or damaged since."""
    if _status(host, plan, job)["state"] not in ("running", "absent"):
        check(host, ["rm", "-rf", job.folder])


def stop(host: Host, plan: HostPlan, job: Job) -> None:
    """End the job, if it runs."""
    ask_agent(host, plan, "job", "stop", job.folder)


def says(host: Host, plan: HostPlan, job: Job, text: str, within_s: float) -> bool:
    """Whether the job's last line holds `text`, soon; False when it ends or stays silent."""
    deadline = time.monotonic() + within_s
    while (status := _status(host, plan, job))["state"] == "running" and time.monotonic() < deadline:
        if text in status["last"]:
            return True
        time.sleep(0.2)
    return False


def running(host: Host, plan: HostPlan) -> dict[str, dict[str, Any]]:
    """What runs detached on a host now: name -> status, whose `last` line is the progress. Raises RemoteError."""
    output = ask_agent(host, plan, "job", "running", plan.paths["jobs"])
    try:
        found: dict[str, dict[str, Any]] = json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        raise RemoteError(f"the jobs of {host.name} could not be looked at: {output.said}") from None
    return found


def watch(
    host: Host, plan: HostPlan, jobs: Sequence[Job], deadline_s: float, poll_s: float = 1.0, until: str = ""
) -> None:
    """Until every job has ended well, printing what each last said. Raises RemoteError at the first that fails.

    until: words of a job's last line with which there is no more to wait for.
    """
    began, said, pending = time.monotonic(), dict.fromkeys((job.name for job in jobs), ""), list(jobs)
    while pending:
        for job in list(pending):
            status = _status(host, plan, job)
            if status["last"] != said[job.name] and not status["last"].endswith("}"):  # its result, for us to read
                said[job.name] = status["last"]
                logger.info(f"{host.print_prefix}{job.name}: {status['seconds']:.0f} s, {status['last'][:140]}")
            if status["state"] != "running":
                _ended(job, status)
                pending.remove(job)
            elif until and until in status["last"]:
                return
        if pending and time.monotonic() - began > deadline_s:
            _give_up(host, plan, pending, deadline_s)
        time.sleep(poll_s if pending else 0)


def _status(host: Host, plan: HostPlan, job: Job) -> dict[str, Any]:
    output = ask_agent(host, plan, "job", "status", job.folder)
    try:
        status: dict[str, Any] = json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        raise RemoteError(f"the job {job.name} could not be looked at: {output.said}") from None
    return {"last": "", "seconds": 0.0, "rc": None, **status}


def _ended(job: Job, status: dict[str, Any]) -> None:
    if status["state"] == "done" and status["rc"] == 0:
        return
    how = f"ended with {status['rc']}" if status["state"] == "done" else f"is {status['state']}"
    raise RemoteError(f"the job {job.name} {how}: {status['last']} (log: {job.folder}/log)")


def _give_up(host: Host, plan: HostPlan, pending: Sequence[Job], deadline_s: float) -> None:
    for job in pending:
        ask_agent(host, plan, "job", "stop", job.folder)
    names = ", ".join(job.name for job in pending)
    raise RemoteError(f"not done within {deadline_s:.0f} s and stopped: {names}")
