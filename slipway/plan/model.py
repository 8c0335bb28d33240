"""The plan's shape. Plain frozen values that serialise to JSON, diff, and are what a release records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any

from slipway.builds.recipe import Build
from slipway.finding import Finding
from slipway.knowledge.backends import Choice
from slipway.memory import MemoryPlan
from slipway.memory.roofline import Roofline


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

    A worker over several hosts is one of these a host: rank 0 serves, under the worker's own name, which is the
    `leader` of all; the others have no `serves_at`, and what they answer to HTTP proves nothing.
    role: prefill, decode, unified or router. ports: what it accepts connections on, by use. reserved: ports that its
    ranks meet on, not open to others. argv: its command line. env: its environment, complete. clean_exit: how a
    clean stop ends, '0' or 'SIGKILL'. serves_at: its base URL as the other hosts and the router see it.
    placed: why those GPUs. secrets: variable -> where the controller finds it, {env: NAME} or {file: PATH}.
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
    rank: int
    leader: str
    reserved: Mapping[str, int]
    placed: str
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def serves(self) -> bool:
        """Whether it takes requests."""
        return self.rank == 0


@dataclass(frozen=True)
class Setting:
    """One engine setting that workers are given, and who says so.

    origin: 'configured', 'table' (slipway/knowledge), 'recipe' (what the build needs).
    """

    name: str
    value: Any
    origin: str


@dataclass(frozen=True)
class Decision:
    """What was decided for workers that are alike: same role, settings, release, checkpoint and GPUs.

    instances: their names. arch: 'sm_120', 'cpu', '' when unknown. model: the checkpoint in a few words.
    settings: all of them but the addresses, ports and paths, which differ. choices: every backend, passed or not, with
    reason and source. memory: of one GPU; None where it is not known.
    roofline: how fast decode can be at most; None for prefill, and where it is not known.
    """

    instances: tuple[str, ...]
    role: str
    release: str
    arch: str
    model: str
    settings: tuple[Setting, ...]
    choices: tuple[Choice, ...]
    memory: MemoryPlan | None
    roofline: Roofline | None = None


@dataclass(frozen=True)
class HostPlan:
    """What one host gets. paths: the folders of DESIGN's host layout, by name. hardware: in a few words.

    wheels: what travels from the controller, by build. verify_every_s: between two periodic verifications; 0: none.
    """

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
    hardware: str
    verify_every_s: int = 0
    wheels: Mapping[str, Files] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The whole deployment, resolved. instances are in the order in which they are started."""

    deployment: str
    hosts: tuple[HostPlan, ...]
    instances: tuple[Instance, ...]
    simulated: bool
    decisions: tuple[Decision, ...]
    findings: tuple[Finding, ...]

    @cached_property
    def _hosts(self) -> Mapping[str, HostPlan]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def _on(self) -> Mapping[str, tuple[Instance, ...]]:
        found: dict[str, list[Instance]] = {}
        for instance in self.instances:
            found.setdefault(instance.host, []).append(instance)
        return {host: tuple(instances) for host, instances in found.items()}

    def host(self, name: str) -> HostPlan:
        """The part of host `name`; KeyError when the plan has none."""
        return self._hosts[name]

    def on(self, host: str) -> tuple[Instance, ...]:
        """Instances of one host, in start order."""
        return self._on.get(host, ())

    def of(self, *roles: str) -> tuple[Instance, ...]:
        """Instances with one of the roles, in start order: every rank of them."""
        return tuple(instance for instance in self.instances if instance.role in roles)

    def serving(self, *roles: str) -> tuple[Instance, ...]:
        """Instances with one of the roles that take requests: rank 0 of each."""
        return tuple(instance for instance in self.of(*roles) if instance.serves)

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
