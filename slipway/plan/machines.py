"""What each host is made of: declared, probed, and whether the two agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from slipway.config.deployment import Deployment, HostSettings
from slipway.finding import Finding
from slipway.hardware import HostHardware, check_cuda, compare, declare, parse
from slipway.knowledge import releases

from .facts import HostFacts


@dataclass(frozen=True)
class Machine:
    """One host. hardware: what the plan goes by; None when nothing is known of it."""

    hardware: HostHardware | None
    findings: tuple[Finding, ...] = ()


def read_machines(deployment: Deployment, facts: Mapping[str, HostFacts]) -> dict[str, Machine]:
    """Every host's hardware, by name."""
    return {host.name: _machine(host, facts.get(host.name)) for host in deployment.hosts}


def wants_gpus(host: HostSettings) -> bool:
    """Whether workers of this host compute on GPUs."""
    return bool(host.workers) and host.engine.device == "cuda"


def _machine(host: HostSettings, facts: HostFacts | None) -> Machine:
    declared, findings = _declared(host)
    probed = parse(facts.probe, host.name, host.deployment) if facts and facts.known else None
    if host.engine.kind == "simulator":
        return Machine(_rehearsed(declared, probed), findings)
    if probed is None or not wants_gpus(host):
        return Machine(probed or declared, (*findings, *_driver(host, probed or declared)))
    differences = compare(declared, probed, host.name) if declared else []
    return Machine(probed, (*findings, *differences, *probed.findings, *_driver(host, probed)))


def _rehearsed(declared: HostHardware | None, probed: HostHardware | None) -> HostHardware | None:
    """The simulator plays the declared machine on whatever host it runs; only the network is the host's own."""
    if declared is None or probed is None:
        return declared or probed
    return replace(
        declared,
        interfaces=probed.interfaces,
        default_interface=probed.default_interface,
        default_address=probed.default_address,
    )


def _declared(host: HostSettings) -> tuple[HostHardware | None, tuple[Finding, ...]]:
    """`hardware:` of the host; hosts that say the same share one value."""
    if isinstance(host.hardware, str):
        found, findings = _named(host.hardware)
    else:
        found, findings = _mapped(host.hardware)
    return found, tuple(replace(finding, subject=host.name) for finding in findings)


@lru_cache(maxsize=256)
def _named(name: str) -> tuple[HostHardware | None, tuple[Finding, ...]]:
    found, findings = declare(name)
    return found, tuple(findings)


def _mapped(value: Any) -> tuple[HostHardware | None, tuple[Finding, ...]]:
    plain = {key: _thawed(item) for key, item in value.items()} if isinstance(value, Mapping) else value
    found, findings = declare(plain)
    return found, tuple(findings)


def _thawed(item: Any) -> Any:
    return list(item) if isinstance(item, tuple) else item


def _driver(host: HostSettings, hardware: HostHardware | None) -> list[Finding]:
    """Whether the driver serves the CUDA that the release is built for."""
    release = releases.get(host.engine.version)
    if hardware is None or release is None or not release.cuda_majors or not wants_gpus(host):
        return []
    return check_cuda(hardware, str(min(release.cuda_majors)), host.name)
