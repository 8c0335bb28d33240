"""What periodic verification is due on a host: to be started, started anew, or taken away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .change import Change
from .wanted import Wanted

SUBJECT = "periodic verification"


def check_changes(wanted: Wanted, state: Mapping[str, Any], before: Iterable[Change]) -> Iterator[Change]:
    """At most one change. before: the changes found so far, its files' among them."""
    manager, name = wanted.manager, wanted.host.name
    if not wanted.host.verify_every_s:
        there = set(manager.check_names) & set(state["listings"].get(manager.folder, []))
        if there:
            yield Change(name, "verify", "remove", SUBJECT, "verify.every_s is 0", data=manager.check)
        return
    service = state["services"][manager.check]
    written = any(change.role == "verify" for change in before)
    reason = "its definition changes" if written and service["state"] == "running" else _down(service)
    if reason:
        yield Change(name, "verify", "enable", SUBJECT, reason, data=manager.check)


def _down(service: Mapping[str, Any]) -> str:
    if service["state"] != "running":
        return f"it is {service['state']}"
    if service["masked"] or not service["enabled"]:
        return "it would not start at boot"
    return "its definition changed since it was read" if service.get("reload_due") else ""
