"""The part of the plan that is about hosts rather than instances: folders, builds, manager, checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from slipway.builds.lanes import left_out
from slipway.builds.locks import Locks, with_hashes
from slipway.builds.recipe import (
    NO_LOCKS,
    Asked,
    BasePython,
    Build,
    BuildPatch,
    GitSource,
    Recipe,
    Sources,
    engine_recipe,
    find_recipe,
    make_build,
    recipe_named,
    requirements_of,
)
from slipway.builds.wheels import hashes_in, pinned
from slipway.bundle import agent_digest
from slipway.config.deployment import EngineSettings, HostSettings, ModelSettings
from slipway.finding import Finding
from slipway.knowledge import releases
from slipway.patching.series import Series

from .facts import HostFacts
from .hub import HubFiles, hub_key, plan_hub
from .machines import Machine
from .model import CheckpointPlan, Files, HostPlan
from .paths import host_paths, host_root


def plan_host(
    host: HostSettings,
    facts: HostFacts,
    machine: Machine,
    address: str,
    files: Mapping[str, Files | str],
    series: Series | None = None,
    locks: Locks = NO_LOCKS,
) -> HostPlan:
    """Everything that lies on one host beside its instances. series: None when nobody has read it."""
    recipe = engine_recipe(host.engine)
    paths = host_paths(host_root(host, facts), host.deployment)
    manager, simulated = _manager(host, facts), host.engine.kind == "simulator"
    architecture = (machine.hardware.machine if machine.hardware else "") or facts.machine
    asked = _engine_asked(host, facts, recipe, architecture, (series, files, locks))
    return HostPlan(
        name=host.name,
        address=address,
        paths=paths,
        manager=manager,
        user=host.service.user or ("slipway" if manager == "systemd" else facts.login),
        python=_python(host, facts),
        builds=_builds(host, facts, manager, recipe, asked, locks),
        simulator=f"simulator-{agent_digest()}" if simulated and host.workers else None,
        checkpoint=_checkpoint(host, paths, files),
        system_libraries=recipe.system_libraries if recipe and host.workers and not simulated else {},
        restart_delay_s=host.service.restart_delay_s,
        hardware=machine.hardware.describe() if machine.hardware else "",
        verify_every_s=host.verify.every_s if "router" in host.roles else 0,
    )


def _python(host: HostSettings, facts: HostFacts) -> str:
    """What makes environments and runs agents: the base Python where there is one."""
    if host.workers and host.engine.base_python:
        return host.engine.base_python
    python = facts.interpreter(host.engine.python)
    return python.path if python else "python3"


def _manager(host: HostSettings, facts: HostFacts) -> str:
    if host.service.manager != "auto":
        return host.service.manager
    return "systemd" if facts.systemd and facts.superuser else "supervisor"


def _builds(
    host: HostSettings, facts: HostFacts, manager: str, recipe: Recipe | None, asked: Asked, locks: Locks
) -> tuple[Build, ...]:
    engine, others = host.engine, Asked(asked.sources, machine=asked.machine)
    python = engine.python or facts.default_python
    wanted: list[Build] = []
    if host.workers and recipe and engine.kind == "sglang":
        wanted.append(make_build(recipe, engine.version, python, asked, locks))
    if "router" in host.roles:
        found = find_recipe({"kind": "router", "version": host.router.version})
        wanted += [make_build(found, host.router.version, python, others)] if found else []
    if manager == "supervisor":
        found = find_recipe({"kind": "supervisor"})
        wanted += [make_build(found, "4.3.0", python, others)] if found else []
    if host.workers and host.model.repo:
        wanted.append(make_build(recipe_named("hub"), "2.4.0", python, others))
    return tuple(wanted)


Read = tuple[Series | None, Mapping[str, Files | str], Locks]  # what was read beside the configuration


def _engine_asked(host: HostSettings, facts: HostFacts, recipe: Recipe | None, machine: str, read: Read) -> Asked:
    """What is said of the engine's build. machine: architecture."""
    engine, (series, files, locks) = host.engine, read
    return Asked(
        sources=Sources(engine.index_url, engine.extra_index_url, engine.find_links, engine.wheelhouse),
        extra=engine.extra_packages,
        patches=build_patches(engine.patches, series),
        git=GitSource(engine.git, engine.commit, engine.depth) if engine.git and engine.commit else None,
        constraints=engine.constraints,
        base=_base(engine, recipe) if engine.base_python and recipe else None,
        pip_check_known=engine.pip_check_known,
        named_lock=_named_lock(engine, facts, files, locks),
        machine=machine,
        left_out=left_out(engine),
    )


