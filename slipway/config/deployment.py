"""The typed, frozen values that everything after configuration works with.

Defaults stand in schema.json alone: these classes have none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

WORKER_ROLES = ("prefill", "decode", "unified")
ROLES = (*WORKER_ROLES, "router")

T = TypeVar("T")


@dataclass(frozen=True)
class ServiceSettings:
    """How processes are kept running on a host."""

    manager: str
    user: str | None
    restart_delay_s: int


@dataclass(frozen=True)
class EngineSettings:
    """What the workers run, and where its packages come from."""

    kind: str
    version: str
    device: str
    python: str | None
    extra_packages: tuple[str, ...]
    patches: tuple[str, ...]
    git: str | None
    commit: str | None
    depth: int
    index_url: str | None
    extra_index_url: str | None
    find_links: str | None
    wheelhouse: str | None
    download: str
    lock: str | None
    constraints: tuple[str, ...]
    base_python: str | None
    pip_check_known: Mapping[str, str]


@dataclass(frozen=True)
class ModelSettings:
    """Which checkpoint is served, and under which name. facts: folder with its small files, to plan by.

    repo, revision, endpoint, include, exclude, token and fetch_*: of a checkpoint that comes from the Hub.
    share, share_port and share_from_mb: of one that several hosts take from one another.
    """

    path: str | None
    host_path: str | None
    facts: str | None
    name: str | None
    repo: str | None
    revision: str
    endpoint: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    token: Mapping[str, str] | None
    fetch_workers: int
    fetch_mb_per_s: float
    fetch_timeout_s: int
    fetch_patience_s: int
    fetch_deadline_s: int
    share: bool
    share_port: int
    share_from_mb: float


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of the workers of one role on one host. Sizes are counts of GPUs; times are seconds.

    instances: a number, or 'auto'.
    """

    instances: int | str
    port: int
    bootstrap_port: int
    gpus: tuple[int, ...] | None
    share_gpus: bool
    tp: int
    pp: int
    dp: int
    dp_attention: bool
    ep: int
    nnodes: int
    attention_backend: str | None
    moe_runner_backend: str | None
    kv_cache_dtype: str | None
    quantization: str | None
    transfer_backend: str | None
    page_size: int | None
    context_length: int | None
    mem_fraction_static: float | None
    max_running_requests: int | None
    max_total_tokens: int | None
    cuda_graph_max_bs: int | None
    server_args: Mapping[str, Any]
    env: Mapping[str, str]
    api_key: Mapping[str, str] | None
    secret_env: Mapping[str, Mapping[str, str]]
    start_budget_s: int
    drain_s: int


@dataclass(frozen=True)
class RouterSettings:
    """Settings of the router on one host."""

    version: str
    host: str
    port: int
    metrics_port: int
    policy: str
    health_check_interval_s: int
    health_failure_threshold: int
    circuit_breaker: bool | None
    circuit_open_s: int
    request_timeout_s: int
    server_args: Mapping[str, Any]
    env: Mapping[str, str]
    api_key: Mapping[str, str] | None
    secret_env: Mapping[str, Mapping[str, str]]
    start_budget_s: int
    drain_s: int


@dataclass(frozen=True)
class VerifySettings:
    """What proves that the deployment serves. rungs: name -> fail, warn or skip. Sizes are counts, times seconds."""

    known_answers: str | tuple[str, ...] | None
    known_share: float
    max_tokens: int
    request_timeout_s: int
    log_window_s: int
    rungs: Mapping[str, str]
    limits_s: Mapping[str, int]
    burst: int
    mixed: int
    repeats: int
    long_tokens: int
    context_tokens: int
    pairs: int
    first_token_s: float | None
    token_ms: float | None
    request_fields: Mapping[str, Any]
    api_key: Mapping[str, str] | None
    ca_file: str | None
    reference: str | None
    save_reference: str | None
    reference_tolerance: float
    accuracy: Mapping[str, Any]
    json: str | None
    every_s: int


@dataclass(frozen=True)
class RolloutSettings:
    """How a deployment that serves is changed. skew: workers of a role that may be out at once. Times are seconds."""

    strategy: str
    green_port: int
    skew: int
    drain_s: int
    lock_wait_s: int
    lock_expires_s: int
    confirm_s: int
    hook_timeout_s: int


@dataclass(frozen=True)
class BenchSettings:
    """How throughput and latency are measured. sweeps: by name; times are seconds, limits of slo milliseconds."""

    sweep: str
    sweeps: Mapping[str, Mapping[str, Any]]
    client: str
    host: str | None
    api: str
    processes: int | None
    slo: Mapping[str, float | None]
    ignore_eos: bool
    flush: bool
    details: bool
    seed: str | None
    extra: Mapping[str, Any]
    timeout_s: int
    silence_s: int
    deadline_s: int


@dataclass(frozen=True)
class HostSettings:
    """Everything that was said about one host. roles: the groups of it that name roles, in house order."""

    name: str
    roles: tuple[str, ...]
    deployment: str
    root: str | None
    address: str | None
    hardware: Any
    packages: str
    builds_kept: int | None
    service: ServiceSettings
    engine: EngineSettings
    model: ModelSettings
    workers: Mapping[str, WorkerSettings]
    router: RouterSettings
    verify: VerifySettings
    rollout: RolloutSettings
    bench: BenchSettings
    waive: Mapping[str, str]


@dataclass(frozen=True)
class Deployment:
    """All hosts of an inventory with their settings. project: folder that relative paths start from."""

    project: str
    hosts: tuple[HostSettings, ...]

    def host(self, name: str) -> HostSettings:
        """The settings of host `name`; KeyError when there is none."""
        return next(host for host in self.hosts if host.name == name)


def freeze(value: Any) -> Any:
    """Lists become tuples and mappings read-only, so that a plan cannot be changed by who reads it."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    return tuple(freeze(item) for item in value) if isinstance(value, list) else value


def thawed(value: Any) -> Any:
    """Frozen configuration as plain JSON data."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, (list, tuple)) else value


def typed(cls: type[T], data: Mapping[str, Any]) -> T:
    """Build dataclass `cls` from validated `data`, which must hold every field."""
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return cls(**{name: freeze(data[name]) for name in names})
