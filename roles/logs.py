"""Reads the logs of instances for what is known to be bad in them: the rung at the end of the ladder, and hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from roles.services import Deployed, Services
from roles.together import together
from slipway.knowledge.log_patterns import most_telling
from slipway.logs import passing_after, verdict
from slipway.plan.model import Instance

Read = Callable[[Instance], dict[str, Any]]


def log_marks(deployed: Deployed, instances: Iterable[Instance]) -> dict[str, Any]:
    """Where the log of each instance ends now, to tell what comes after."""
    found = _each(instances, lambda one: _service(deployed, one).read_log(one.name, patterns=False, max_bytes=4096))
    return {name: read["cursor"] for name, read in found.items()}


def log_rows(
    deployed: Deployed, instances: Iterable[Instance], marks: Mapping[str, Any], settle_s: float
) -> list[dict[str, Any]]:
    """The rung `logs` of each instance: no line since its start, or in the time that is looked back on, is known-bad.

    marks: of the moment at which all had found each other; what a restart of the other side of a pair explains, at most
    settle_s after the newest start and before that moment, is told and no error. A row has rung, subject, ok, seconds,
    detail and warning, as all rungs have.
    """
    chosen = list(instances)
    window_s = deployed.deployment.hosts[0].verify.log_window_s
    found = _each(chosen, lambda one: _service(deployed, one).read_log(one.name, scope="start", within_s=window_s))
    passing_s = passing_after(found.values(), settle_s)
    later = _each(
        [one for one in chosen if marks.get(one.name) and found[one.name]["matches"]],
        lambda one: _service(deployed, one).read_log(one.name, cursor=marks[one.name]),
    )
    return [_row(name, read, passing_s, later.get(name, {}).get("matches")) for name, read in found.items()]


def _each(instances: Iterable[Instance], read: Read) -> dict[str, dict[str, Any]]:
    """By name, all at once."""
    asked = list(instances)
    return dict(zip([one.name for one in asked], together(partial(read, one) for one in asked), strict=True))


def _service(deployed: Deployed, instance: Instance) -> Services:
    return Services(deployed, instance.host)


def _row(name: str, found: dict[str, Any], passing_s: float, later: Mapping[str, Any] | None) -> dict[str, Any]:
    seconds = found.get("seconds", 0.0)
    return {"rung": "logs", "subject": name, "seconds": seconds, **verdict(found, passing_s, later or ())._asdict()}


def hint(service: Services, instance: str, **request: Any) -> str:
    """What the log of an instance says of its trouble, with the cure; '' when it says nothing known."""
    telling = most_telling(service.read_log(instance, **{"scope": "start", **request})["matches"])
    return telling.hint if telling and (telling.fatal or telling.severity == "error") else ""