def _base(engine: EngineSettings, recipe: Recipe) -> BasePython:
    """What the base Python must bring: torch as the release pins it, or as the recipe's lock has it."""
    pins = pinned(requirements_of(recipe, engine.version)) if recipe.lock else releases.nearest(engine.version).pins
    packages = tuple((name, pins[name]) for name in recipe.base_brings if name in pins)
    majors = releases.nearest(engine.version).cuda_majors if engine.device == "cuda" else ()
    return BasePython(str(engine.base_python), packages, majors)


def _named_lock(engine: EngineSettings, facts: HostFacts, files: Mapping[str, Files | str], locks: Locks) -> str | None:
    """The text of engine.lock with the hashes of the wheelhouse's wheels; None when there is no such file."""
    text = locks.named.get(engine.lock) if engine.lock else None
    wheelhouse = files.get(engine.wheelhouse) if engine.wheelhouse else None
    if text is None or not isinstance(wheelhouse, Files):
        return text
    return with_hashes(text, hashes_in(wheelhouse, engine.python or facts.default_python))


def build_patches(ids: tuple[str, ...], series: Series | None) -> tuple[BuildPatch, ...]:
    """The patches with these ids in the order of the series; what it does not have is a finding elsewhere."""
    known = [patch for patch in series.patches if patch.id in ids] if series else []
    unknown = [BuildPatch(name) for name in ids if name not in {patch.id for patch in known}]
    names = ("id", "sha256", "path", "strip", "why", "upstream", "remove_when", "github_pr", "base")
    return (*(BuildPatch(**{name: getattr(patch, name) for name in names}) for patch in known), *unknown)


def build_of(host: HostPlan, kind: str) -> str:
    """Id of the host's build of `kind`; '' when it has none."""
    return next((build.id for build in host.builds if build.kind == kind), "")


def _checkpoint(
    host: HostSettings, paths: Mapping[str, str], files: Mapping[str, Files | str]
) -> CheckpointPlan | None:
    model = host.model
    if not host.workers:
        return None
    if model.host_path:
        name = model.name or model.host_path.rstrip("/").rpartition("/")[2]
        return CheckpointPlan(model.host_path, name, "in-place", model.host_path, None)
    found = files.get(_source(model))
    if found is None or isinstance(found, str):
        return None  # model_findings says why
    if isinstance(found, HubFiles):
        return plan_hub(found, model, paths["checkpoints"])
    folder = found.source.rstrip("/").rpartition("/")[2]
    revision = _revision(found)
    path = f"{paths['checkpoints']}/local--{folder}/{revision}"
    return CheckpointPlan(f"local--{folder}", model.name or folder, revision, path, found)


def _source(model: ModelSettings) -> str:
    """What the checkpoint's files go by."""
    return hub_key(model) if model.repo else model.path or ""


def _revision(files: Files) -> str:
    return hashlib.sha256(json.dumps(sorted(files.entries.items())).encode()).hexdigest()[:12]


def model_findings(host: HostSettings, files: Mapping[str, Files | str]) -> list[Finding]:
    """What is wrong with the folder that the host's checkpoint is copied from."""
    model = host.model
    named = [name for name in ("path", "host_path", "repo") if getattr(model, name)]
    if host.workers and "repo" in named and len(named) > 1:
        both = " and ".join(f"model.{name}" for name in named)
        return [Finding("model-folder", "error", host.name, f"{both} are both set", "set all but one of them to null")]
    if not host.workers or model.host_path:
        return []
    wrong = files.get(_source(model), "no checkpoint is named")
    if not isinstance(wrong, str):
        return []
    fix = "set model.path (a folder beside the inventory or in the checkout) or model.host_path in group_vars/all.yml"
    if model.repo:
        fix = "run `slipway checkpoint facts INVENTORY`, which asks the Hub and pins the commit"
    return [Finding("model-folder", "error", host.name, wrong, fix)]
