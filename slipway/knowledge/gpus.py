"""Catalogue of GPUs: from the name that nvidia-smi prints to architecture, memory, bandwidth and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal, cast

from slipway.knowledge import architectures, tables

NvlinkKind = Literal["none", "bridge", "switch", "rack"]
_FILE = "gpus.yml"
_NVLINK = ("none", "bridge", "switch", "rack")
_KEYS = frozenset(
    {"id", "name", "patterns", "arch", "memory_gib", "unified", "bandwidth_gb_s", "dense_tflops", "nvlink"}
) | {"confidence", "source"}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU. None is unknown; a data type that `dense_tflops` lacks was left out, not zero."""

    id: str
    name: str
    patterns: tuple[str, ...]
    arch: str
    capability: str
    memory_gib: float | None
    unified: bool
    bandwidth_gb_s: float | None
    dense_tflops: Mapping[str, float]
    nvlink: NvlinkKind
    nvlink_gb_s: float
    source: str
    confidence: str


def find(printed_name: str) -> Gpu | None:
    """Return the GPU of a name as nvidia-smi prints it; None for one that the catalogue lacks."""
    plain = printed_name.strip().lower()
    return next((gpu for gpu in known() if any(fnmatchcase(plain, item.lower()) for item in gpu.patterns)), None)


def get(identity: str) -> Gpu | None:
    """Return the first GPU of an id, such as 'h200'; None for an unknown one."""
    return next((gpu for gpu in known() if gpu.id == identity.strip().lower()), None)


@cache
def known() -> tuple[Gpu, ...]:
    """Read the catalogue."""
    return tuple(_read(row) for row in tables.rows(_FILE, "gpus"))


def _read(row: Mapping[str, Any]) -> Gpu:
    """Read one row."""
    where = str(row.get("name"))
    tables.check_keys(_FILE, where, row, _KEYS)
    arch = architectures.get(str(row["arch"]))
    if arch is None or row["nvlink"].get("kind") not in _NVLINK:
        raise tables.TableError(_FILE, where, "needs an arch of architectures.yml and an nvlink kind")
    return Gpu(
        id=str(row["id"]),
        name=where,
        patterns=tuple(str(item) for item in row["patterns"]),
        arch=arch.name,
        capability=arch.capabilities[0],
        memory_gib=_number(row["memory_gib"]),
        unified=bool(row.get("unified", False)),
        bandwidth_gb_s=_number(row["bandwidth_gb_s"]),
        dense_tflops={str(name): float(value) for name, value in row["dense_tflops"].items()},
        nvlink=cast(NvlinkKind, row["nvlink"]["kind"]),
        nvlink_gb_s=float(row["nvlink"]["gb_s"]),
        source=str(row["source"]),
        confidence=str(row["confidence"]),
    )


def _number(value: Any) -> float | None:
    """Read a number that may be unknown."""
    return None if value is None else float(value)
