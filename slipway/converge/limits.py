"""Asking for a limit is not getting it: compares what services ask for with what their processes have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.finding import Finding
from slipway.plan.model import Plan
from slipway.services.interface import Limits

from .wanted import Wanted

TITLES = {"memlock": "locked memory (bytes)", "nofile": "open files"}


def limit_findings(plan: Plan, wanted: Wanted, state: Mapping[str, Any]) -> Iterator[Finding]:
    """One warning for each running instance that the kernel gave less than it asked for."""
    for instance in plan.on(wanted.host.name):
        granted = state["services"][wanted.manager.service(instance.name)].get("limits", {})
        short = list(_short(wanted.manager.limits(instance), granted))
        if short:
            text = f"the kernel did not grant its limits: {'; '.join(short)}"
            fix = "raise the hard limits of the host's service manager; in a container or VM without CAP_SYS_RESOURCE, "
            fix += "those it was started with. RDMA and pinned memory fail beyond them"
            yield Finding("limit-not-granted", "warning", f"{instance.name} on {wanted.host.name}", text, fix)


def _short(asked: Limits, granted: Mapping[str, str]) -> Iterator[str]:
    for name, title in TITLES.items():
        wish, have = getattr(asked, name), granted.get(name)
        if wish and have and not _enough(wish, have):
            yield f"{title} {have}, asked {wish}"


def _enough(wish: str, have: str) -> bool:
    return have == "unlimited" or (wish.isdigit() and have.isdigit() and int(have) >= int(wish))
