"""Instances to GPUs, listeners to ports, hosts to addresses: pure and deterministic."""

from slipway.placement.addresses import Address, AddressPlan, endpoint, plan_addresses
from slipway.placement.model import Host, Instance, Node, Placement, Request
from slipway.placement.place import place
from slipway.placement.ports import (
    InstancePorts,
    PortPlan,
    PortRanges,
    PortUse,
    check_listeners,
    plan_ports,
)

__all__ = [
    "Address",
    "AddressPlan",
    "Host",
    "Instance",
    "InstancePorts",
    "Node",
    "Placement",
    "PortPlan",
    "PortRanges",
    "PortUse",
    "Request",
    "check_listeners",
    "endpoint",
    "place",
    "plan_addresses",
    "plan_ports",
]
