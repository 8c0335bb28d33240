"""What is asked of placement and what it answers, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slipway.finding import Finding
from slipway.hardware.model import HostHardware

ROLES = ("prefill", "decode", "unified", "router")  # the order in which roles take GPUs and ports
WORKERS = ("prefill", "decode", "unified")


@dataclass(frozen=True)
class Request:
    """What one role wants on its hosts.

    instances: on each host, or on each group of `nnodes` hosts; None is as many as fit.
    gpus: the indices that the role takes on a host, cut into instances in the order given; None: by topology.
    share_gpus: the listed GPUs may be held by others that share as well.
    replicas: instances over the whole deployment; None is whatever the hosts hold.
    cpu: no GPUs. first_ports: where a purpose starts counting.
    listens: optional listeners that are switched on (engine_info, encoder).
    """

    role: str
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_attention: bool = False
    ep: int = 1
    nnodes: int = 1
    instances: int | None = 1
    gpus: tuple[int, ...] | None = None
    share_gpus: bool = False
    cpu: bool = False
    replicas: int | None = None
    first_ports: tuple[tuple[str, int], ...] = ()
    listens: tuple[str, ...] = ()

    @property
    def world(self) -> int:
        """Ranks of one instance; attention DP shares the ranks of TP, plain DP multiplies them."""
        return self.tp * self.pp * (1 if self.dp_attention else self.dp)

    @property
    def gpus_per_node(self) -> int:
        """GPUs that one instance takes on each of its hosts."""
        return 0 if self.cpu or self.role == "router" else self.world // max(self.nnodes, 1)


@dataclass(frozen=True)
class Host:
    """A host as placement sees it. `requests` replace the deployment's request of the same role."""

    name: str
    hardware: HostHardware | None = None
    roles: tuple[str, ...] = ()
    address: str = ""
    requests: tuple[Request, ...] = ()


@dataclass(frozen=True)
class Node:
    """One host's share of an instance: its rank, the GPUs it takes there, and why those."""

    rank: int
    host: str
    gpus: tuple[int, ...] = ()
    numa: tuple[int, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Instance:
    """One worker (or router): its name, and its share on each host, rank 0 first."""

    name: str
    role: str
    index: int
    nodes: tuple[Node, ...]
    request: Request

    @property
    def host(self) -> str:
        """The host of rank 0: where it is asked, and where ranks meet."""
        return self.nodes[0].host

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host, in rank order."""
        return tuple(node.host for node in self.nodes)

    @property
    def nnodes(self) -> int:
        """How many hosts it spans."""
        return len(self.nodes)

    @property
    def gpu_count(self) -> int:
        """GPUs over all hosts."""
        return sum(len(node.gpus) for node in self.nodes)

    def on(self, host: str) -> Node | None:
        """Its share on a host."""
        return next((node for node in self.nodes if node.host == host), None)


@dataclass(frozen=True)
class Placement:
    """Every instance, what is left free, and what did not work out."""

    instances: tuple[Instance, ...] = ()
    free: tuple[tuple[str, tuple[int, ...]], ...] = ()
    findings: tuple[Finding, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Instance]:
        """Instances by name."""
        return {instance.name: instance for instance in self.instances}

    def of_role(self, role: str) -> tuple[Instance, ...]:
        """The instances of a role, in order."""
        return tuple(instance for instance in self.instances if instance.role == role)

    def on_host(self, host: str) -> tuple[Instance, ...]:
        """The instances that have a share on a host."""
        return tuple(instance for instance in self.instances if instance.on(host) is not None)
