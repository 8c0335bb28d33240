"""Compares what is wanted on a host with what the state probe found there."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from slipway.builds.recipe import engine_recipes_of
from slipway.plan.facts import HostFacts
from slipway.plan.hub import HubFiles
from slipway.plan.model import Files, HostPlan, Plan, to_json
from slipway.plan.preflight import missing_packages

from .change import Action, Change, text_diff
from .checks import check_changes
from .due import due_services, replaced_folders
from .request import agent_path, build_ids
from .wanted import Wanted

State = Mapping[str, Any]
RELEASE_LINK = re.compile(r"releases/[0-9]+")


def changes_on(plan: Plan, wanted: Wanted, facts: HostFacts, state: State, release: int | None = 1) -> list[Change]:
    """Everything a deploy would change on this host, in the order in which it would.

    release: the number that the plan is recorded under where it is not yet; None when nothing is to be recorded.
    """
    host, state = wanted.host, as_replaced(wanted, state)
    found = [
        *_refusals(plan, wanted, state),
        *_no_room(host, state),
        *_packages(host, facts),
        *_user(host, state),
        *_folders(wanted, state),
        *_agent(host, state),
        *_builds(host, state),
        *_checkpoint(host, state),
        *_files(wanted, state),
        *_overrides(plan, wanted, state),
        *_stale(plan, wanted, state),
    ]
    recorded = _release(plan, host, state, release) if release else ()
    due = [*due_services(plan, wanted, state, found), *check_changes(wanted, state, found)]
    return [*found, *due, *recorded]


def as_replaced(wanted: Wanted, state: State) -> State:
    """The state with nothing below folders that a link or a file stands in for: those are set aside."""
    gone = tuple(f"{path}/" for path in replaced_folders(wanted, state))
    if not gone:
        return state
    absent, empty = {"kind": "absent", "problems": []}, list[str]()
    blank: dict[str, Any] = {"files": absent, "folders": absent, "builds": absent, "listings": empty}
    cleared = {
        key: {path: blank[key] if f"{path}/".startswith(gone) and f"{path}/" not in gone else found
              for path, found in state[key].items()}
        for key in blank
    }  # fmt: skip
    return {**state, **cleared}


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


def _no_room(host: HostPlan, state: State) -> Iterator[Change]:
    """A disk that cannot hold what is to be installed stops the deploy before anything is changed."""
    root = host.paths["root"]
    missing = [one for one in host.builds if state["builds"][f"{host.paths['engines']}/{one.id}"]["kind"] != "complete"]
    parts = {
        "the builds to be installed": sum(build.disk_gb for build in missing),
        "the checkpoint": _to_come(host, state),
    }
    needed, free = sum(parts.values()), state["disks"].get(root, math.inf) / 1e9
    if needed > free:
        told = " and ".join(
            f"{what} need{'s' * (what == 'the checkpoint')} {size:.1f} GB" for what, size in parts.items() if size
        )
        reason = f"{root} has {free:.1f} GB free; {told}: free some, or set `root:`"
        yield Change(host.name, "host", "refuse", "disk", reason)


def _to_come(host: HostPlan, state: State) -> float:
    """GB of a checkpoint of which nothing is there yet; an upload lies there twice until it is unpacked.

    Of one that is there in part the fetch itself tells what is missing.
    """
    files = host.checkpoint.files if host.checkpoint else None
    if host.checkpoint is None or files is None:
        return 0.0
    fetched = isinstance(files, HubFiles)
    if state["checkpoints" if fetched else "folders"][host.checkpoint.path]["kind"] != "absent":
        return 0.0
    return sum(size for size, _ in files.entries.values()) * (1 if fetched else 2) / 1e9


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
        if folder.path == wanted.host.paths["root"] and found["kind"] == "link":
            continue  # ROOT on another disk, by the operator's choice
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
    fetched = isinstance(checkpoint.files, HubFiles)
    found = state["checkpoints" if fetched else "folders"][checkpoint.path]
    if found["kind"] in ("absent", "partial") or found["problems"]:
        action: Action = "create" if found["kind"] == "absent" else "update"
        reason = "; ".join(found["problems"][:3]) or f"it is {found['kind']}"
        reason += _comes_from(checkpoint.files)
        yield Change(host.name, "checkpoint", action, f"checkpoint {checkpoint.path}", reason, data=checkpoint)


def _comes_from(files: Files) -> str:
    """What a fetch costs, and which commit it pins."""
    if not isinstance(files, HubFiles):
        return ""
    size, count = f"{files.bytes / 1e9:.1f} GB", len(files.entries)
    return f"; {count} files, {size}, of {files.repo} {files.revision} at {files.commit} from {files.endpoint}"


def _files(wanted: Wanted, state: State) -> Iterator[Change]:
    for file in wanted.files:
        found = state["files"][file.path]
        if found["kind"] == "absent":
            action, reason = "create", "it is absent"
        elif found["kind"] != "file":
            action, reason = "update", f"it is {_article(found['kind'])}{found.get('target', '')}"
        elif file.differs(found):
            action, reason = "update", "its content differs"
        elif (found["user"], found["mode"]) != (file.user, file.mode):
            action, reason = "update", f"it is {found['user']} {found['mode']}; must be {file.user} {file.mode}"
        else:
            continue
        diff = text_diff(file.path, found.get("text", ""), file.text) if file.differs(found) and not file.sealed else ""
        yield Change(wanted.host.name, file.role, action, file.path, reason, diff, file)  # type: ignore[arg-type]
    yield from _unsealed(wanted, state)


def _article(kind: str) -> str:
    return {"link": "a link to ", "folder": "a folder"}.get(kind, kind)


def _unsealed(wanted: Wanted, state: State) -> Iterator[Change]:
    """Secrets that nobody configures any more do not stay."""
    folder, current = wanted.host.paths["services"], {file.path for file in wanted.files}
    for name in state["listings"].get(folder, []):
        if name.endswith((".secret", "keyed.py")) and f"{folder}/{name}" not in current:
            yield Change(wanted.host.name, "worker", "remove", f"{folder}/{name}", "no secrets are configured for it")


def _overrides(plan: Plan, wanted: Wanted, state: State) -> Iterator[Change]:
    """Drop-ins make a unit another one than its file says."""
    for folder in wanted.manager.override_folders(plan.on(wanted.host.name)):
        role = "router" if "-router-" in folder else "worker"
        for name in state["listings"].get(folder, []):
            yield Change(wanted.host.name, role, "remove", f"{folder}/{name}", "it overrides what the plan says")


def _stale(plan: Plan, wanted: Wanted, state: State) -> Iterator[Change]:
    """Instances that an earlier plan had here and this one has not."""
    prefix, manager = f"slipway-{plan.deployment}-", wanted.manager
    current = {*(manager.file_name(one.name) for one in plan.on(wanted.host.name)), *manager.check_names}
    for name in state["listings"].get(manager.folder, []):
        if name.startswith(prefix) and name not in current and name.endswith((".service", ".conf")):
            instance = name[len(prefix) :].rpartition(".")[0]
            yield Change(wanted.host.name, "rollout", "remove", f"instance {instance}",
                         "the plan no longer has it", data=instance)  # fmt: skip


def _release(plan: Plan, host: HostPlan, state: State, number: int) -> Iterator[Change]:
    """The record of what is deployed; `current` points at it when everything else holds."""
    link = state["files"][f"{host.paths['deployment']}/current"]
    found = state["files"][f"{host.paths['deployment']}/current/plan.json"]
    target = link.get("target", "")
    if recorded_as(plan, host, state):
        return
    if link["kind"] == "absent":
        reason = "no release is current"
    elif not RELEASE_LINK.fullmatch(target):
        reason = f"current is {link['kind']} {target}".strip() + "; must be a link to a release"
    else:
        reason = f"{target} is not there" if found["kind"] == "absent" else "the plan differs from the current release"
    yield Change(host.name, "rollout", "create", f"release {number}", reason, data=(number, release_text(plan)))


def recorded_as(plan: Plan, host: HostPlan, state: State) -> int:
    """The number of the current release when it is this plan's record; 0 when it is not."""
    target = state["files"][f"{host.paths['deployment']}/current"].get("target", "")
    found = state["files"][f"{host.paths['deployment']}/current/plan.json"]
    text = release_text(plan)
    same = found.get("text") == text or found.get("sha256") == _sha(text)
    return int(target.rpartition("/")[2]) if same and RELEASE_LINK.fullmatch(target) else 0


