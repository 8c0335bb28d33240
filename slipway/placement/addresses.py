"""The address under which the other hosts reach each host: routable, or said not to be."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slipway.finding import Finding
from slipway.hardware.model import HostHardware
from slipway.placement.model import Host

LOOPBACK = "127.0.0.1"
VIRTUAL = re.compile(r"(lo|docker|br-|veth|virbr|cni|flannel|cali|kube|ifb|dummy|podman|lxc|nerdctl|ovs)\w*")
NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?")
SOURCE = "sgl-project/sglang PR #27608: a wildcard or loopback address makes bootstrap answer 503 for ever"
FIX = "set `address:` of this host to the address its peers reach"

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Address:
    """A host's address, and why that one."""

    host: str
    address: str
    why: str


@dataclass(frozen=True)
class AddressPlan:
    """An address for each host that could be given one."""

    addresses: tuple[Address, ...] = ()
    findings: tuple[Finding, ...] = ()

    def of(self, host: str) -> str:
        """A host's address; empty where none is known."""
        return next((entry.address for entry in self.addresses if entry.host == host), "")


def endpoint(address: str, port: int) -> str:
    """host:port, with IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def literal(text: str) -> IpAddress | None:
    """An address literal, or None for a name."""
    try:
        return ipaddress.ip_address(text.strip("[]").split("%", 1)[0])
    except ValueError:
        return None


def plan_addresses(hosts: Sequence[Host]) -> AddressPlan:
    """One address a host: as configured, else from its interfaces; loopback only where there is one host."""
    findings: list[Finding] = []
    alone = len(hosts) == 1
    chosen = [entry for host in hosts if (entry := address_of(host, alone, findings)) is not None]
    findings += shared(chosen)
    return AddressPlan(tuple(chosen), tuple(findings))


def address_of(host: Host, alone: bool, findings: list[Finding]) -> Address | None:
    """One host's address."""
    if host.address:
        return configured(host, alone, findings)
    if alone:
        return Address(host.name, LOOPBACK, "the deployment has one host")
    probed = next(candidates(host.hardware or HostHardware()), None)
    if probed is not None:
        return Address(host.name, *probed)
    known = literal(host.name)
    if known is not None and not useless(known):
        return Address(host.name, str(known), "the inventory names the host by its address")
    message = "no routable address is known, and peers on other hosts must reach it"
    findings.append(Finding("placement.address-unknown", "error", host.name, message, FIX, SOURCE))
    return None


def configured(host: Host, alone: bool, findings: list[Finding]) -> Address | None:
    """An address that config names: refused where peers cannot use it."""
    address = literal(host.address)
    if address is None:
        return named(host, alone, findings)
    why = useless(address)
    if why and not (alone and address.is_loopback):
        message = f"address {host.address} is {why}: peers cannot reach the host by it"
        findings.append(Finding("placement.address-unroutable", "error", host.name, message, FIX, SOURCE))
        return None
    own = {literal(text) for text, _, _ in interface_addresses(host.hardware or HostHardware())}
    if own and address not in own and not address.is_loopback:
        has = ", ".join(sorted(str(entry) for entry in own if entry and not entry.is_loopback)[:6]) or "none"
        message = f"address {host.address} is on none of its interfaces (found: {has})"
        fix = "correct `address:`; behind address translation, check that peers reach it"
        findings.append(Finding("placement.address-foreign", "warning", host.name, message, fix))
    return Address(host.name, str(address), "configured")


def named(host: Host, alone: bool, findings: list[Finding]) -> Address | None:
    """A name: fine when every host resolves it alike, which nobody here can know."""
    if not NAME.fullmatch(host.address):
        message = f"address {host.address[:100]!r} is neither an IP address nor a host name"
        findings.append(Finding("placement.address-unroutable", "error", host.name, message, FIX))
        return None
    if host.address.lower().split(".", 1)[0] in ("localhost", "ip6-localhost") and not alone:
        message = f"address {host.address} is loopback: peers cannot reach the host by it"
        findings.append(Finding("placement.address-unroutable", "error", host.name, message, FIX, SOURCE))
        return None
    if not alone:
        message = f"address {host.address} is a name: every host must resolve it, this one not to loopback"
        findings.append(Finding("placement.address-name", "note", host.name, message, "an IP address is surer"))
    return Address(host.name, host.address, "configured, a name")


def useless(address: IpAddress) -> str:
    """Why peers cannot use an address; empty when they can."""
    kinds = {
        "the wildcard": address.is_unspecified,
        "loopback": address.is_loopback,
        "link-local": address.is_link_local,
        "multicast": address.is_multicast,
    }
    return next((kind for kind, holds in kinds.items() if holds), "")


def interface_addresses(hardware: HostHardware) -> Iterator[tuple[str, str, bool]]:
    """(address, interface, up) of a host, as probed."""
    for interface in hardware.interfaces:
        for address, _ in interface.addresses:
            yield address, interface.name, interface.up


def candidates(hardware: HostHardware) -> Iterator[tuple[str, str]]:
    """Addresses that peers may use, the likeliest first, each with its reason."""
    found = []
    for text, name, up in interface_addresses(hardware):
        address = literal(text)
        if address is None or useless(address) or not up or VIRTUAL.match(name):
            continue
        by_route = name == hardware.default_interface
        rank = (text != hardware.default_address, not by_route, address.version, name, text)
        why = f"interface {name}, which has the default route" if by_route else f"interface {name}"
        found.append((rank, text, why))
    return ((text, why) for _, text, why in sorted(found))


def shared(chosen: Iterable[Address]) -> Iterator[Finding]:
    """Two hosts under one address: clones, or machines behind the same address translation."""
    by_address: dict[str, list[str]] = {}
    for entry in chosen:
        by_address.setdefault(entry.address, []).append(entry.host)
    for address, names in by_address.items():
        if len(names) > 1:
            message = f"address {address} belongs to {', '.join(names)}: it must lead to one of them"
            yield Finding("placement.address-shared", "error", names[0], message, FIX)
