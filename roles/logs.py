"""Reads the logs of instances for what is known to be bad in them: the rung at the end of the ladder, and hints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gevent

from roles.services import Deployed, Services
from slipway.knowledge.log_patterns import most_telling
from slipway.logs import passing_after, verdict
from slipway.plan.model import Instance


def log_rows(
    deployed: Deployed, instances: Iterable[Instance], settled_s: float, settle_s: float
) -> list[dict[str, Any]]:
    """The rung `logs` of each instance: no line since its start, or in the time that is looked back on, is known-bad.

    settled_s: seconds since a completion proved that all had found each other; settle_s: how long that may take.
    A row has rung, subject, ok, seconds and detail, as all rungs have.
    """
    window_s = deployed.deployment.hosts[0].verify.log_window_s
    jobs = {instance.name: gevent.spawn(_read, deployed, instance, window_s) for instance in instances}
    gevent.joinall(list(jobs.values()), raise_error=True)
    found = {name: job.value for name, job in jobs.items()}
    passing_s = passing_after(found.values(), settled_s, settle_s)
    return [_row(name, one, passing_s) for name, one in found.items()]


def _read(deployed: Deployed, instance: Instance, window_s: int) -> dict[str, Any]:
    return Services(deployed, instance.host).read_log(instance.name, scope="start", within_s=window_s)


def _row(name: str, found: dict[str, Any], passing_s: float) -> dict[str, Any]:
    ok, detail = verdict(found, passing_s)
    return {"rung": "logs", "subject": name, "ok": ok, "seconds": found.get("seconds", 0.0), "detail": detail}


def hint(service: Services, instance: str, **request: Any) -> str:
    """What the log of an instance says of its trouble, with the cure; '' when it says nothing known."""
    telling = most_telling(service.read_log(instance, **{"scope": "start", **request})["matches"])
    return telling.hint if telling and telling.severity != "note" else ""
