"""Names the secrets that instances are given. Their values never enter a plan; roles read them when they deploy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipway.config.deployment import Deployment

from .model import Instance, Plan

API_KEY = "SERVER_API_KEY"  # by this variable templates/keyed.py.j2 is given it


def with_secrets(plan: Plan, deployment: Deployment) -> Plan:
    """`plan` with each instance's secrets: variable -> where the controller finds its value."""
    instances = (replace(one, secrets=_of(one, deployment)) for one in plan.instances)
    return replace(plan, instances=tuple(instances))


def _of(instance: Instance, deployment: Deployment) -> Mapping[str, Mapping[str, str]]:
    host = deployment.host(instance.host)
    settings = host.router if instance.role == "router" else host.workers[instance.role]
    return {**settings.secret_env, **({API_KEY: settings.api_key} if settings.api_key else {})}
