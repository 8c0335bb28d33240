"""The provenance of results: what was measured, as provenance.json and plan.json of a label record it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from slipway import __version__
from slipway.bench.sweep import WORKERS, gpu_counts
from slipway.builds.recipe import Build
from slipway.config.deployment import HostSettings
from slipway.hardware import HostHardware
from slipway.plan.model import Plan, to_json

FORMAT = 1
# What a sweep asks for that may differ between its repeats.
_OWN_TO_A_REPEAT = ("seed",)


def plan_hash(plan: Plan) -> str:
    """Twelve digits over what runs: builds, checkpoints, command lines, environments, GPUs. Equal: the same."""
    hosts = [[host.name, [build.id for build in host.builds], to_json(host.checkpoint)] for host in plan.hosts]
    instances = [[one.name, one.host, one.build, one.gpus, one.argv, dict(one.env)] for one in plan.instances]
    text = json.dumps([hosts, to_json(instances)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def provenance(
    plan: Plan, label: str, router: HostSettings, drivers: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Everything but the runs. router: settings of the router's host. drivers: host -> driver, kernel and the like."""
    builds = {build.id: build for host in plan.hosts for build in host.builds}
    return {
        "format": FORMAT,
        "label": label,
        "deployment": plan.deployment,
        "simulated": plan.simulated,
        "plan": plan_hash(plan),
        "engine": {name: getattr(router.engine, name) for name in ("kind", "version", "device")},
        "builds": _builds(builds) | _simulators(plan),
        "patches": [{"id": patch.id, "sha256": patch.sha256} for one in builds.values() for patch in one.patches],
        "checkpoint": _checkpoint(plan),
        "settings": _settings(plan),
        "roofline": {one.role: to_json(one.roofline) for one in plan.decisions if one.roofline},
        "environment": {one.name: dict(one.env) for one in plan.instances},
        "topology": _topology(plan),
        "gpus": gpu_counts(plan),
        "hosts": {host.name: {"hardware": host.hardware, **drivers.get(host.name, {})} for host in plan.hosts},
        "router": {name: to_json(getattr(router.router, name)) for name in ("version", "policy", "server_args")},
        "client": {"name": router.bench.client, "host": router.bench.host or router.name, "api": router.bench.api},
        "slipway": __version__,
        "runs": [],
    }


def _checkpoint(plan: Plan) -> dict[str, str] | None:
    found = next((host.checkpoint for host in plan.hosts if host.checkpoint), None)
    keys = ("name", "served_name", "revision", "path")
    return None if found is None else {key: getattr(found, key) for key in keys}


def _builds(builds: Mapping[str, Build]) -> dict[str, Any]:
    keys = ("kind", "version", "python", "recipe", "git")
    return {name: {key: to_json(getattr(build, key)) for key in keys} for name, build in builds.items()}


def _simulators(plan: Plan) -> dict[str, Any]:
    return {host.simulator: {"kind": "simulator"} for host in plan.hosts if host.simulator}


def _settings(plan: Plan) -> dict[str, dict[str, Any]]:
    """Role -> setting -> value. Workers of a role that were decided differently have an entry each, by their names."""
    found: dict[str, dict[str, Any]] = {}
    for decision in plan.decisions:
        name = decision.role if decision.role not in found else ",".join(decision.instances)
        found[name] = {setting.name: to_json(setting.value) for setting in decision.settings}
    return found


def _topology(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    roles = [role for role in (*WORKERS, "router") if plan.of(role)]
    return {
        role: [{"instance": one.name, "host": one.host, "gpus": list(one.gpus)} for one in plan.of(role)]
        for role in roles
    }


def host_facts(hardware: HostHardware) -> dict[str, str]:
    """What of a host's hardware can change figures and stands in no plan."""
    return {name: str(getattr(hardware, name) or "") for name in ("driver", "cuda", "kernel")}


def unlike_before(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Why a repeat cannot be appended: what was measured before is something else. Empty: it is the same."""
    keys = ("plan", "engine", "checkpoint", "patches", "hosts", "router", "client", "gpus")
    return [
        f"{key}: {_short(old.get(key))} then, {_short(new.get(key))} now" for key in keys if old.get(key) != new[key]
    ]


def other_sweep(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """As unlike_before, for sweep.json."""
    keys = [key for key in new if key not in _OWN_TO_A_REPEAT and old.get(key) != new[key]]
    return [f"sweep.{key}: {_short(old.get(key))} then, {_short(new[key])} now" for key in keys]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."


def with_times(record: Mapping[str, Any], cells: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The provenance with the start and end of each run, from its cells."""
    times: dict[int, list[str]] = {}
    for cell in cells:
        times.setdefault(cell["repeat"], []).extend([cell["started"], cell["ended"]])
    runs = [
        {**run, "started": min(times[run["repeat"]]), "ended": max(times[run["repeat"]])}
        if run["repeat"] in times
        else dict(run)
        for run in record["runs"]
    ]
    return {**record, "runs": runs}
