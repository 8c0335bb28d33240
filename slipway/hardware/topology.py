"""How GPUs reach one another: the matrix of `nvidia-smi topo -m`, and the groups it implies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

Matrix = tuple[tuple[str, ...], ...]

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # nvidia-smi underlines the header even when it writes to a pipe
RELATION = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS")
DEVICE = re.compile(r"GPU\d+|NIC\d+|mlx\w+|[a-z]\w*_\d+")
DISTANCE = {"X": 0, "PIX": 2, "PXB": 3, "PHB": 4, "NODE": 5, "SYS": 6}
FARTHEST = 7


@dataclass(frozen=True)
class Topology:
    """The matrix over GPUs only, with each GPU's NUMA node and CPUs where the tool tells them."""

    indices: tuple[int, ...] = ()
    links: Matrix = ()
    numa: tuple[int | None, ...] = ()
    cpus: tuple[str, ...] = ()


def is_nvlink(relation: str) -> bool:
    """Whether a relation is NVLink."""
    return relation.startswith("NV") and relation[2:].isdecimal()


def distance(relation: str) -> int:
    """A relation as a distance, NVLink nearer than any PCIe path."""
    return 1 if is_nvlink(relation) else DISTANCE.get(relation, FARTHEST)


def cells(line: str) -> list[str]:
    """A line's columns; tabs are the tool's own, blanks what is left after a copy through a terminal."""
    parts = line.split("\t") if "\t" in line else line.split()
    return [part.strip() for part in parts]


def read_matrix(raw: str) -> Topology:
    """Read `nvidia-smi topo -m`; rows or columns that are not GPUs only serve to count columns."""
    lines = ESCAPES.sub("", raw).splitlines()
    header = next((line for line in lines if re.search(r"\bGPU0\b", line) and not line.startswith("GPU")), "")
    columns = [name for name in cells(header) if DEVICE.fullmatch(name)]
    rows = [cells(line) for line in lines if re.match(r"GPU\d+\s", line)]
    gpus = [at for at, name in enumerate(columns) if name.startswith("GPU")]
    rows = [row for row in rows if row[0] in columns]
    return Topology(
        indices=tuple(int(row[0][3:]) for row in rows),
        links=tuple(tuple(relation_at(row, 1 + at) for at in gpus) for row in rows),
        numa=tuple(affinity(row[1 + len(columns) :])[1] for row in rows),
        cpus=tuple(affinity(row[1 + len(columns) :])[0] for row in rows),
    )


def relation_at(row: list[str], at: int) -> str:
    """One cell, empty when it holds no relation."""
    cell = row[at] if at < len(row) else ""
    return cell if RELATION.fullmatch(cell) else ""


def affinity(rest: list[str]) -> tuple[str, int | None]:
    """The CPU list and NUMA node after the relations; either may be empty or N/A."""
    cpus = rest[0] if rest and re.fullmatch(r"[\d,-]+", rest[0]) else ""
    node = rest[1] if len(rest) > 1 else ""
    match = re.match(r"\d+", node)
    return cpus, int(match.group()) if match else None


def guess_matrix(numa: tuple[int | None, ...]) -> Matrix:
    """A matrix from NUMA nodes alone: NODE within one, SYS between two, unknown where unknown."""

    def between(one: int, other: int) -> str:
        if one == other:
            return "X"
        if numa[one] is None or numa[other] is None:
            return ""
        return "NODE" if numa[one] == numa[other] else "SYS"

    size = range(len(numa))
    return tuple(tuple(between(one, other) for other in size) for one in size)


@lru_cache(maxsize=1024)
def islands(indices: tuple[int, ...], links: Matrix, joined: Callable[[str], bool]) -> tuple[tuple[int, ...], ...]:
    """Groups of GPUs that `joined` relations connect, directly or through one another."""
    group = {index: {index} for index in indices}
    for row, one in enumerate(indices):
        for column, other in enumerate(indices):
            if group[one] is not group[other] and joined(link_at(links, row, column)):
                merged = group[one] | group[other]
                group.update(dict.fromkeys(merged, merged))
    return tuple(sorted({tuple(sorted(members)) for members in group.values()}))


def link_at(links: Matrix, row: int, column: int) -> str:
    """A relation, empty where a matrix is smaller than the GPU list."""
    return links[row][column] if row < len(links) and column < len(links[row]) else ""


def by_node(nodes: Iterable[tuple[int, int | None]]) -> tuple[tuple[int, ...], ...]:
    """GPU indices grouped by NUMA node."""
    groups: dict[int | None, list[int]] = {}
    for index, node in nodes:
        groups.setdefault(node, []).append(index)
    return tuple(sorted(tuple(sorted(members)) for members in groups.values()))
