"""Machines by name or by a short mapping, for planning before a host can be asked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any, cast

import yaml

from slipway.finding import Finding
from slipway.hardware import topology
from slipway.hardware.model import Gpu, HostHardware, NumaNode, RdmaDevice

MIB_PER_GIB = 1024
MOST_GPUS = 64
KEYS = {
    "gpu": "a card of the catalogue",
    "count": "GPUs of the host",
    "memory_gib": "memory of one GPU",
    "compute_capability": "such as '12.0', for a card that the catalogue lacks",
    "nvlink": "true, false, or links per GPU",
    "nvlink_group": "GPUs that one NVLink bridge joins",
    "numa_nodes": "NUMA nodes that the GPUs are spread over, in order",
    "host_memory_gib": "memory of the host",
    "cpus": "CPUs of the host",
    "driver": "driver version",
    "rdma": "names of RDMA devices",
    "machine": "x86_64 or aarch64",
}


@dataclass(frozen=True)
class Card:
    """A GPU model of the catalogue."""

    key: str
    name: str
    memory_mib: int
    compute_capability: str
    nvlink: int = 0
    nvlink_group: int = 0
    unified_memory: bool = False
    machine: str = "x86_64"
    power_w: float | None = None
    ecc: bool = True  # whether it is on unless someone turned it off


@lru_cache(maxsize=1)
def tables() -> dict[str, Any]:
    """The catalogue's file."""
    raw = resources.files("slipway.hardware").joinpath("catalogue.yml").read_text(encoding="utf-8")
    return cast("dict[str, Any]", yaml.safe_load(raw))


def plain(name: str) -> str:
    """A name without what people spell differently: case, blanks, dashes, the vendor."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"nvidia|geforce", "", name.lower()))


@lru_cache(maxsize=1)
def cards() -> dict[str, Card]:
    """Every card under each of its spellings; the driver's own names come first."""
    found: dict[str, Card] = {}
    for key, row in tables()["cards"].items():
        card = Card(
            key=key,
            name=row["names"][0],
            memory_mib=row["memory_mib"],
            compute_capability=row["compute_capability"],
            nvlink=row.get("nvlink", 0),
            nvlink_group=row.get("nvlink_group", 0),
            unified_memory=row.get("unified_memory", False),
            machine=row.get("machine", "x86_64"),
            power_w=row.get("power_w"),
            ecc=row.get("ecc", True),
        )
        found.update((plain(name), card) for name in (*row["names"], key, *row.get("also", ())))
    return found


def card(name: str) -> Card | None:
    """The card of that name, in any spelling."""
    return cards().get(plain(name))


