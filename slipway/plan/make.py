"""Makes the plan: configuration and host facts in, every choice out. Pure; equal inputs give equal plans."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.builds.recipe import Build, Recipe, Sources, engine_recipe, find_recipe, make_build
from slipway.bundle import agent_digest
from slipway.config.deployment import Deployment, HostSettings
from slipway.finding import Finding

from . import arguments
from .facts import ASSUMED, HostFacts
from .flags import clean_exit, render_flags
from .model import CheckpointPlan, Files, HostPlan, Instance, Plan
from .paths import host_paths, host_root, instance_tmp
from .places import LOOPBACK, Place, PortBook, claim_router, host_address, place_workers, port_findings
from .preflight import host_findings, socket_findings


@dataclass
class _Draft:
    """What the steps of planning share; lives only while the plan is made."""

    deployment: Deployment
    facts: Mapping[str, HostFacts]
    files: Mapping[str, Files | str]
    hosts: dict[str, HostPlan]
    books: dict[str, PortBook]
    findings: list[Finding]


def make_plan(deployment: Deployment, facts: Mapping[str, HostFacts], files: Mapping[str, Files | str]) -> Plan:
    """Resolve `deployment`.

    facts: by host name; a host without an entry is planned on assumptions, and a note says so.
    files: the model folders on the controller, by the `model.path` that names them; a text says what is wrong
    with the folder.
    """
    books = {host.name: PortBook() for host in deployment.hosts}
    draft = _Draft(deployment, facts, files, {}, books, [])
    for host in deployment.hosts:
        draft.hosts[host.name] = _host(draft, host)
    routers = [(host, claim_router(host.router, books[host.name])) for host in _with(deployment, "router")]
    workers = [_worker(draft, place) for place in place_workers(deployment, books)]
    instances = [*workers, *(_router(draft, host, ports, workers) for host, ports in routers)]
    findings = [*draft.findings, *port_findings(books), *_topology(deployment)]
    simulated = any(host.engine.kind == "simulator" for host in deployment.hosts)
    return Plan(
        deployment.hosts[0].deployment, tuple(draft.hosts.values()), tuple(instances), simulated, tuple(findings)
    )


def _with(deployment: Deployment, role: str) -> list[HostSettings]:
    return [host for host in deployment.hosts if role in host.roles]


def _facts(draft: _Draft, host: str) -> HostFacts:
    return draft.facts.get(host, ASSUMED)


def _host(draft: _Draft, host: HostSettings) -> HostPlan:
    facts = _facts(draft, host.name)
    recipe = engine_recipe(host.engine)
    draft.findings += host_findings(host, facts, recipe)
    paths = host_paths(host_root(host, facts), host.deployment)
    manager = _manager(host, facts)
    python = facts.interpreter(host.engine.python)
    simulated = host.engine.kind == "simulator"
    return HostPlan(
        name=host.name,
        address=_address(draft, host, facts),
        paths=paths,
        manager=manager,
        user=host.service.user or ("slipway" if manager == "systemd" else facts.login),
        python=python.path if python else "python3",
        builds=_builds(host, facts, manager, recipe),
        simulator=f"simulator-{agent_digest()}" if simulated and host.workers else None,
        checkpoint=_checkpoint(draft, host, paths),
        system_libraries=recipe.system_libraries if recipe and host.workers and not simulated else {},
        restart_delay_s=host.service.restart_delay_s,
    )


def _manager(host: HostSettings, facts: HostFacts) -> str:
    if host.service.manager != "auto":
        return host.service.manager
    return "systemd" if facts.systemd and facts.superuser else "supervisor"


def _address(draft: _Draft, host: HostSettings, facts: HostFacts) -> str:
    address = host_address(host, facts, alone=len(draft.deployment.hosts) == 1)
    if not address:
        draft.findings.append(
            Finding(
                "address-unknown", "error", host.name, "the address that other hosts reach it under is not known",
                f"set `address:` in host_vars/{host.name}.yml",
            )
        )  # fmt: skip
    return address or LOOPBACK


def _builds(host: HostSettings, facts: HostFacts, manager: str, recipe: Recipe | None) -> tuple[Build, ...]:
    engine = host.engine
    sources = Sources(engine.index_url, engine.extra_index_url, engine.find_links, engine.wheelhouse)
    python = engine.python or facts.default_python
    wanted: list[Build] = []
    if host.workers and recipe and engine.kind == "sglang":
        wanted.append(make_build(recipe, engine.version, python, sources, engine.extra_packages))
    if "router" in host.roles:
        found = find_recipe({"kind": "router", "version": host.router.version})
        wanted += [make_build(found, host.router.version, python, sources)] if found else []
    if manager == "supervisor":
        found = find_recipe({"kind": "supervisor"})
        wanted += [make_build(found, "4.3.0", python, sources)] if found else []
    return tuple(wanted)


def build_of(host: HostPlan, kind: str) -> str:
    """Id of the host's build of `kind`; '' when it has none."""
    return next((build.id for build in host.builds if build.kind == kind), "")


