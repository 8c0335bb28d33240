"""Facts of this machine for hosts that are this machine; no other host is asked."""

from __future__ import annotations

from slipway.agent import hardware
from slipway.config.deployment import Deployment
from slipway.plan.facts import HostFacts, read_facts

LOCAL = "@local"


def local_facts(deployment: Deployment) -> dict[str, HostFacts]:
    """Facts of the hosts of `deployment` that are reached without a connection."""
    if not any(host.name == LOCAL for host in deployment.hosts):
        return {}
    return {LOCAL: read_facts(hardware.probe([]))}
