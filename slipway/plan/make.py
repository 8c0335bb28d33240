"""Makes the plan: configuration and facts in, every choice out. Pure; equal inputs give equal plans."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slipway import rules
from slipway.builds.locks import Locks
from slipway.builds.recipe import NO_LOCKS, engine_recipe
from slipway.checkpoint import Inspection
from slipway.config.deployment import Deployment, HostSettings
from slipway.finding import Finding
from slipway.knowledge.flags import FlagList
from slipway.patching.findings import patch_findings, tried_findings
from slipway.patching.series import Series
from slipway.patching.trying import Tried
from slipway.placement import Instance as Placed

from .builds import build_findings
from .decide import Decided, decide, described
from .evidence import Evidence, InstanceEvidence
from .facts import ASSUMED, HostFacts
from .hosts import model_findings, plan_host
from .kind import Kind, kind_of, source_of
from .layout import Layout, lay_out
from .machines import Machine, read_machines
from .model import Files, HostPlan, Instance, Plan
from .preflight import host_findings, socket_findings
from .sharing import sharing_findings
from .waivers import apply_waivers
from .workers import router_instance, worker_instances


@dataclass(frozen=True)
class Known:
    """All that is known beside the configuration.

    facts: by host name; a host without an entry is planned on assumptions, and a note says so. files: the model
    folders on the controller, by the `model.path` that names them; a text says what is wrong with the folder.
    checkpoints: what was read of each, by `model.facts` or `model.path`. flags: lists learnt from built engines,
    by release. series: patches that engines can be built with; None when nobody has read them. locks: of packages.
    tried: how the patches of a host stand to the wheel that it is to get, by its name, where that wheel is here.
    """

    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    files: Mapping[str, Files | str] = field(default_factory=dict)
    checkpoints: Mapping[str, Inspection | str] = field(default_factory=dict)
    flags: Mapping[str, FlagList] = field(default_factory=dict)
    series: Series | None = None
    locks: Locks = NO_LOCKS
    tried: Mapping[str, Sequence[Tried]] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """A plan, what rules judged it by, and how each worker was decided."""

    plan: Plan
    evidence: Evidence
    decided: Mapping[str, Decided]


def make_plan(deployment: Deployment, known: Known) -> Plan:
    """Resolve `deployment`."""
    return make(deployment, known).plan


def make(deployment: Deployment, known: Known) -> Made:
    """Resolve `deployment`, and keep what led to it."""
    draft = _draft(deployment, known)
    plan = _plan(draft)
    evidence = _evidence(draft, plan)
    return Made(_judged(evidence), evidence, draft.decided)


@dataclass(frozen=True)
class _Draft:
    """What the steps of planning share."""

    deployment: Deployment
    known: Known
    settings: Mapping[str, HostSettings]
    machines: Mapping[str, Machine]
    layout: Layout
    hosts: Mapping[str, HostPlan]
    decided: Mapping[str, Decided]


def _draft(deployment: Deployment, known: Known) -> _Draft:
    settings = {host.name: host for host in deployment.hosts}
    machines = read_machines(deployment, known.facts)
    layout = lay_out(deployment, machines, known.facts)
    hosts = {
        name: plan_host(
            host, known.facts.get(name, ASSUMED), machines[name], layout.addresses[name],
            known.files, known.series, known.locks,
        )
        for name, host in settings.items()
    }  # fmt: skip
    decided = _decided([(placed.name, _kind(placed, settings, machines, known)) for placed in _workers(layout)], known)
    return _Draft(deployment, known, settings, machines, layout, hosts, decided)


def _workers(layout: Layout) -> list[Placed]:
    return [placed for placed in layout.placement.instances if placed.role != "router"]


def _kind(placed: Placed, settings: Mapping[str, HostSettings], machines: Mapping[str, Machine], known: Known) -> Kind:
    host = settings[placed.host]
    inspection = known.checkpoints.get(source_of(host))
    checkpoint = inspection.checkpoint if isinstance(inspection, Inspection) else None
    return kind_of(placed, host, machines, engine_recipe(host.engine), checkpoint)


def _decided(kinds: Iterable[tuple[str, Kind]], known: Known) -> dict[str, Decided]:
    """By worker's name; workers that are alike share one value."""
    names: dict[Hashable, list[str]] = {}
    first: dict[Hashable, Kind] = {}
    for name, kind in kinds:
        names.setdefault(kind.key, []).append(name)
        first.setdefault(kind.key, kind)
    found = {key: decide(kind, names[key], known.flags) for key, kind in first.items()}
    return {name: found[key] for key, alike in names.items() for name in alike}


