"""What the state probe is asked about a host, so that one execution answers everything."""

from __future__ import annotations

from typing import Any

from slipway.bundle import agent_digest
from slipway.plan.hub import HubFiles
from slipway.plan.model import HostPlan, Plan
from slipway.plan.urls import url_of

from .wanted import Wanted


def state_request(plan: Plan, wanted: Wanted) -> dict[str, Any]:
    """The probe's request, as slipway/agent/state.py takes it."""
    host = wanted.host
    instances = plan.on(host.name)
    return {
        "files": [
            *(folder.path for folder in wanted.folders),
            *(file.path for file in wanted.files if not file.sealed),
            agent_path(host),
            f"{host.paths['deployment']}/current",
            f"{host.paths['deployment']}/current/plan.json",
        ],
        "sealed": [file.path for file in wanted.files if file.sealed],
        "folders": _checkpoint(host),
        "checkpoints": _fetched(host),
        "builds": [f"{host.paths['engines']}/{build}" for build in build_ids(host)],
        "services": {"manager": host.manager, "names": _services(plan, wanted), "control": wanted.manager.control},
        "ports": sorted({port for one in instances for port in (*one.ports.values(), *one.reserved.values())}),
        "users": [host.user],
        "disks": [host.paths["root"]],
        "deployment": plan.deployment,
        "routers": {one.serves_at: url_of(one) for one in instances if one.role == "router"},
        "listings": [
            wanted.manager.folder,
            host.paths["releases"],
            host.paths["services"],
            *wanted.manager.override_folders(instances),
        ],
    }


def _services(plan: Plan, wanted: Wanted) -> list[str]:
    names = [wanted.manager.service(instance.name) for instance in plan.on(wanted.host.name)]
    checks = [wanted.manager.check] if wanted.host.verify_every_s else []
    return [*names, *wanted.manager.companions, *checks] if names else []


def _checkpoint(host: HostPlan) -> dict[str, dict[str, list[Any]]]:
    checkpoint = host.checkpoint
    if checkpoint is None or checkpoint.files is None or isinstance(checkpoint.files, HubFiles):
        return {}
    return {checkpoint.path: {name: list(entry) for name, entry in checkpoint.files.entries.items()}}


def _fetched(host: HostPlan) -> list[str]:
    """A folder stands for its list of files: its name is the commit's."""
    return [host.checkpoint.path] if host.checkpoint and isinstance(host.checkpoint.files, HubFiles) else []


def agent_path(host: HostPlan) -> str:
    """Where the agent bundle lies."""
    return f"{host.paths['agent']}/{agent_digest()}.pyz"


def build_ids(host: HostPlan) -> list[str]:
    """Every build of the host, the simulator included."""
    return [*(build.id for build in host.builds), *([host.simulator] if host.simulator else [])]