def release_number(plan: Plan, states: Mapping[str, State]) -> int:
    """What the plan is recorded under: the same on every host, also when a dead run recorded it on some of them."""
    there = {name: state["listings"].get(plan.host(name).paths["releases"], []) for name, state in states.items()}
    numbers = {recorded_as(plan, plan.host(name), state) for name, state in states.items()} - {0}
    lacking = [name for name, state in states.items() if not recorded_as(plan, plan.host(name), state)]
    for number in sorted(numbers, reverse=True):
        if not any(str(number) in there[name] for name in lacking):
            return number
    return max(next_release(names) for names in there.values())


def release_text(plan: Plan) -> str:
    """The plan as a release records it: without what differs between controllers or from look to look."""
    data = to_json(plan)
    del data["findings"]
    return json.dumps(_placeless(data), indent=1, sort_keys=True) + "\n"


def _placeless(data: Any) -> Any:
    """Folders on the controller are left out: another checkout of the same deploys the same."""
    if isinstance(data, dict):
        files = set(data) == {"source", "entries"}
        return {key: _placeless(value) for key, value in data.items() if not (files and key == "source")}
    return [_placeless(item) for item in data] if isinstance(data, list) else data


def next_release(names: list[str]) -> int:
    """One more than the highest so far."""
    return 1 + max((int(name) for name in names if name.isdigit()), default=0)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
