"""Names the secrets that instances are given. Their values never enter a plan; roles read them when they deploy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipway.config.deployment import Deployment

from .model import Instance, Plan


def with_secrets(plan: Plan, deployment: Deployment) -> Plan:
    """`plan` with each instance's secrets: variable -> where the controller finds its value."""
    instances = (replace(one, secrets=_of(one, deployment)) for one in plan.instances)
    return replace(plan, instances=tuple(instances))


def _of(instance: Instance, deployment: Deployment) -> Mapping[str, Mapping[str, str]]:
    host = deployment.host(instance.host)
    return host.router.secret_env if instance.role == "router" else host.workers[instance.role].secret_env