def _grouped(decided: Mapping[str, Decided]) -> dict[Hashable, tuple[Decided, list[str]]]:
    groups: dict[Hashable, tuple[Decided, list[str]]] = {}
    for name, one in decided.items():
        groups.setdefault(one.kind.key, (one, []))[1].append(name)
    return groups


def _plan(draft: _Draft) -> Plan:
    """The plan without the findings of rules."""
    instances = _instances(draft)
    groups = _grouped(draft.decided).values()
    return Plan(
        deployment=draft.deployment.hosts[0].deployment,
        hosts=tuple(draft.hosts.values()),
        instances=instances,
        simulated=any(host.engine.kind == "simulator" for host in draft.deployment.hosts),
        decisions=tuple(described(one, names) for one, names in groups),
        findings=tuple(dict.fromkeys(_findings(draft, instances))),
    )


def _instances(draft: _Draft) -> tuple[Instance, ...]:
    """Workers in start order, prefill before the decodes that talk to it; then routers."""
    name, ports = draft.deployment.hosts[0].deployment, draft.layout.ports.by_instance
    workers = [
        instance
        for placed in _workers(draft.layout)
        for instance in worker_instances(placed, draft.decided[placed.name], draft.hosts, ports[placed.name], name)
    ]
    routers = [
        router_instance(placed, draft.settings[placed.host], draft.hosts[placed.host], ports[placed.name], workers)
        for placed in draft.layout.placement.of_role("router")
    ]
    return (*workers, *routers)


def _findings(draft: _Draft, instances: Sequence[Instance]) -> Iterator[Finding]:
    for name, host in draft.settings.items():
        facts = draft.known.facts.get(name, ASSUMED)
        yield from host_findings(host, facts, engine_recipe(host.engine))
        yield from draft.machines[name].findings
        yield from model_findings(host, draft.known.files)
        yield from patch_findings(host.engine, name, draft.known.series) if host.workers else ()
        yield from tried_findings(draft.known.tried.get(name, ()), name, host.engine.version)
        yield from build_findings(host.engine, draft.hosts[name], draft.known.locks) if host.workers else ()
    for inspection in draft.known.checkpoints.values():
        yield from inspection.findings if isinstance(inspection, Inspection) else ()
    yield from draft.layout.findings
    for one, _ in _grouped(draft.decided).values():
        yield from one.findings
    for instance in instances:
        if "TMPDIR" in instance.env:
            yield from socket_findings(instance.name, instance.env["TMPDIR"])
    yield from sharing_findings(instances)
    yield from _topology(draft.deployment)


def _evidence(draft: _Draft, plan: Plan) -> Evidence:
    by_name = {instance.name: instance for instance in plan.instances}
    workers = tuple(_worker_evidence(draft, placed, by_name[placed.name]) for placed in _workers(draft.layout))
    hosts = draft.deployment.hosts
    return Evidence(
        deployment=draft.deployment,
        plan=plan,
        instances=workers,
        ports=draft.layout.ports,
        addresses=draft.layout.addresses,
        hardware={name: one.hardware for name, one in draft.machines.items() if one.hardware},
        facts=draft.known.facts,
        patches=tuple(dict.fromkeys(patch for host in hosts for patch in host.engine.patches)),
        checkpoint=next((worker.checkpoint for worker in workers if worker.checkpoint), None),
    )


def _worker_evidence(draft: _Draft, placed: Placed, instance: Instance) -> InstanceEvidence:
    one = draft.decided[placed.name]
    machines = (draft.machines[host].hardware for host in placed.hosts)
    return InstanceEvidence(
        instance=instance,
        settings=one.kind.settings,
        release=one.kind.engine.version,
        arch=one.kind.arch,
        hardware=tuple(hardware for hardware in machines if hardware),
        choices={choice.name: choice for choice in one.choices},
        memory=one.memory,
        read=one.read,
        checkpoint=one.kind.checkpoint,
    )


def _judged(evidence: Evidence) -> Plan:
    """The plan with the findings of rules, and those that the user accepts as notes."""
    waive = evidence.deployment.hosts[0].waive
    return replace(
        evidence.plan,
        findings=apply_waivers([*evidence.plan.findings, *rules.check(evidence)], waive, rules.known_ids()),
    )


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
