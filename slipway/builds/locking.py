"""Gets the locks that the builds of a plan want: resolved once, kept beside the inventory, used by every host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from slipway.agent.resolve import LockError, keep
from slipway.builds.locks import KEPT, LockRequest, Locks
from slipway.config.deployment import Deployment
from slipway.front import Opened, kept_locks
from slipway.plan.facts import ASSUMED, HostFacts, oldest_glibc
from slipway.plan.model import Files, Plan

__all__ = ["LockError", "lock_builds"]


def lock_builds(opened: Opened, facts: Mapping[str, HostFacts], say: Callable[[str], None]) -> Opened:
    """The inventory with every lock that its builds want; say: takes a line for each that is resolved now.

    Raises LockError with the resolver's reason; locks that were kept before stay. A plan with errors wants none.
    """
    plan = opened.plan(facts)
    wanted = {} if plan.errors else wanted_by(plan)
    folder = opened.inventory.parent
    for request, hosts in wanted.items():
        say(f"resolving the lock of {', '.join(request.requirements)} for Python {request.python}, once for all hosts")
        keep(str(folder / KEPT / f"{request.key}.txt"), _asked(request, hosts, opened, facts))
    return replace(opened, locks=Locks(opened.locks.named, kept_locks(folder))) if wanted else opened


def wanted_by(plan: Plan) -> dict[LockRequest, list[str]]:
    """What has to be resolved, with the hosts whose builds want it."""
    found: dict[LockRequest, list[str]] = {}
    for host in plan.hosts:
        for build in host.builds:
            if build.wants_lock:
                found.setdefault(build.wants_lock, []).append(host.name)
    return found


def _asked(request: LockRequest, hosts: list[str], opened: Opened, facts: Mapping[str, HostFacts]) -> dict[str, object]:
    """The agent's request: for the oldest C library among the hosts, from their wheelhouse where they have one."""
    oldest = oldest_glibc(facts.get(name, ASSUMED) for name in hosts)
    return {**asdict(request), "glibc": oldest, "wheelhouse": _wheelhouse(opened.deployment, hosts[0], opened.files)}


def _wheelhouse(deployment: Deployment, host: str, files: Mapping[str, Files | str]) -> str | None:
    path = deployment.host(host).engine.wheelhouse
    found = files.get(path) if path else None
    return found.source if isinstance(found, Files) else None
