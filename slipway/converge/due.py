"""Which starts and restarts are due: told by what runs and what it has read, never by what this run changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.plan.model import Instance, Plan
from slipway.services.interface import RenderedFile

from .change import Action, Change
from .wanted import Wanted, without_workers

State = Mapping[str, Any]
Due = tuple[Action, str] | None
SLACK_S = 0.5  # a process reads its files this shortly after its start


def due_services(plan: Plan, wanted: Wanted, state: State, before: list[Change]) -> Iterator[Change]:
    """Starts and restarts on one host, and what the manager itself is due. before: the changes found so far."""
    instances = plan.on(wanted.host.name)
    yield from _reload(wanted, state, before)
    replaced = _replaced(before) | set(replaced_folders(wanted, state))
    for instance in instances:
        service = state["services"][wanted.manager.service(instance.name)]
        due = _down(service) or _stale(wanted, instance, service) or _used(wanted, instance, service, state, replaced)
        action, reason = due or _at_boot(service) or (None, "")
        if action:
            yield Change(wanted.host.name, "rollout", action, f"instance {instance.name}", reason, data=instance)
    for name in wanted.manager.companions if instances else ():
        yield from _companion(wanted, name, state["services"][name])
    for instance in instances:
        if instance.role == "router":
            yield from _workers(plan, instance, state["routers"].get(instance.serves_at))


def _workers(plan: Plan, router: Instance, known: Mapping[str, Any] | None) -> Iterator[Change]:
    """What a running router must be told: it is not started anew for a worker that comes or goes."""
    if known is None:
        return
    wanted = {one.serves_at for one in plan.serving("prefill", "decode", "unified")}
    lacking, surplus = sorted(wanted - set(known)), sorted(set(known) - wanted)
    if lacking or surplus:
        reasons = [f"it does not send to {', '.join(lacking)}"] if lacking else []
        reasons += [f"it sends to {', '.join(surplus)}"] if surplus else []
        subject = f"workers of {router.name}"
        yield Change(router.host, "rollout", "update", subject, "; ".join(reasons), data=router)


def _reload(wanted: Wanted, state: State, before: list[Change]) -> Iterator[Change]:
    """Definitions that the manager has not read are read, though no process may need to be started anew."""
    folder, check = f"{wanted.manager.folder}/", wanted.manager.check  # that one is written, and read, later
    written = any(change.subject.startswith(folder) and change.role != "verify" for change in before)
    due = any(service.get("reload_due") for name, service in state["services"].items() if name != check)
    if wanted.manager.reads_again and (written or due):
        reason = "definitions change" if written else "definitions changed since they were read"
        yield Change(wanted.host.name, "rollout", "reload", "service definitions", reason)


def replaced_folders(wanted: Wanted, state: State) -> list[str]:
    """Wanted folders that something else stands in for; ROOT may be a link, to another disk."""
    root, files = wanted.host.paths["root"], state["files"]
    return [
        one.path for one in wanted.folders if one.path != root and files[one.path]["kind"] not in ("folder", "absent")
    ]


def _replaced(before: list[Change]) -> set[str]:
    """Builds and checkpoints under a running process that are about to be replaced."""
    return {change.subject.partition(" ")[2] for change in before if change.role in ("engine", "checkpoint")}


def _down(service: Mapping[str, Any]) -> Due:
    if service["state"] in ("running", "starting"):
        return None
    if service["state"] == "restarting":
        return "start", f"it died and waits to be restarted ({service.get('detail', '')})"
    masked = " and its service is masked" if service.get("masked") else ""
    return "start", f"it is {service['state']}{masked}"


def _stale(wanted: Wanted, instance: Instance, service: Mapping[str, Any]) -> Due:
    """It was started with something else than what is wanted now."""
    config, found = wanted.configs[instance.name], service.get("config")
    if found != config:
        return "restart", f"it runs configuration {found or 'unknown'}; wanted is {config}"
    unread = bool(instance.secrets) and instance.name not in wanted.marks
    if not unread and service.get("secrets", "") != wanted.marks.get(instance.name, ""):
        return "restart", "its secrets are others than the configured ones"
    user = service.get("user", wanted.host.user)
    return None if user == wanted.host.user else ("restart", f"it runs as user {user}; must be {wanted.host.user}")


def _used(wanted: Wanted, instance: Instance, service: Mapping[str, Any], state: State, replaced: set[str]) -> Due:
    """What it runs from is replaced, or it may have read a file that somebody else had changed."""
    if {instance.build, *instance.argv, *wanted.writes[instance.name]} & replaced:
        return "restart", "what it runs from is replaced"
    if service.get("overridden"):
        return "restart", f"it may run with {service['overridden']}"
    for file in wanted.files:
        if file.path not in wanted.reads[instance.name] or not file.differs(state["files"][file.path]):
            continue
        if instance.role == "router" and _same_but_for_workers(file, state["files"][file.path]):
            continue
        if service.get("since", 0.0) > state["files"][file.path].get("changed", 0.0) - SLACK_S:
            return "restart", f"it may have read {file.path} as it was found"
    return None


def _same_but_for_workers(file: RenderedFile, found: Mapping[str, Any]) -> bool:
    return "text" in found and without_workers(found["text"]) == without_workers(file.text)


def _at_boot(service: Mapping[str, Any]) -> Due:
    if service.get("masked"):
        return "start", "its service is masked: it would not start again"
    return None if service["enabled"] else ("start", "it would not start at boot")


def _companion(wanted: Wanted, name: str, found: Mapping[str, Any]) -> Iterator[Change]:
    if found["state"] == "running" and found["enabled"] and not found["masked"]:
        return
    reason = "it would not start at boot" if found["state"] == "running" else f"it is {found['state']}"
    yield Change(wanted.host.name, "rollout", "enable", f"unit {name}", reason, data=name)
