"""In which order instances are started and restarted, and what must go together. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from slipway.plan.model import Instance, Plan

from .change import Change


def due_instances(plan: Plan, changes: Iterable[Change]) -> dict[str, Change]:
    """Starts and restarts by instance. The ranks of one worker find each other at start: if one is due, all are."""
    due = {change.data.name: change for change in changes if change.action in ("start", "restart")}
    leaders = {instance.leader for instance in plan.instances if instance.name in due}
    for instance in plan.instances:
        if instance.leader in leaders and instance.name not in due:
            reason = f"another rank of {instance.leader} is started anew"
            subject = f"instance {instance.name}"
            due[instance.name] = Change(instance.host, "rollout", "restart", subject, reason, data=instance)
    return due


def batches(plan: Plan, due: dict[str, Change]) -> list[list[Instance]]:
    """What is down starts all at once; what serves is restarted one worker at a time, in the plan's order."""
    workers: dict[str, list[Instance]] = {}
    for instance in plan.instances:
        if instance.name in due:
            workers.setdefault(instance.leader, []).append(instance)
    serving = [ranks for ranks in workers.values() if any(due[rank.name].action == "restart" for rank in ranks)]
    down = [rank for ranks in workers.values() if ranks not in serving for rank in ranks]
    return [*([down] if down else []), *serving]
