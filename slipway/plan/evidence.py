"""What rules judge: the plan with all that was known when it was made. Frozen values, no logic beyond lookups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from slipway.checkpoint import AsRead, Checkpoint
from slipway.config.deployment import Deployment, WorkerSettings
from slipway.hardware import HostHardware
from slipway.knowledge.backends import Choice
from slipway.memory import MemoryPlan
from slipway.placement import PortPlan

from .facts import HostFacts
from .model import Instance, Plan


@dataclass(frozen=True)
class InstanceEvidence:
    """One worker, with everything known about it; an instance over several hosts is one of these.

    instance: rank 0 as planned. settings: what the user configured for its role on its host.
    release: SGLang release. arch: of its GPUs, such as 'sm_120'; 'cpu'; '' when unknown.
    hardware: of its hosts, in rank order; empty when no host's is known. choices: by setting, such as
    'moe_runner_backend'; empty when the checkpoint or the architecture is unknown. memory: of one GPU;
    None on the CPU or when not known. read: the checkpoint as the release with the deployment's patches reads it.
    """

    instance: Instance
    settings: WorkerSettings
    release: str
    arch: str
    hardware: tuple[HostHardware, ...]
    choices: Mapping[str, Choice]
    memory: MemoryPlan | None
    read: AsRead | None
    checkpoint: Checkpoint | None


@dataclass(frozen=True)
class Evidence:
    """The whole deployment. plan: without the findings of rules.

    addresses: host -> address under which the others reach it. hardware: host -> what it is made of, declared or
    probed; hosts of which nothing is known are absent. facts: host -> what the probe said; hosts that were not
    asked are absent. patches: ids, as configured in `engine.patches`. checkpoint: of the first worker that has one.
    """

    deployment: Deployment
    plan: Plan
    instances: tuple[InstanceEvidence, ...]
    ports: PortPlan
    addresses: Mapping[str, str]
    hardware: Mapping[str, HostHardware]
    facts: Mapping[str, HostFacts]
    patches: tuple[str, ...]
    checkpoint: Checkpoint | None

    @cached_property
    def by_name(self) -> Mapping[str, InstanceEvidence]:
        """Workers by instance name."""
        return {entry.instance.name: entry for entry in self.instances}

    def of(self, *roles: str) -> tuple[InstanceEvidence, ...]:
        """Workers with one of the roles, in start order."""
        return tuple(entry for entry in self.instances if entry.instance.role in roles)

    def pairs(self) -> Iterator[tuple[InstanceEvidence, InstanceEvidence]]:
        """Every prefill with every decode: any of them may be given one request together."""
        decodes = self.of("decode")
        return ((prefill, decode) for prefill in self.of("prefill") for decode in decodes)
