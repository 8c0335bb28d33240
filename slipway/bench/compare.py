"""Two results side by side: the same loads, figure by figure, with void and missing cells in sight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from slipway.bench.errors import BenchError
from slipway.bench.folder import Result
from slipway.bench.metrics import METRICS, Metric
from slipway.bench.noise import Difference, compare
from slipway.bench.provenance import unlike
from slipway.bench.record import Cell, Shape


@dataclass(frozen=True)
class Runs:
    """The runs of one load. void: the reasons of those that do not count, each with its repeat."""

    shape: Shape
    valid: tuple[Cell, ...]
    void: tuple[str, ...]
    notes: tuple[str, ...]

    def of(self, key: str) -> list[float]:
        """A figure, of each run that counts and has it."""
        return [cell.values[key] for cell in self.valid if key in cell.values]


@dataclass(frozen=True)
class Row:
    """One figure of one load. values, baseline: of each run. difference: None where a side has none."""

    shape: Shape
    metric: Metric
    values: tuple[float, ...]
    baseline: tuple[float, ...]
    difference: Difference | None

    @property
    def value(self) -> float:
        """Mean over the runs."""
        return fmean(self.values)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Lowest and highest of the runs; None for a single one."""
        return (min(self.values), max(self.values)) if len(self.values) > 1 else None


def runs_of(result: Result, shape: Shape) -> Runs:
    """All runs of one load."""
    cells = result.of(shape)
    void = tuple(f"repeat {cell.repeat}: {reason}" for cell in cells for reason in cell.void)
    notes = tuple(dict.fromkeys(mark for cell in cells for mark in cell.notes))
    return Runs(shape, tuple(cell for cell in cells if cell.valid), void, notes)


def rows(result: Result, baseline: Result | None, spread: float | None = None) -> list[Row]:
    """Every figure of every load that the result has. A void run is no part of a mean.

    A load of which one run is void and others are not is compared by the others; the void one is told beside.
    """
    return [row for shape in result.shapes for row in _rows(shape, result, baseline, spread)]


def _rows(shape: Shape, result: Result, baseline: Result | None, spread: float | None) -> Iterator[Row]:
    mine, theirs = runs_of(result, shape), runs_of(baseline, shape) if baseline else None
    for metric in METRICS:
        values, base = mine.of(metric.key), theirs.of(metric.key) if theirs else []
        if values:
            difference = compare(values, base, metric.higher, spread) if base else None
            yield Row(shape, metric, tuple(values), tuple(base), difference)


def require_comparable(result: Result, baseline: Result) -> None:
    """Raise BenchError when no figure of one may be held against one of the other."""
    reasons = unlike(result.provenance, baseline.provenance)
    if not set(result.shapes) & set(baseline.shapes):
        reasons.append(f"no load in common: {_loads(result)} and {_loads(baseline)}")
    if reasons:
        raise BenchError(f"{result.label} and {baseline.label} are not comparable: {'; '.join(reasons)}")


def _loads(result: Result) -> str:
    return ", ".join(f"{shape} n={shape.prompts}" for shape in result.shapes)


def gaps(result: Result, baseline: Result | None) -> list[str]:
    """What stands in no mean: void runs on both sides, and loads that one side lacks."""
    sides: Sequence[Result] = [result, baseline] if baseline else [result]
    lines = [
        f"{side.label} {shape}: void, {reason}" for side in sides for shape in side.shapes
        for reason in runs_of(side, shape).void
    ]  # fmt: skip
    if baseline:
        lines += [f"{baseline.label} {shape}: {result.label} did not measure it" for shape in baseline.shapes
                  if shape not in result.shapes]  # fmt: skip
        lines += [f"{result.label} {shape}: {baseline.label} did not measure it" for shape in result.shapes
                  if shape not in baseline.shapes]  # fmt: skip
    return lines + [f"{side.label}: the sweep did not come to its end" for side in sides if not side.complete]


def noted(result: Result) -> list[str]:
    """What a reader must know of cells that do count."""
    found = [(shape, mark) for shape in result.shapes for mark in runs_of(result, shape).notes]
    return [f"{result.label} {shape}: {mark}" for shape, mark in found]