@lru_cache(maxsize=1)
def machines() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Every named machine under each of its spellings, with its proper name."""
    return {
        plain(spelling): (name, row)
        for name, row in tables()["machines"].items()
        for spelling in (name, *row.get("also", ()))
    }


def names() -> tuple[str, ...]:
    """What `hardware:` may say, for help and for the nearest match."""
    sizes = [f"{count}x{key}" for key in tables()["cards"] for count in (1, 2, 4, 8)]
    return (*tables()["machines"], *sizes)


def least_driver(cuda: str) -> str:
    """The oldest driver that serves a CUDA version; empty where unknown."""
    return str(tables()["least_driver"].get(str(cuda).split(".", 1)[0], ""))


# --- building -----------------------------------------------------------------------------------------------


def spread(count: int, nodes: int) -> tuple[int, ...]:
    """The NUMA node of each GPU, when GPUs are spread over nodes in order."""
    nodes = max(1, min(nodes, max(count, 1)))
    return tuple(index * nodes // max(count, 1) for index in range(count))


def matrix(nodes: tuple[int, ...], links: int, group: int) -> topology.Matrix:
    """Relations: NVLink within a group (all of them without one), else NODE within a NUMA node, else SYS."""

    def between(one: int, other: int) -> str:
        if one == other:
            return "X"
        joined = links > 0 and (group <= 0 or one // group == other // group)
        return f"NV{links}" if joined else ("NODE" if nodes[one] == nodes[other] else "SYS")

    size = range(len(nodes))
    return tuple(tuple(between(one, other) for other in size) for one in size)


def build(model: str, card: Card | None, nodes: tuple[int, ...], row: Mapping[str, Any]) -> HostHardware:
    """A host of one kind of card; `row` holds what a machine or a mapping says beyond that."""
    gpus = tuple(
        Gpu(
            index=index,
            name=card.name,
            memory_mib=card.memory_mib,
            compute_capability=card.compute_capability,
            unified_memory=card.unified_memory,
            numa_node=node,
            power_limit_w=card.power_w,
        )
        for index, node in enumerate(nodes)
        if card is not None
    )
    links = matrix(nodes, card.nvlink, card.nvlink_group) if card is not None else ()
    memory = int(float(row.get("memory_gib", 0)) * MIB_PER_GIB)
    return HostHardware(
        gpus=gpus,
        origin="catalogue",
        model=model,
        links=links,
        numa=tuple(NumaNode(node) for node in range(max(nodes, default=0) + 1)),
        cpus=int(row.get("cpus", 0)),
        memory_mib=memory or (card.memory_mib if card is not None and card.unified_memory else 0),
        machine=card.machine if card is not None else "",
        driver=str(row.get("driver", "")),
        rdma=tuple(RdmaDevice(name) for name in row.get("rdma", ())),
    )


def named(name: str) -> HostHardware | None:
    """A machine by its name, or by a count and a card; None for neither."""
    known = machines().get(plain(name))
    if known is not None:
        proper, row = known
        nodes = tuple(row.get("gpus_of_node", ())) or spread(row["count"], row["numa_nodes"])
        return build(proper, cards().get(plain(row.get("card", ""))), nodes, row)
    match = re.fullmatch(r"\s*(\d{1,3})(?:\s*[x×*]\s*|\s+)(\S.*)", name, re.IGNORECASE)
    kind = card(match.group(2)) if match else card(name)
    count = int(match.group(1)) if match else 1
    if kind is None or not 0 < count <= MOST_GPUS:
        return None
    return build(f"{count}x{kind.key}", kind, spread(count, 2 if count >= 8 else 1), {})


# --- declarations -------------------------------------------------------------------------------------------


def wrong(host: str, key: str, message: str, fix: str = "") -> Finding:
    """A fault of the declaration."""
    return Finding("hardware.declaration", "error", host, f"hardware{key}: {message}", fix)


def declare(value: Any, host: str = "") -> tuple[HostHardware | None, list[Finding]]:
    """`hardware:` of a host: a name, a mapping, or nothing; None where there is nothing to plan by."""
    if value is None:
        return None, []
    if isinstance(value, bool | int | float):
        value = str(value)
    if isinstance(value, str):
        found = named(value)
        return (found, []) if found is not None else (None, [unknown_name(value, host)])
    if isinstance(value, Mapping):
        return declare_mapping(value, host)
    return None, [wrong(host, "", f"got a {type(value).__name__}; must be a name or a mapping")]


def nearest(value: str, names: Iterable[str], instead: str) -> str:
    """What to write in place of an unknown name."""
    spelt = {plain(name): name for name in names}
    near = difflib.get_close_matches(plain(value[:200]), spelt, n=1, cutoff=0.4)
    return f"nearest: {spelt[near[0]]}; or {instead}" if near else instead


def unknown_name(value: str, host: str) -> Finding:
    """A name that is neither machine nor card, with the nearest that is."""
    known = ", ".join(tables()["machines"])
    fix = nearest(value, names(), "a mapping with gpu, count, memory_gib and compute_capability")
    return wrong(host, "", f"got {value[:200]!r}; must be NxCARD (8xH100) or one of {known}", fix)


def unknown_card(value: str, host: str) -> Finding:
    """A card that the catalogue lacks and the mapping does not describe, with the nearest known."""
    known = tables()["cards"]
    fix = nearest(value, known, "add memory_gib and compute_capability")
    return wrong(host, ".gpu", f"got {value[:200]!r}; must be one of {', '.join(known)}", fix)


@dataclass(frozen=True)
class Declaration:
    """A mapping being read, and what is wrong with it so far."""

    value: Mapping[Any, Any]
    host: str
    findings: list[Finding]

    def fault(self, key: str, message: str, fix: str = "") -> None:
        """Record what is wrong with a key."""
        self.findings.append(wrong(self.host, f".{key}", message, fix))

    def number(self, key: str, default: int, most: int = MOST_GPUS) -> int:
        """A whole number within bounds; the default where it is absent or wrong."""
        got = self.value.get(key)
        if got is None:
            return default
        if isinstance(got, bool) or not isinstance(got, int) or not 0 <= got <= most:
            self.fault(key, f"got {brief(got)}; must be a whole number from 0 to {most} ({KEYS[key]})")
            return default
        return got

    def card(self) -> Card | None:
        """The card: from the catalogue, or described in full."""
        name = str(self.value.get("gpu") or "")
        known = card(name)
        memory = self.number("memory_gib", 0, 100_000) * MIB_PER_GIB
        capability = str(self.value.get("compute_capability") or (known.compute_capability if known else ""))
        if known is None and (not name or not memory or not capability):
            self.findings.append(unknown_card(name, self.host))
            return None
        if not re.fullmatch(r"\d{1,2}\.\d", capability):
            self.fault("compute_capability", f"got {brief(capability)}; must be like '9.0' (quoted)")
        base = known or Card(plain(name) or "gpu", name[:200], memory, capability)
        return replace(
            base,
            memory_mib=memory or base.memory_mib,
            compute_capability=capability,
            nvlink=self.links(base),
            nvlink_group=self.number("nvlink_group", base.nvlink_group),
            machine=str(self.value.get("machine") or base.machine),
        )

    def links(self, base: Card) -> int:
        """NVLink: yes, no, or a number of links."""
        got = self.value.get("nvlink")
        if isinstance(got, bool):
            return (base.nvlink or 1) if got else 0
        return self.number("nvlink", base.nvlink, 100)

    def rdma(self) -> list[str]:
        """Names of RDMA devices."""
        got = self.value.get("rdma") or []
        if not isinstance(got, list) or not all(isinstance(name, str) for name in got):
            self.fault("rdma", f"got {brief(got)}; must be a list of device names such as [mlx5_0]")
            return []
        return got


def brief(value: Any) -> str:
    """A value as a message shows it."""
    return repr(value)[:100]


def declare_mapping(value: Mapping[Any, Any], host: str) -> tuple[HostHardware | None, list[Finding]]:
    """A host put together from its parts."""
    asked = Declaration(value, host, [unknown_key(key, host) for key in value if key not in KEYS])
    count = asked.number("count", 1 if value.get("gpu") else 0)
    kind = asked.card() if count > 0 else None
    nodes = spread(count, asked.number("numa_nodes", 2 if count >= 8 else 1))
    row = {
        "memory_gib": asked.number("host_memory_gib", 0, 1_000_000),
        "cpus": asked.number("cpus", 0, 100_000),
        "driver": value.get("driver") or "",
        "rdma": asked.rdma(),
    }
    if asked.findings:
        return None, asked.findings
    return build(f"{count}x{kind.key}" if kind else "cpu", kind, nodes, row), []


def unknown_key(key: Any, host: str) -> Finding:
    """A key that means nothing, with the nearest that does."""
    spelt = str(key)[:100]
    near = difflib.get_close_matches(spelt, KEYS, n=1, cutoff=0.5)
    fix = f"did you mean {near[0]}?" if near else ""
    return wrong(host, f".{spelt}", f"unknown key; must be one of {', '.join(KEYS)}", fix)
