"""Everything that must lie on a host: folders, files and links, rendered from the plan."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipway.plan.model import HostPlan, Instance, Plan
from slipway.plan.paths import instance_tmp, key_adder
from slipway.plan.secrets import API_KEY
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
    """What one host must hold.

    By instance: configs, the hash of everything its process reads at start; reads, the files that it reads; writes,
    the folders that it works in; marks, which tell one set of secrets from another and lie nowhere but beside them:
    none where nobody read the secrets.
    """

    host: HostPlan
    manager: Manager
    folders: tuple[Folder, ...]
    files: tuple[RenderedFile, ...]
    configs: dict[str, str]
    reads: dict[str, tuple[str, ...]]
    writes: dict[str, tuple[str, ...]]
    marks: dict[str, str]


# As slipway/plan/arguments.py writes them.
_WORKER_FLAGS = re.compile(r" --prefill \S+ \S+| --decode \S+| --worker-urls(?: '?http\S+)+")
Secrets = Mapping[str, Mapping[str, str]]  # instance -> variable -> value


def wanted_on(plan: Plan, name: str, secrets: Secrets | None = None) -> Wanted:
    """Render everything for host `name`. secrets: what the plan only names."""
    host = plan.host(name)
    manager = manager_of(host, plan.deployment)
    instances = plan.on(name)
    files: list[RenderedFile] = [*manager.host_files(instances), *manager.check_files()] if instances else []
    configs, reads, marks = {}, {}, {}
    for instance in instances:
        more = _key_adder(host, instance)
        config = configs[instance.name] = _hash(instance, [*manager.instance_files(instance), *more])
        own = [*manager.instance_files(instance, config), *more, _environment(plan, manager, instance, config)]
        if instance.secrets and secrets is None:
            own.append(RenderedFile(manager.secrets_path(instance.name), "", "600", "", _role(instance), sealed=True))
        elif instance.secrets and secrets is not None:
            values = secrets.get(instance.name, {})
            marks[instance.name] = secrets_mark(values)
            own.append(_sealed(plan, manager, instance, {**values, "SLIPWAY_SECRETS": marks[instance.name]}))
        reads[instance.name] = tuple(file.path for file in own)
        files += own
    owner = "root" if host.manager == "systemd" else host.user
    owned = tuple(replace(file, user=owner) for file in {file.path: file for file in files}.values())
    writes = {one.name: _writes(plan, host, one) for one in instances}
    return Wanted(host, manager, _folders(plan, host, owner), owned, configs, reads, writes, marks)


def _writes(plan: Plan, host: HostPlan, instance: Instance) -> tuple[str, ...]:
    cache = host.paths["cache"]
    return cache, f"{cache}/{instance.build}", instance_tmp(host.paths, plan.deployment, instance.name)


def secrets_mark(values: Mapping[str, str]) -> str:
    """Tells one set of secrets from another. Lies only in the sealed file and in the process: short secrets could be
    guessed from it."""
    text = "\0".join(f"{key}={value}" for key, value in sorted(values.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _sealed(plan: Plan, manager: Manager, instance: Instance, values: Mapping[str, str]) -> RenderedFile:
    text = render("environment.j2", instance=instance, deployment=plan.deployment, env=values)
    return RenderedFile(manager.secrets_path(instance.name), text, "600", "", _role(instance), sealed=True)


def _key_adder(host: HostPlan, instance: Instance) -> list[RenderedFile]:
    """One file for all instances of the host that have an API key."""
    if API_KEY not in instance.secrets:
        return []
    text = render("keyed.py.j2", variable=API_KEY)
    return [RenderedFile(key_adder(host.paths), text, "644", "", _role(instance))]


def _role(instance: Instance) -> str:
    return "router" if instance.role == "router" else "worker"


def without_workers(text: str) -> str:
    """A router's definition without the workers it begins with: those it is told while it runs, see roles/rollout."""
    return _WORKER_FLAGS.sub("", text)


def _hash(instance: Instance, files: list[RenderedFile]) -> str:
    digest = hashlib.sha256()
    texts = [without_workers(file.text) if instance.role == "router" else file.text for file in files]
    for part in [*texts, *(f"{k}={v}" for k, v in sorted(instance.env.items()))]:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def _environment(plan: Plan, manager: Manager, instance: Instance, config: str) -> RenderedFile:
    env = {**instance.env, "SLIPWAY_CONFIG": config}
    text = render("environment.j2", instance=instance, deployment=plan.deployment, env=env)
    return RenderedFile(manager.environment_path(instance.name), text, "644", "", _role(instance))


def _folders(plan: Plan, host: HostPlan, owner: str) -> tuple[Folder, ...]:
    """ROOT's folders; what services write belongs to their user, everything else to the owner."""
    names = ["root", "agent", "uploads", "engines", "jobs", "checkpoints", "tmp", "deployment", "services", "releases"]
    folders = [Folder(host.paths[name], owner, "755") for name in names]
    if host.manager == "supervisor":
        folders += [Folder(host.paths["supervisor"], owner, "755")]
        folders += [Folder(f"{host.paths['supervisor']}/programs", owner, "755")]
    written = [host.paths["cache"], host.paths["logs"], *([host.paths["verify"]] if host.verify_every_s else [])]
    written += [instance_tmp(host.paths, plan.deployment, instance.name) for instance in plan.on(host.name)]
    written += sorted({f"{host.paths['cache']}/{instance.build}" for instance in plan.on(host.name)})
    return (*folders, *(Folder(path, host.user, "755") for path in written))
