"""The part of the plan that is about hosts rather than instances: folders, builds, manager, checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from slipway.builds.recipe import (
    Build,
    BuildPatch,
    GitSource,
    Recipe,
    Sources,
    engine_recipe,
    find_recipe,
    make_build,
    recipe_named,
)
from slipway.bundle import agent_digest
from slipway.config.deployment import HostSettings, ModelSettings
from slipway.finding import Finding
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
) -> HostPlan:
    """Everything that lies on one host beside its instances. series: None when nobody has read it."""
    recipe = engine_recipe(host.engine)
    paths = host_paths(host_root(host, facts), host.deployment)
    manager = _manager(host, facts)
    python = facts.interpreter(host.engine.python)
    simulated = host.engine.kind == "simulator"
    return HostPlan(
        name=host.name,
        address=address,
        paths=paths,
        manager=manager,
        user=host.service.user or ("slipway" if manager == "systemd" else facts.login),
        python=python.path if python else "python3",
        builds=_builds(host, facts, manager, recipe, series),
        simulator=f"simulator-{agent_digest()}" if simulated and host.workers else None,
        checkpoint=_checkpoint(host, paths, files),
        system_libraries=recipe.system_libraries if recipe and host.workers and not simulated else {},
        restart_delay_s=host.service.restart_delay_s,
        hardware=machine.hardware.describe() if machine.hardware else "",
    )


def _manager(host: HostSettings, facts: HostFacts) -> str:
    if host.service.manager != "auto":
        return host.service.manager
    return "systemd" if facts.systemd and facts.superuser else "supervisor"


def _builds(
    host: HostSettings, facts: HostFacts, manager: str, recipe: Recipe | None, series: Series | None
) -> tuple[Build, ...]:
    engine = host.engine
    sources = Sources(engine.index_url, engine.extra_index_url, engine.find_links, engine.wheelhouse)
    python = engine.python or facts.default_python
    wanted: list[Build] = []
    if host.workers and recipe and engine.kind == "sglang":
        patches = build_patches(engine.patches, series)
        git = GitSource(engine.git, engine.commit, engine.depth) if engine.git and engine.commit else None
        wanted.append(make_build(recipe, engine.version, python, sources, engine.extra_packages, patches, git))
    if "router" in host.roles:
        found = find_recipe({"kind": "router", "version": host.router.version})
        wanted += [make_build(found, host.router.version, python, sources)] if found else []
    if manager == "supervisor":
        found = find_recipe({"kind": "supervisor"})
        wanted += [make_build(found, "4.3.0", python, sources)] if found else []
    if host.workers and host.model.repo:
        wanted.append(make_build(recipe_named("hub"), "2.4.0", python, sources))
    return tuple(wanted)


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
