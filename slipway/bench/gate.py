"""The regression gate: whether a result is worse than a baseline by more than is allowed, and surely so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slipway.bench.compare import Row, require_comparable, rows, runs_of
from slipway.bench.errors import BenchError
from slipway.bench.folder import Result
from slipway.bench.metrics import BY_KEY, METRICS, Metric
from slipway.config.errors import nearest

GOOD, REGRESSED, NOT_COMPARABLE = 0, 1, 2


@dataclass(frozen=True)
class Judgement:
    """The gate's exit code, and a line a load."""

    code: int
    lines: tuple[str, ...]


def percent(text: str) -> float:
    """'3%' or '3' -> 3.0. Raises BenchError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*", text)
    if not match or float(match[1]) > 100:
        raise BenchError(f"{text!r}: must be a percentage from 0 to 100, such as 3%")
    return float(match[1])


def metric_named(key: str) -> Metric:
    """The metric. Raises BenchError naming the nearest."""
    if key in BY_KEY and BY_KEY[key].higher is not None:
        return BY_KEY[key]
    known = [metric.key for metric in METRICS if metric.higher is not None]
    close = nearest(key, known)
    hint = f"did you mean {close}?" if close else f"one of {', '.join(known)}"
    raise BenchError(f"{key}: no such metric, or one of which neither way is better; {hint}")


def judge(result: Result, baseline: Result, metric: Metric, max_drop: float, spread: float | None = None) -> Judgement:
    """Compare load by load.

    max_drop: percent of the baseline by which the figure may get worse. A load fails when it is worse by more than
    that and the difference lies outside the spread of the runs. spread: relative, for where no side has repeats.
    1 wins over 2: a regression that is proven is not hidden by a load that could not be compared.
    """
    try:
        require_comparable(result, baseline)
    except BenchError as error:
        return Judgement(NOT_COMPARABLE, (str(error),))
    found = {row.shape: row for row in rows(result, baseline, spread) if row.metric == metric}
    verdicts = [_load(found.get(shape), result, shape, metric, max_drop) for shape in baseline.shapes]
    codes = [code for code, _ in verdicts]
    code = REGRESSED if REGRESSED in codes else max(codes)
    return Judgement(code, tuple(line for _, line in verdicts))


def _load(row: Row | None, result: Result, shape: object, metric: Metric, max_drop: float) -> tuple[int, str]:
    if row is None or row.difference is None or row.difference.percent is None:
        reasons = [*_void(result, shape)] or [f"a side has no {metric.key} for it"]
        return NOT_COMPARABLE, f"not comparable  {shape}: {'; '.join(reasons)}"
    words = difference_words(row)
    if row.difference.verdict == "unknown":
        fix = "measure repeats (two at least on a side), or name the spread that you know by --spread"
        return NOT_COMPARABLE, f"not comparable  {words}; one run a side tells no spread: {fix}"
    drop = -row.difference.percent if metric.higher else row.difference.percent
    if row.difference.verdict == "worse" and drop > max_drop:
        return REGRESSED, f"REGRESSION      {words}; allowed: {max_drop:g} % worse"
    return GOOD, f"{'noise' if row.difference.verdict == 'noise' else 'within limits':<15} {words}"


def _void(result: Result, shape: object) -> Iterator[str]:
    for one in result.shapes:
        if one == shape:
            yield from (f"void, {reason}" for reason in runs_of(result, one).void)


def difference_words(row: Row) -> str:
    """A comparison in one line: both means, the difference with its interval, and how many runs stand behind it."""
    difference, digits = row.difference, row.metric.digits
    if difference is None or difference.percent is None:
        return f"{row.shape} {row.metric.title}: {row.value:,.{digits}f}"
    half = "" if difference.half_percent is None else f" +-{difference.half_percent:.1f}"
    return (
        f"{row.shape} {row.metric.title}: {difference.value:,.{digits}f} against {difference.baseline:,.{digits}f} "
        f"{row.metric.unit}, {difference.percent:+.1f}{half} % ({len(row.values)} and {len(row.baseline)} runs)"
    )
