"""Where everything goes: GPUs and ports of each instance, and the address of each host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipway.config.deployment import Deployment, HostSettings, WorkerSettings
from slipway.finding import Finding
from slipway.placement import (
    AddressPlan,
    Host,
    Placement,
    PortPlan,
    Request,
    place,
    plan_addresses,
    plan_ports,
)

from .facts import HostFacts
from .machines import Machine, wants_gpus

LOOPBACK = "127.0.0.1"
# Switches of server_args that open one more listener (slipway/knowledge/releases.yml, listeners).
LISTENERS = {
    "remote_instance_weight_loader_start_seed_via_transfer_engine": "engine_info",
    "language_only": "encoder",
    "encoder_only": "encoder",
}


@dataclass(frozen=True)
class Layout:
    """The result. addresses: by host; loopback stands in where none is known, and a finding says so."""

    placement: Placement
    ports: PortPlan
    addresses: Mapping[str, str]
    findings: tuple[Finding, ...]


def lay_out(deployment: Deployment, machines: Mapping[str, Machine], facts: Mapping[str, HostFacts]) -> Layout:
    """Place every instance of every role, prefill first."""
    hosts = [_host(host, machines[host.name]) for host in deployment.hosts]
    placement = place(hosts, ())
    ports = plan_ports(placement, fixed=_router_ports(deployment, placement), sharing=_share_ports(deployment))
    addresses, notes = _addresses(hosts, {name for name, known in facts.items() if known.known})
    found = {host.name: addresses.of(host.name) or LOOPBACK for host in hosts}
    findings = (*placement.findings, *ports.findings, *addresses.findings, *notes)
    return Layout(placement, ports, found, findings)


def _host(host: HostSettings, machine: Machine) -> Host:
    requests = [_request(host, role, settings, machine) for role, settings in host.workers.items()]
    if "router" in host.roles:
        requests.append(Request("router"))
    return Host(host.name, machine.hardware, host.roles, host.address or "", tuple(requests))


def _request(host: HostSettings, role: str, settings: WorkerSettings, machine: Machine) -> Request:
    ports = (("http", settings.port), ("bootstrap", settings.bootstrap_port))
    without = not wants_gpus(host) or (host.engine.kind == "simulator" and not _has_gpus(machine))
    return Request(
        role=role,
        tp=settings.tp,
        pp=settings.pp,
        dp=settings.dp,
        dp_attention=settings.dp > 1 and settings.dp_attention,
        ep=settings.ep,
        nnodes=settings.nnodes,
        instances=None if settings.instances == "auto" else int(settings.instances),
        gpus=None if without else settings.gpus,
        share_gpus=settings.share_gpus,
        cpu=without,
        first_ports=ports if role == "prefill" else ports[:1],
        listens=_listens(settings),
    )


def _has_gpus(machine: Machine) -> bool:
    return machine.hardware is not None and bool(machine.hardware.gpus)


def _listens(settings: WorkerSettings) -> tuple[str, ...]:
    on = {key.replace("-", "_") for key, value in settings.server_args.items() if value is True}
    return tuple(dict.fromkeys(purpose for flag, purpose in LISTENERS.items() if flag in on))


def _router_ports(deployment: Deployment, placement: Placement) -> dict[tuple[str, str], int]:
    """The router's ports are exact: clients know them."""
    fixed: dict[tuple[str, str], int] = {}
    for instance in placement.of_role("router"):
        router = deployment.host(instance.host).router
        fixed[instance.name, "router"], fixed[instance.name, "metrics"] = router.port, router.metrics_port
    return fixed


def _share_ports(deployment: Deployment) -> dict[str, int]:
    """By host, where it gives its checkpoint to others that are to have the same, as roles/checkpoint does it."""
    alike: dict[tuple[str | None, ...], list[HostSettings]] = {}
    for host in deployment.hosts:
        model = host.model
        if host.workers and (model.repo or model.path):
            alike.setdefault((model.repo, model.revision, model.path), []).append(host)
    together = [hosts for hosts in alike.values() if len(hosts) > 1 and all(host.model.share for host in hosts)]
    return {host.name: host.model.share_port for hosts in together for host in hosts}


def _addresses(hosts: list[Host], asked: set[str]) -> tuple[AddressPlan, list[Finding]]:
    """As placement plans them; a host that was not asked goes by its name in the inventory until it is."""
    guessed = {
        host.name: replace(host, address=host.name)
        for host in hosts
        if len(hosts) > 1 and not host.address and host.name not in asked and not host.name.startswith("@")
    }
    planned = plan_addresses([guessed.get(host.name, host) for host in hosts])
    kept = [item for item in planned.findings if item.severity == "error" or item.subject not in guessed]
    if not guessed:
        return planned, []
    names = list(guessed)
    text = f"{len(names)} host(s) go by their names ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
    note = Finding("address-assumed", "note", "inventory", text, "a deploy asks them; or set `address:`")
    return AddressPlan(planned.addresses, tuple(kept)), [note]
