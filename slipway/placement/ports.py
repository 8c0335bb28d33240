"""Which port every listener of a release takes, so that no two meet on a host.

Sources: sglang 0.5.13 to 0.5.23, `srt/server_args.py` (PortArgs.init_new) and
`srt/managers/data_parallel_controller.py`; engine_info listens where an instance seeds weights to others
(`srt/entrypoints/engine.py`), encoder where it is `--language-only` (`srt/managers/tokenizer_manager.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from slipway.finding import Finding
from slipway.hardware.model import Listener
from slipway.placement.model import Host, Instance, Placement

Purpose = Literal["http", "bootstrap", "dist_init", "nccl", "router", "metrics", "engine_info", "encoder"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
SHARE = "model.share_port"  # stands for an instance: what gives the checkpoint to other hosts belongs to none

LAST_PORT = 65535
EPHEMERAL = range(32768, 61000)  # Linux's default: outgoing connections may hold these at any moment
DP_OFFSETS = (0, 1, 2, 3, 4, 5, 6, 13)  # +1..+6 sockets of attention DP, +13 its handshake between nodes
BLOCK = 16  # dist-init ports of two instances stay this far apart
EVERYWHERE = "*"  # stands for the deployment where a port shall be unique in all of it


@dataclass(frozen=True)
class PortRanges:
    """Where each purpose starts counting."""

    http: int = 30000
    bootstrap: int = 8998
    dist_init: int = 20000
    nccl: int = 25000
    router: int = 8000
    metrics: int = 29000
    engine_info: int = 6789
    encoder: int = 8997


@dataclass(frozen=True)
class PortUse:
    """One port on one host. purpose: as in `Purpose`; `dist_init+3` is a socket beside dist_init."""

    host: str
    port: int
    instance: str
    purpose: str


@dataclass(frozen=True)
class InstancePorts:
    """The ports of one instance; None is a listener that it does not have."""

    instance: str
    http: int | None = None
    bootstrap: int | None = None
    dist_init: int | None = None
    nccl: int | None = None
    router: int | None = None
    metrics: int | None = None
    engine_info: int | None = None
    encoder: int | None = None


@dataclass(frozen=True)
class PortPlan:
    """Every listener of a release."""

    uses: tuple[PortUse, ...] = ()
    ports: tuple[InstancePorts, ...] = ()
    findings: tuple[Finding, ...] = ()

    @cached_property
    def by_instance(self) -> dict[str, InstancePorts]:
        """An instance's ports by its name."""
        return {ports.instance: ports for ports in self.ports}

    def on_host(self, host: str) -> tuple[PortUse, ...]:
        """The listeners of a host."""
        return tuple(use for use in self.uses if use.host == host)


@dataclass
class Ledger:
    """Who holds which port of which host."""

    held: dict[str, dict[int, tuple[str, str]]] = field(default_factory=dict)
    next_free: dict[tuple[str, str, int], int] = field(default_factory=dict)
    chosen: dict[tuple[str, str], int] = field(default_factory=dict)
    uses: list[PortUse] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def holder(self, hosts: Sequence[str], port: int) -> tuple[str, str, str] | None:
        """Host, instance and purpose that hold a port on any of some hosts."""
        for host in hosts:
            found = self.held.get(host, {}).get(port)
            if found is not None:
                return (host, *found)
        return None

    def hold(self, need: Need, port: int) -> None:
        """Enter a port and those beside it."""
        self.chosen[need.instance, need.purpose] = port
        for offset in need.offsets:
            purpose = need.purpose if offset == 0 else f"{need.purpose}+{offset}"
            for host in need.hosts:
                self.held.setdefault(host, {})[port + offset] = (need.instance, purpose)
                if host != EVERYWHERE:
                    self.uses.append(PortUse(host, port + offset, need.instance, purpose))


@dataclass(frozen=True)
class Need:
    """One port that an instance needs: on which hosts, with which neighbours, from where on."""

    instance: str
    purpose: Purpose | Literal["share"]
    hosts: tuple[str, ...]
    base: int
    offsets: tuple[int, ...] = (0,)
    step: int = 1


def plan_ports(
    placement: Placement,
    ranges: PortRanges | None = None,
    fixed: Mapping[tuple[str, str], int] | None = None,
    sharing: Mapping[str, int] | None = None,
) -> PortPlan:
    """A port for every listener. `fixed` maps (instance, purpose) to a port that must be that one.

    sharing: by host, the port at which others take its checkpoint. It is entered last: nothing that serves moves for
    what listens only while a fetch runs.
    """
    ranges, fixed = ranges or PortRanges(), fixed or {}
    ledger = Ledger()
    routers_first = sorted(placement.instances, key=lambda instance: instance.role != "router")
    needs = [need for instance in routers_first for need in instance_needs(instance, ranges)]
    check_fixed(fixed, needs, ledger)
    for need in needs:
        if (need.instance, need.purpose) in fixed:
            hold_fixed(need, fixed[need.instance, need.purpose], ledger)
    for need in needs:
        if (need.instance, need.purpose) not in fixed:
            hold_next(need, ledger)
    for host, port in (sharing or {}).items():
        hold_fixed(Need(SHARE, "share", (host,), port), port, ledger)
    ledger.findings += ephemeral(ledger)
    ports = tuple(collect(instance.name, ledger) for instance in placement.instances)
    return PortPlan(tuple(ledger.uses), ports, tuple(ledger.findings))


