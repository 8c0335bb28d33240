"""Compares what is wanted on a host with what the state probe found there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from slipway.builds.recipe import engine_recipes_of
from slipway.plan.facts import HostFacts
from slipway.plan.model import HostPlan, Instance, Plan, to_json
from slipway.plan.preflight import missing_packages

from .change import Action, Change, text_diff
from .request import agent_path, build_ids
from .wanted import Wanted

State = Mapping[str, Any]


def changes_on(plan: Plan, wanted: Wanted, facts: HostFacts, state: State) -> list[Change]:
    """Everything a deploy would change on this host, in the order in which it would."""
    host = wanted.host
    found = [
        *_refusals(plan, wanted, state),
        *_packages(host, facts),
        *_user(host, state),
        *_folders(wanted, state),
        *_agent(host, state),
        *_builds(host, state),
        *_checkpoint(host, state),
        *_files(wanted, state),
        *_stale(plan, wanted, state),
    ]
    restarts = list(_services(plan, wanted, state, found))
    return [*found, *restarts, *_release(plan, host, state)]


def _refusals(plan: Plan, wanted: Wanted, state: State) -> Iterator[Change]:
    """A port that a foreign process holds stops the deploy before anything is changed."""
    for instance in plan.on(wanted.host.name):
        for use, port in {**instance.ports, **instance.reserved}.items():
            owner = state["ports"].get(str(port))
            if owner is None or _is_ours(owner, plan):
                continue
            who = f"pid {owner['pid']} ({owner['command']})" if owner["pid"] else "a process we may not look at"
            reason = f"port {port} ({use}) is held by {who}: stop that process, or give {instance.name} another port"
            yield Change(wanted.host.name, "host", "refuse", instance.name, reason)


def _is_ours(owner: Mapping[str, Any], plan: Plan) -> bool:
    """Ours when its environment says so; a port may move between our own instances."""
    return bool(owner.get("deployment") == plan.deployment and owner.get("instance"))


def _packages(host: HostPlan, facts: HostFacts) -> Iterator[Change]:
    for library, package in missing_packages(facts, engine_recipes_of(host.builds)).items():
        reason = f"{library} is missing on the host"
        yield Change(host.name, "host", "install", f"package {package}", reason, data=package)


def _user(host: HostPlan, state: State) -> Iterator[Change]:
    if not state["users"].get(host.user, True):
        yield Change(host.name, "host", "create", f"user {host.user}", "there is no such user", data=host.user)


def _folders(wanted: Wanted, state: State) -> Iterator[Change]:
    for folder in wanted.folders:
        found = state["files"][folder.path]
        reason = _folder_reason(found, folder.user, folder.mode)
        if reason:
            action: Action = "create" if found["kind"] == "absent" else "update"
            yield Change(wanted.host.name, "host", action, f"folder {folder.path}", reason, data=folder)


def _folder_reason(found: Mapping[str, Any], user: str, mode: str) -> str:
    if found["kind"] != "folder":
        return f"it is {found['kind']}"
    if (found["user"], found["mode"]) != (user, mode):
        return f"it is {found['user']} {found['mode']}; must be {user} {mode}"
    return ""


def _agent(host: HostPlan, state: State) -> Iterator[Change]:
    path = agent_path(host)
    found = state["files"][path]["kind"]
    if found != "file":
        yield Change(host.name, "host", "create", f"agent {path}", f"it is {found}", data=path)


def _builds(host: HostPlan, state: State) -> Iterator[Change]:
    for name in build_ids(host):
        found = state["builds"][f"{host.paths['engines']}/{name}"]
        if found["kind"] != "complete":
            reason = f"the build is {found['kind']}" + _travels(host, name)
            yield Change(host.name, "engine", "install", f"build {name}", reason, data=name)


def _travels(host: HostPlan, build: str) -> str:
    size = sum(size for size, _ in host.wheels[build].entries.values()) if build in host.wheels else 0
    return f"; {size / 1e6:.0f} MB of wheels travel from the controller" if size else ""


def _checkpoint(host: HostPlan, state: State) -> Iterator[Change]:
    checkpoint = host.checkpoint
    if checkpoint is None or checkpoint.files is None:
        return
    found = state["folders"][checkpoint.path]
    if found["kind"] == "absent" or found["problems"]:
        action: Action = "create" if found["kind"] == "absent" else "update"
        reason = "; ".join(found["problems"][:3]) or "it is absent"
        yield Change(host.name, "checkpoint", action, f"checkpoint {checkpoint.path}", reason, data=checkpoint)


def _files(wanted: Wanted, state: State) -> Iterator[Change]:
    for file in wanted.files:
        found = state["files"][file.path]
        if found["kind"] != "file":
            yield Change(wanted.host.name, file.role, "create", file.path, f"it is {found['kind']}",
                         text_diff(file.path, "", file.text), file)  # fmt: skip
        elif ("text" in found and found["text"] != file.text) or "text" not in found:
            diff = text_diff(file.path, found.get("text", ""), file.text)
            yield Change(wanted.host.name, file.role, "update", file.path, "its content differs", diff, file)
        elif (found["user"], found["mode"]) != (file.user, file.mode):
            reason = f"it is {found['user']} {found['mode']}; must be {file.user} {file.mode}"
            yield Change(wanted.host.name, file.role, "update", file.path, reason, data=file)


def _stale(plan: Plan, wanted: Wanted, state: State) -> Iterator[Change]:
    """Instances that an earlier plan had here and this one has not."""
    prefix, manager = f"slipway-{plan.deployment}-", wanted.manager
    current = {manager.file_name(instance.name) for instance in plan.on(wanted.host.name)}
    for name in state["listings"].get(manager.folder, []):
        if name.startswith(prefix) and name not in current and name.endswith((".service", ".conf")):
            instance = name[len(prefix) :].rpartition(".")[0]
            yield Change(wanted.host.name, "rollout", "remove", f"instance {instance}",
                         "the plan no longer has it", data=instance)  # fmt: skip


def _services(plan: Plan, wanted: Wanted, state: State, before: list[Change]) -> Iterator[Change]:
    """A start or restart is due by what runs, not by what this run changed."""
    replaced = _replaced(before)
    for instance in plan.on(wanted.host.name):
        service = state["services"][wanted.manager.service(instance.name)]
        action, reason = _service_due(instance, service, wanted.configs[instance.name], replaced)
        if action:
            yield Change(wanted.host.name, "rollout", action, f"instance {instance.name}", reason, data=instance)


def _replaced(before: list[Change]) -> set[str]:
    """Builds and checkpoints under a running process that are about to be replaced."""
    return {change.subject.partition(" ")[2] for change in before if change.role in ("engine", "checkpoint")}


def _service_due(
    instance: Instance, service: Mapping[str, Any], config: str, replaced: set[str]
) -> tuple[Action | None, str]:
    if service.get("masked"):
        return "start", "its service is masked; it is unmasked and started"
    if service["state"] not in ("running", "starting"):
        return "start", f"it is {service['state']}"
    if service.get("config") != config:
        return "restart", f"it runs configuration {service.get('config', 'unknown')}; wanted is {config}"
    if instance.build in replaced or any(path in replaced for path in instance.argv):
        return "restart", "what it runs from is replaced"
    if service.get("reload_due"):
        return "restart", "its definition changed since it was loaded"
    return ("start", "it would not start at boot") if not service["enabled"] else (None, "")


def _release(plan: Plan, host: HostPlan, state: State) -> Iterator[Change]:
    """The record of what is deployed; written last, when everything else holds."""
    text = release_text(plan)
    found = state["files"][f"{host.paths['deployment']}/current/plan.json"]
    recorded = found.get("text") == text or found.get("sha256") == _sha(text)
    if not recorded:
        number = next_release(state["listings"].get(host.paths["releases"], []))
        reason = "no release is current" if found["kind"] == "absent" else "the plan differs from the current release"
        yield Change(host.name, "rollout", "create", f"release {number}", reason, data=(number, text))


def release_text(plan: Plan) -> str:
    """The plan as a release records it."""
    return json.dumps(to_json(plan), indent=1, sort_keys=True) + "\n"


def next_release(names: list[str]) -> int:
    """One more than the highest so far."""
    return 1 + max((int(name) for name in names if name.isdigit()), default=0)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
