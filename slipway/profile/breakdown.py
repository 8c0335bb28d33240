"""Adds a trace's events up: time, share and calls of each kernel and group, and how long the GPU did nothing."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.knowledge.kernel_groups import GROUPS, group_of

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
STEP = re.compile(r"step\[(.+)\]")  # how the engine marks a forward pass, such as step[DECODE bs=1]
MOST_EVENTS = 20_000_000  # kept as numbers, 24 bytes each; later ones are counted and left out


@dataclass(frozen=True)
class Share:
    """One kernel, or one group. us: microseconds in all. part: of the time of all of them, 0 to 1."""

    name: str
    group: str
    us: float
    calls: int
    part: float


@dataclass(frozen=True)
class Breakdown:
    """One trace added up.

    device: 'gpu', or 'cpu' for a trace without kernels, whose operators are counted without what they call.
    busy_us, span_us: how long at least one kernel (or operator) ran, from the first to the last. left_out: events
    beyond what is kept. steps: the forward passes by kind, as the engine names them, the most frequent first.
    """

    device: str
    kernels: tuple[Share, ...]
    groups: tuple[Share, ...]
    busy_us: float
    span_us: float
    left_out: int
    steps: tuple[tuple[str, int], ...] = ()

    @property
    def total_us(self) -> float:
        """Time of all kernels; more than busy_us where some ran side by side."""
        return sum(share.us for share in self.groups)

    @property
    def idle(self) -> float:
        """Part of the span in which none ran, 0 to 1."""
        return max(0.0, 1 - self.busy_us / self.span_us) if self.span_us else 0.0


class _Lane:
    """Events of one kind in one row of the trace: parallel numbers, as objects would take twenty times the memory."""

    def __init__(self) -> None:
        self.starts, self.lengths, self.names = array("d"), array("d"), array("l")

    def add(self, start: float, length: float, name: int) -> None:
        self.starts.append(start)
        self.lengths.append(length)
        self.names.append(name)

    def in_order(self) -> Iterator[tuple[float, float, int]]:
        """By start; what contains another comes before it."""
        order = sorted(range(len(self.starts)), key=lambda at: (self.starts[at], -self.lengths[at]))
        return ((self.starts[at], self.lengths[at], self.names[at]) for at in order)


@dataclass
class _Kept:
    gpu: dict[Any, _Lane]
    cpu: dict[Any, _Lane]
    names: dict[str, int]
    count: int = 0
    left_out: int = 0
    steps: dict[str, int] = field(default_factory=dict)


def breakdown(found: Iterable[Mapping[str, Any]]) -> Breakdown:
    """Add up the events of one trace (slipway.profile.events). Raises TraceError as they do."""
    kept = _keep(found)
    device = "gpu" if kept.gpu else "cpu"
    lanes = kept.gpu or kept.cpu
    own = _times(lanes) if kept.gpu else _own_times(lanes)
    names = list(kept.names)
    named = {names[key]: value for key, value in own.items()}
    busy, span = _busy(lanes)
    steps = sorted(kept.steps.items(), key=lambda row: (-row[1], row[0]))
    return Breakdown(device, _shares(named), _grouped(named), busy, span, kept.left_out, tuple(steps))


def _keep(found: Iterable[Mapping[str, Any]]) -> _Kept:
    kept = _Kept({}, {}, {})
    for event in found:
        category, step = event.get("cat"), STEP.fullmatch(str(event.get("name", "")))
        if category == "user_annotation" and step:
            kept.steps[step[1]] = kept.steps.get(step[1], 0) + 1
        if event.get("ph") != "X" or not (category in ON_GPU or category == "cpu_op"):
            continue
        if kept.count >= MOST_EVENTS:
            kept.left_out += 1
            continue
        lanes = kept.cpu if category == "cpu_op" else kept.gpu
        lane = lanes.setdefault((event.get("pid"), event.get("tid")), _Lane())
        name = kept.names.setdefault(str(event.get("name", "")), len(kept.names))
        lane.add(float(event.get("ts", 0)), float(event.get("dur", 0)), name)
        kept.count += 1
    return kept


def _times(lanes: Mapping[Any, _Lane]) -> dict[int, tuple[float, int]]:
    """Time and calls by name."""
    found: dict[int, tuple[float, int]] = {}
    for lane in lanes.values():
        for length, name in zip(lane.lengths, lane.names, strict=True):
            before = found.get(name, (0.0, 0))
            found[name] = (before[0] + length, before[1] + 1)
    return found


def _own_times(lanes: Mapping[Any, _Lane]) -> dict[int, tuple[float, int]]:
    """As _times, but without the time of what an operator calls: aten::linear calls aten::matmul calls aten::mm."""
    found = _times(lanes)
    for lane in lanes.values():
        open_: list[tuple[float, int]] = []
        for start, length, name in lane.in_order():
            while open_ and open_[-1][0] <= start:
                open_.pop()
            if open_:
                outer = open_[-1][1]
                found[outer] = (found[outer][0] - length, found[outer][1])
            open_.append((start + length, name))
    return {name: (max(0.0, time), calls) for name, (time, calls) in found.items()}


def _busy(lanes: Mapping[Any, _Lane]) -> tuple[float, float]:
    """How long at least one ran, and from when to when, in microseconds."""
    starts, lengths = array("d"), array("d")
    for lane in lanes.values():
        starts.extend(lane.starts)
        lengths.extend(lane.lengths)
    busy, first, end = 0.0, min(starts, default=0.0), 0.0
    for at in sorted(range(len(starts)), key=starts.__getitem__):
        finish = starts[at] + lengths[at]
        busy += max(0.0, finish - max(end, starts[at]))
        end = max(end, finish)
    return busy, max(0.0, end - first)


def _shares(named: Mapping[str, tuple[float, int]]) -> tuple[Share, ...]:
    """Kernels, the longest first."""
    total = sum(time for time, _ in named.values()) or 1.0
    rows = [Share(name, group_of(name), time, calls, time / total) for name, (time, calls) in named.items()]
    return tuple(sorted(rows, key=lambda row: (-row.us, row.name)))


def _grouped(named: Mapping[str, tuple[float, int]]) -> tuple[Share, ...]:
    """Every group, in the order of GROUPS."""
    rows = _shares(named)
    return tuple(
        Share(
            group,
            group,
            sum(row.us for row in rows if row.group == group),
            sum(row.calls for row in rows if row.group == group),
            sum(row.part for row in rows if row.group == group),
        )
        for group in GROUPS
    )
