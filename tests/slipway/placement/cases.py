"""Hosts by catalogue name, made once: equal machines share one value."""

from dataclasses import replace
from functools import cache

from slipway.hardware import HostHardware, Interface, declare
from slipway.placement import Host


@cache
def machine(name: str) -> HostHardware:
    hardware, findings = declare(name)
    assert hardware is not None, findings
    return hardware


def host(name: str, model: str, *roles: str, address: str = "", requests: tuple = ()) -> Host:
    return Host(name, machine(model), roles, address, requests)


def wired(*interfaces: tuple[str, str], default: str = "") -> HostHardware:
    """A host with network interfaces, as a probe finds them."""
    found = tuple(Interface(name, ((address, 24),)) for name, address in interfaces)
    route = next((address for name, address in interfaces if name == default), "")
    return replace(machine("cpu"), interfaces=found, default_interface=default, default_address=route)
