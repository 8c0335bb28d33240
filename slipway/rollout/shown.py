"""The rollout in words: what `--dry` prints, and what a run announces before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from .model import Policy, Step

WORDS = {
    "start": "start, worker rungs, into the routers",
    "green": "start them beside, worker rungs, verified through a router of their own, into the routers",
    "restart": "drain, restart, worker rungs, back into the routers, router rungs",
    "remove": "out of the routers, drain, stop and remove",
    "router": "restart with the plan's workers, router rungs",
    "join": "give it the plan's workers, router rungs",
}


def step_lines(steps: Sequence[Step], policy: Policy) -> list[str]:
    """One line a step, with who is without a server meanwhile; none for no steps."""
    if not steps:
        return []
    total = len(steps)
    lines = [f"rollout in {total} step{'s' * (total > 1)}, strategy {policy.strategy}:"]
    if policy.apart:
        lines.append(f"  old and new workers must not serve beside one another: {'; '.join(policy.apart)}")
    for number, step in enumerate(steps, 1):
        lines.append(f"  {number}. {_places(step)}: {WORDS[step.kind]}{_limit(step, policy)}")
        if step.outage:
            lines.append(f"     OUTAGE: no other {' and no other '.join(step.outage)} serves while this step lasts")
    return [*lines, "  then the whole ladder; whatever fails, the current release is put back and verified"]


def _places(step: Step) -> str:
    hosts = {one.name: one.host for one in step.leaving} | {one.name: one.host for one in step.instances}
    return ", ".join(f"{name} on {hosts[name]}" if name in hosts else name for name in step.names)


def _limit(step: Step, policy: Policy) -> str:
    drained = any(one.url and one.role != "router" for one in step.leaving)
    return f" (running requests have {policy.drain_s} s)" if drained else ""