def instance_needs(instance: Instance, ranges: PortRanges) -> Iterator[Need]:
    """The listeners of one instance."""
    request, name = instance.request, instance.name
    bases = dict(request.first_ports)

    def need(purpose: Purpose, hosts: tuple[str, ...], offsets: tuple[int, ...] = (0,), step: int = 1) -> Need:
        return Need(name, purpose, hosts, bases.get(purpose, getattr(ranges, purpose)), offsets, step)

    leader, everyone = (instance.host,), instance.hosts
    if instance.role == "router":
        yield need("router", leader)
        yield need("metrics", leader)
        return
    yield need("http", everyone)  # ranks above 0 answer on the same port as well
    if instance.role == "prefill":
        yield need("bootstrap", (*leader, EVERYWHERE))
    plain_dp = request.dp > 1 and not request.dp_attention
    if not plain_dp:  # each replica of plain DP takes a free port by itself, and fails on a fixed one
        yield need("nccl", everyone)
    if not plain_dp and (instance.nnodes > 1 or request.dp_attention):
        yield need("dist_init", everyone, DP_OFFSETS if request.dp_attention else (0,), BLOCK)
    for purpose in ("engine_info", "encoder"):
        if purpose in request.listens:
            yield need(purpose, leader)


def check_fixed(fixed: Mapping[tuple[str, str], int], needs: Sequence[Need], ledger: Ledger) -> None:
    """Fixed ports that no listener wants."""
    wanted = {(need.instance, need.purpose) for need in needs}
    for (instance, purpose), port in fixed.items():
        if (instance, purpose) not in wanted:
            message = f"port {port} is set for {purpose}, which {instance} does not listen on"
            ledger.findings.append(Finding("placement.port-unused", "warning", instance, message))


def hold_fixed(need: Need, port: int, ledger: Ledger) -> None:
    """A port that must be that one; whoever else wants it is named."""
    if not 0 < port <= LAST_PORT - max(need.offsets):
        message = f"{need.purpose} port {port} must be from 1 to {LAST_PORT - max(need.offsets)}"
        ledger.findings.append(Finding("placement.port-range", "error", need.instance, message))
        return
    hosts = tuple(host for host in need.hosts if host != EVERYWHERE)
    for offset in need.offsets:
        other = ledger.holder(hosts, port + offset)
        if other is not None:
            host, instance, purpose = other
            who = f"{instance} ({purpose}) and {need.instance} ({need.purpose})"
            fix = "give one of them another port"
            message = f"port {port + offset} on {host} is wanted by {who}"
            ledger.findings.append(Finding("placement.port-clash", "error", host, message, fix))
            return
    ledger.hold(need, port)


def hold_next(need: Need, ledger: Ledger) -> None:
    """The first port from the base on that is free on every host; unique in the deployment where asked."""
    port = first_free(need, need.hosts, ledger)
    if port is None and EVERYWHERE in need.hosts:
        port = first_free(need, need.hosts[:-1], ledger)
    if port is None:
        message = f"no {need.purpose} port is free from {need.base} to {LAST_PORT}"
        fix = "start the range lower"
        ledger.findings.append(Finding("placement.ports-exhausted", "error", need.instance, message, fix))
        return
    ledger.hold(need, port)


def first_free(need: Need, hosts: Sequence[str], ledger: Ledger) -> int | None:
    """Walk up from where the last search on these hosts ended: what it passed stays taken."""
    keys = [(host, need.purpose, need.base) for host in hosts]
    port = max(ledger.next_free.get(key, need.base) for key in keys)
    last = LAST_PORT - max(need.offsets)
    while port <= last and any(ledger.holder(hosts, port + offset) for offset in need.offsets):
        port += need.step
    if not 0 < port <= last:
        return None
    for key in keys:
        ledger.next_free[key] = port + need.step
    return port


def collect(instance: str, ledger: Ledger) -> InstancePorts:
    """The ports of one instance."""
    return InstancePorts(instance, **{name: ledger.chosen.get((instance, name)) for name in PURPOSES})


def ephemeral(ledger: Ledger) -> Iterator[Finding]:
    """Ports that an outgoing connection may hold just when a worker starts; one finding a purpose."""
    risky: dict[str, list[PortUse]] = {}
    for use in ledger.uses:
        if use.port in EPHEMERAL:
            risky.setdefault(use.purpose.split("+", 1)[0], []).append(use)
    for purpose, uses in risky.items():
        first = uses[0]
        more = f" and {len(uses) - 1} more" if len(uses) > 1 else ""
        message = f"{purpose} port {first.port} of {first.instance}{more} is in the ephemeral range 32768-60999"
        fix = "start below 32768, or reserve the ports in net.ipv4.ip_local_reserved_ports"
        yield Finding("placement.port-ephemeral", "warning", first.host, message, fix)


def check_listeners(plan: PortPlan, hosts: Sequence[Host], ours: Callable[[str, Listener], bool]) -> list[Finding]:
    """Planned ports that something else listens on now; `ours` tells a listener of this deployment."""
    planned: dict[str, dict[int, PortUse]] = {}
    for use in plan.uses:
        planned.setdefault(use.host, {})[use.port] = use
    findings = []
    for host in hosts:
        listening = host.hardware.listeners if host.hardware else ()
        for listener in {listener.port: listener for listener in listening}.values():  # IPv4 and IPv6: once
            held = planned.get(host.name, {}).get(listener.port)
            if held is not None and not ours(host.name, listener):
                who = f"{listener.command or 'another process'} (pid {listener.pid or 'unknown'})"
                message = f"port {held.port}, planned for {held.instance} ({held.purpose}), is held by {who}"
                fix = "stop it, or choose another port"
                findings.append(Finding("placement.port-busy", "error", host.name, message, fix))
    return findings
