"""Which wheels travel to which host, for builds that are installed without a network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from slipway.builds.wheels import pick
from slipway.config.deployment import Deployment
from slipway.finding import Finding

from .model import Files, HostPlan, Plan


def with_wheels(plan: Plan, deployment: Deployment, files: Mapping[str, Files | str]) -> Plan:
    """`plan` with the wheels of each build of each host that has a wheelhouse; what it lacks becomes a finding."""
    hosts, findings = [], list(plan.findings)
    for host in plan.hosts:
        path = deployment.host(host.name).engine.wheelhouse
        found = files.get(path, "no such folder") if path else None
        if isinstance(found, Files):
            wheels, missing = _wheels(host, path or "", found)
            host, findings = replace(host, wheels=wheels), [*findings, *missing]  # noqa: PLW2901
        elif found is not None:
            fix = "slipway wheelhouse INVENTORY --into FOLDER makes one, on a machine with a network"
            findings.append(Finding("wheelhouse", "error", host.name, found, fix))
        hosts.append(host)
    return replace(plan, hosts=tuple(hosts), findings=tuple(findings))


def _wheels(host: HostPlan, path: str, wheelhouse: Files) -> tuple[dict[str, Files], list[Finding]]:
    picked = {build.id: pick(build, wheelhouse) for build in host.builds}
    findings = [
        Finding(
            "wheelhouse-incomplete", "error", host.name,
            f"engine.wheelhouse {path} lacks {_few(missing)}, which {build} needs",
            f"fill it: slipway wheelhouse INVENTORY --into {path}, on a machine with a network",
        )
        for build, (_, missing) in picked.items()
        if missing
    ]  # fmt: skip
    return {build: wheels for build, (wheels, _) in picked.items()}, findings


def _few(names: list[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + rest


def digest_of(files: Files) -> str:
    """Twelve hex digits that name a set of files by their content."""
    return hashlib.sha256(json.dumps(sorted(files.entries.items())).encode()).hexdigest()[:12]
