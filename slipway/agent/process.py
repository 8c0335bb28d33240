"""What tells a process from every other one, also where containers share a kernel; and a campaign's mark.

A campaign is a process whose steps are runs of their own: it hands them what the deployment's lock is to say, so that
the lock stays with the campaign between two steps. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from typing import Any

from slipway.agent.job import started

CAMPAIGN = "SLIPWAY_CAMPAIGN"  # variable of a step's environment


def process() -> dict[str, Any]:
    """This one: pid, when it started, the machine's boot and the namespace that the pid is of."""
    return {"pid": os.getpid(), "started": started(os.getpid()), "boot": boot_id(), "pids": _pid_namespace()}


def is_gone(other: dict[str, Any]) -> bool:
    """Whether a process is known to have ended: only of one that this machine would see."""
    if not other.get("boot") or (other.get("boot"), other.get("pids")) != (boot_id(), _pid_namespace()):
        return False
    return started(int(other.get("pid") or 0)) != other.get("started")


def new_campaign(what: str) -> dict[str, str]:
    """The environment of a campaign's steps. what: as others are told, 'experiment NAME'."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {CAMPAIGN: json.dumps({"id": secrets.token_hex(4), "what": what, "since": when, **process()})}


def campaign() -> dict[str, Any]:
    """The campaign that this process is a step of; {} when it is none, or its driver is gone."""
    try:
        found = json.loads(os.environ.get(CAMPAIGN, "{}"))
    except ValueError:
        return {}
    known = isinstance(found, dict) and {"id", "what", "since", "pid", "started"} <= set(found)
    return found if known and not is_gone(found) else {}


def boot_id() -> str:
    """Names the time since the kernel started; '' where there is none to be read."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