def _checkpoint(draft: _Draft, host: HostSettings, paths: Mapping[str, str]) -> CheckpointPlan | None:
    model = host.model
    if not host.workers:
        return None
    if model.host_path:
        name = model.name or model.host_path.rstrip("/").rpartition("/")[2]
        return CheckpointPlan(model.host_path, name, "in-place", model.host_path, None)
    files = draft.files.get(model.path or "", "no checkpoint is named")
    if isinstance(files, str):
        fix = (
            "set model.path (a folder beside the inventory or in the checkout) or model.host_path in group_vars/all.yml"
        )
        draft.findings.append(Finding("model-folder", "error", host.name, files, fix))
        return None
    folder = files.source.rstrip("/").rpartition("/")[2]
    revision = _revision(files)
    path = f"{paths['checkpoints']}/local--{folder}/{revision}"
    return CheckpointPlan(f"local--{folder}", model.name or folder, revision, path, files)


def _revision(files: Files) -> str:
    return hashlib.sha256(json.dumps(sorted(files.entries.items())).encode()).hexdigest()[:12]


def _worker(draft: _Draft, place: Place) -> Instance:
    host, settings = draft.hosts[place.host], draft.deployment.host(place.host)
    recipe = engine_recipe(settings.engine)
    simulated = settings.engine.kind == "simulator"
    build = host.simulator or build_of(host, "sglang")
    flags = arguments.worker_settings(place.role, place.settings, recipe, _placed(place, host))
    rendered, findings = render_flags(settings.engine.version, place.name, flags)
    draft.findings += findings
    gpus = place.settings.gpus or ()
    cache = f"{host.paths['cache']}/{build}"
    tmp = instance_tmp(host.paths, settings.deployment, place.name)
    draft.findings += socket_findings(place.name, tmp)
    env = arguments.worker_env(place.settings, recipe, host.address, cache, tmp, gpus)
    return Instance(
        name=place.name,
        role=place.role,
        host=place.host,
        address=host.address,
        gpus=gpus,
        ports=place.ports,
        argv=arguments.worker_argv(_program(host, build, simulated), rendered),
        env=_marked(env, place.name, settings.deployment),
        build=build,
        serves_at=f"http://{host.address}:{place.ports['http']}",
        start_budget_s=place.settings.start_budget_s,
        drain_s=place.settings.drain_s,
        clean_exit=clean_exit(settings.engine.version),
        settings=flags,
    )


def _program(host: HostPlan, build: str, simulated: bool) -> tuple[str, ...]:
    home = f"{host.paths['engines']}/{build}"
    if simulated:
        return (host.python, f"{home}/agent.pyz", "simulator")
    return (f"{home}/venv/bin/python", "-m", "sglang.launch_server")


def _placed(place: Place, host: HostPlan) -> dict[str, object]:
    checkpoint = host.checkpoint
    placed: dict[str, object] = {
        "model_path": checkpoint.path if checkpoint else "",
        "served_model_name": checkpoint.served_name if checkpoint else "",
        "host": host.address,
        "port": place.ports["http"],
    }
    if "bootstrap" in place.ports:
        placed["disaggregation_bootstrap_port"] = place.ports["bootstrap"]
    return placed


def _marked(env: Mapping[str, str], name: str, deployment: str) -> dict[str, str]:
    """By these a live process tells whose it is."""
    return {**env, "SLIPWAY_DEPLOYMENT": deployment, "SLIPWAY_INSTANCE": name}


def _router(draft: _Draft, settings: HostSettings, ports: dict[str, int], workers: list[Instance]) -> Instance:
    host = draft.hosts[settings.name]
    build = build_of(host, "router")
    of = {role: [worker for worker in workers if worker.role == role] for role in ("prefill", "decode", "unified")}
    argv = arguments.router_argv(
        f"{host.paths['engines']}/{build}/venv/bin/python",
        settings.router,
        [(worker.serves_at, worker.ports["bootstrap"]) for worker in of["prefill"]],
        [worker.serves_at for worker in of["decode"]],
        [worker.serves_at for worker in of["unified"]],
    )
    env = arguments.router_env(settings.router, f"{host.paths['cache']}/{build}")
    name = f"router-{_with(draft.deployment, 'router').index(settings)}"
    reached = host.address if settings.router.host in ("0.0.0.0", "::") else settings.router.host  # noqa: S104
    return Instance(
        name=name, role="router", host=settings.name, address=reached, gpus=(), ports=ports, argv=argv,
        env=_marked(env, name, settings.deployment), build=build,
        serves_at=f"http://{reached}:{ports['http']}", start_budget_s=settings.router.start_budget_s,
        drain_s=30, clean_exit="0", settings={},
    )  # fmt: skip


def _topology(deployment: Deployment) -> list[Finding]:
    """A deployment needs prefill and decode, or unified workers, and never both in one router."""
    have = {role for host in deployment.hosts for role in host.roles}
    missing = [role for role in ("prefill", "decode") if role not in have]
    if "unified" in have and len(missing) < 2:
        what, fix = "unified workers beside prefill or decode", "serve them in two deployments"
    elif "unified" not in have and missing:
        what, fix = f"no host in group {' and '.join(missing)}", f"add a host to {missing[0]} in the inventory"
    else:
        return []
    return [Finding("topology", "error", "inventory", what, fix)]
