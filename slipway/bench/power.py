"""Power and utilisation of the GPUs over a cell, from the samples that were taken on their hosts.

Samples carry the wall clock of their host; the cell's place on that clock is its first request and its duration. So
hosts whose clocks differ by seconds blur the edges of a cell, and one of a few seconds has no figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LEAST_SAMPLES = 3


@dataclass(frozen=True)
class Sample:
    """One GPU at a time. watts, busy (0 to 1), memory_mib and clock_mhz are None where the GPU does not report them."""

    host: str
    time: float
    index: int
    watts: float | None
    busy: float | None
    memory_mib: float | None
    clock_mhz: float | None


def read_samples(host: str, text: str) -> list[Sample]:
    """The samples of one host; a line of another shape, such as one that was cut, is left out."""
    return [sample for line in text.splitlines() for sample in _sample(host, line.split(","))]


def _sample(host: str, fields: list[str]) -> Iterator[Sample]:
    values = [_number(field) for field in fields]
    if len(values) == 7 and values[0] is not None and values[1] is not None:
        busy = None if values[3] is None else values[3] / 100
        yield Sample(host, values[0], int(values[1]), values[2], busy, values[4], values[5])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def gpu_figures(samples: Iterable[Sample], gpus: Mapping[str, Iterable[int]], cell: Mapping[str, Any]) -> Any:
    """The figures of a cell; None when its GPUs were sampled too seldom.

    gpus: host -> the indices that the deployment uses. cell: a line of results with wall_start and duration.
    """
    if not cell.get("wall_start") or not cell.get("duration"):
        return None
    wanted = {(host, index) for host, indices in gpus.items() for index in indices}
    first, last = cell["wall_start"], cell["wall_start"] + cell["duration"]
    within = [one for one in samples if (one.host, one.index) in wanted and first <= one.time <= last]
    by_gpu = {key: [one for one in within if (one.host, one.index) == key] for key in wanted}
    if not wanted or min(len(rows) for rows in by_gpu.values()) < LEAST_SAMPLES:
        return None
    return {**_power(by_gpu, cell), "utilisation_mean": _mean(one.busy for one in within),
            "clock_mhz_mean": _mean(one.clock_mhz for one in within),
            "memory_mib_max": max((one.memory_mib for one in within if one.memory_mib is not None), default=None),
            "samples": len(within), "hosts": sorted({one.host for one in within})}  # fmt: skip


def _power(by_gpu: Mapping[Any, list[Sample]], cell: Mapping[str, Any]) -> dict[str, float | None]:
    """Mean of a GPU, and the energy of all of them."""
    means = [_mean(one.watts for one in rows) for rows in by_gpu.values()]
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means):
        return {"power_w_mean": None, "energy_j": None, "energy_j_per_output_token": None}
    energy, tokens = sum(known) * cell["duration"], cell.get("total_output_tokens")
    return {
        "power_w_mean": sum(known) / len(known),
        "energy_j": energy,
        "energy_j_per_output_token": energy / tokens if tokens else None,
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
