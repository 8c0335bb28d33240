"""Service managers: one small interface over systemd and supervisor. Pure: texts and command lines."""

from __future__ import annotations

from slipway.plan.model import HostPlan

from .interface import Manager
from .supervisor import Supervisor
from .systemd import Systemd


def manager_of(host: HostPlan, deployment: str) -> Manager:
    """The service manager that the plan names for this host."""
    return Systemd(host, deployment) if host.manager == "systemd" else Supervisor(host, deployment)


__all__ = ["Manager", "Supervisor", "Systemd", "manager_of"]
