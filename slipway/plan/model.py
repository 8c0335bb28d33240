"""The plan's shape. Plain frozen values that serialise to JSON, diff, and are what a release records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

from slipway.builds.recipe import Build
from slipway.finding import Finding


@dataclass(frozen=True)
class Files:
    """A folder of files that travels from the controller: name -> (size in bytes, sha256)."""

    source: str
    entries: Mapping[str, tuple[int, str]]


@dataclass(frozen=True)
class CheckpointPlan:
    """The checkpoint of a host. path: where it lies there. files: None when it is there already."""

    name: str
    served_name: str
    revision: str
    path: str
    files: Files | None


@dataclass(frozen=True)
class Instance:
    """One process group that is started, watched and restarted as a unit: a worker or the router.

    role: prefill, decode, unified or router. ports: what it listens on, by use. argv: its command line.
    env: its environment, complete. clean_exit: how a clean stop ends, '0' or 'SIGKILL'.
    serves_at: its base URL as the other hosts and the router see it.
    """

    name: str
    role: str
    host: str
    address: str
    gpus: tuple[int, ...]
    ports: Mapping[str, int]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    build: str
    serves_at: str
    start_budget_s: int
    drain_s: int
    clean_exit: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class HostPlan:
    """What one host gets. paths: the folders of DESIGN's host layout, by name. wheels: what travels, by build."""

    name: str
    address: str
    paths: Mapping[str, str]
    manager: str
    user: str
    python: str
    builds: tuple[Build, ...]
    simulator: str | None
    checkpoint: CheckpointPlan | None
    system_libraries: Mapping[str, str]
    restart_delay_s: int
    wheels: Mapping[str, Files] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The whole deployment, resolved. instances are in the order in which they are started."""

    deployment: str
    hosts: tuple[HostPlan, ...]
    instances: tuple[Instance, ...]
    simulated: bool
    findings: tuple[Finding, ...]

    def host(self, name: str) -> HostPlan:
        """The part of host `name`; KeyError when the plan has none."""
        return {host.name: host for host in self.hosts}[name]

    def on(self, host: str) -> tuple[Instance, ...]:
        """Instances of one host, in start order."""
        return tuple(instance for instance in self.instances if instance.host == host)

    def of(self, *roles: str) -> tuple[Instance, ...]:
        """Instances with one of the roles, in start order."""
        return tuple(instance for instance in self.instances if instance.role in roles)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that stop a deploy."""
        return tuple(finding for finding in self.findings if finding.severity == "error")


def to_json(value: Any) -> Any:
    """A plan, or a part of one, as data that json.dumps takes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding as data."""
    return asdict(finding)
