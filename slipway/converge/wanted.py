"""Everything that must lie on a host: folders, files and links, rendered from the plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from slipway.plan.model import HostPlan, Instance, Plan
from slipway.plan.paths import instance_tmp
from slipway.render import render
from slipway.services import Manager, manager_of
from slipway.services.interface import RenderedFile


@dataclass(frozen=True)
class Folder:
    """A folder with its owner."""

    path: str
    user: str
    mode: str


@dataclass(frozen=True)
class Wanted:
    """What one host must hold. configs: instance -> hash of everything its process reads at start."""

    host: HostPlan
    manager: Manager
    folders: tuple[Folder, ...]
    files: tuple[RenderedFile, ...]
    configs: dict[str, str]


def wanted_on(plan: Plan, name: str) -> Wanted:
    """Render everything for host `name`."""
    host = plan.host(name)
    manager = manager_of(host, plan.deployment)
    instances = plan.on(name)
    files: list[RenderedFile] = list(manager.host_files(instances)) if instances else []
    configs: dict[str, str] = {}
    for instance in instances:
        own = manager.instance_files(instance)
        configs[instance.name] = _hash(instance, own)
        files += [*own, _environment(plan, manager, instance, configs[instance.name])]
    owner = "root" if host.manager == "systemd" else host.user
    return Wanted(host, manager, _folders(plan, host, owner), tuple(replace(f, user=owner) for f in files), configs)


def _hash(instance: Instance, files: list[RenderedFile]) -> str:
    digest = hashlib.sha256()
    for part in [*(file.text for file in files), *(f"{k}={v}" for k, v in sorted(instance.env.items()))]:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def _environment(plan: Plan, manager: Manager, instance: Instance, config: str) -> RenderedFile:
    env = {**instance.env, "SLIPWAY_CONFIG": config}
    text = render("environment.j2", instance=instance, deployment=plan.deployment, env=env)
    role = "router" if instance.role == "router" else "worker"
    return RenderedFile(manager.environment_path(instance.name), text, "644", "", role)


def _folders(plan: Plan, host: HostPlan, owner: str) -> tuple[Folder, ...]:
    """ROOT's folders; what services write belongs to their user, everything else to the owner."""
    names = ["root", "agent", "uploads", "engines", "jobs", "checkpoints", "tmp", "deployment", "services", "releases"]
    folders = [Folder(host.paths[name], owner, "755") for name in names]
    if host.manager == "supervisor":
        folders += [Folder(host.paths["supervisor"], owner, "755")]
        folders += [Folder(f"{host.paths['supervisor']}/programs", owner, "755")]
    written = [host.paths["cache"], host.paths["logs"]]
    written += [instance_tmp(host.paths, plan.deployment, instance.name) for instance in plan.on(host.name)]
    written += sorted({f"{host.paths['cache']}/{instance.build}" for instance in plan.on(host.name)})
    return (*folders, *(Folder(path, host.user, "755") for path in written))
