"""Which GPUs of a host an instance takes: those that reach one another best, always the same ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from slipway.hardware import topology
from slipway.hardware.model import HostHardware

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Choice:
    """GPUs, and why those."""

    gpus: tuple[int, ...]
    why: str


def same_switch(relation: str) -> bool:
    """At most one PCIe bridge between, or NVLink."""
    return topology.distance(relation) <= topology.DISTANCE["PIX"]


def same_tree(relation: str) -> bool:
    """No host bridge between."""
    return topology.distance(relation) <= topology.DISTANCE["PXB"]


@lru_cache(maxsize=1024)
def levels(
    indices: tuple[int, ...], links: topology.Matrix, numa: tuple[int | None, ...]
) -> tuple[tuple[str, Groups], ...]:
    """Groups of GPUs from the nearest kind to the whole host; each level covers what it can."""
    nodes = topology.by_node((index, numa[at]) for at, index in enumerate(indices))
    linked = tuple(group for group in topology.islands(indices, links, topology.is_nvlink) if len(group) > 1)
    both = tuple(
        tuple(sorted(set(island) & set(node))) for island in linked for node in nodes if set(island) & set(node)
    )
    near = tuple(group for group in topology.islands(indices, links, same_switch) if len(group) > 1)
    tree = tuple(group for group in topology.islands(indices, links, same_tree) if len(group) > 1)
    return (
        ("one NVLink island, one NUMA node", both),
        ("one NVLink island", linked),
        ("one PCIe switch", near),
        ("one PCIe tree", tree),
        ("one NUMA node", nodes),
        ("the whole host", (indices,)),
    )


def host_levels(hardware: HostHardware) -> tuple[tuple[str, Groups], ...]:
    """The levels of one host; equal hosts share one computation."""
    return levels(hardware.indices, hardware.links, tuple(gpu.numa_node for gpu in hardware.gpus))


def choose(hardware: HostHardware, free: Collection[int], count: int) -> Choice | None:
    """The nearest `count` free GPUs: the tightest level that has them, its fullest group."""
    if count <= 0:
        return Choice((), "no GPUs")
    for why, groups in host_levels(hardware):
        fitting = [left for group in groups if len(left := [gpu for gpu in group if gpu in free]) >= count]
        if fitting:
            best = min(fitting, key=lambda left: (len(left), left))
            return Choice(tuple(best[:count]), why)
    return None


def describe(hardware: HostHardware, gpus: tuple[int, ...]) -> str:
    """The tightest level that holds all of some GPUs."""
    for why, groups in host_levels(hardware):
        if any(set(gpus) <= set(group) for group in groups):
            return why
    return "the whole host"


def numa_nodes(hardware: HostHardware, gpus: tuple[int, ...]) -> tuple[int, ...]:
    """The NUMA nodes that some GPUs hang on."""
    nodes = {gpu.numa_node for gpu in hardware.gpus if gpu.index in gpus}
    return tuple(sorted(node for node in nodes if node is not None))
