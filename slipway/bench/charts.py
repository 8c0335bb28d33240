"""The two plots of a report, one pair for each pair of input and output lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from slipway.bench.bounds import Bound
from slipway.bench.compare import Runs, runs_of
from slipway.bench.folder import Result
from slipway.bench.plot import Plot, Point, Series, Target
from slipway.bench.record import Shape

Targets = Mapping[str, float]
Place = Callable[[Runs], "tuple[float, float] | None"]
_STEPS = 24  # points of a bound's curve


def charts(everyone: Sequence[Result], bounds: Mapping[str, Bound | str], targets: Targets) -> Iterator[Plot]:
    """Throughput against latency, and throughput a GPU against speed a user (the Pareto front)."""
    pairs = sorted({(shape.input_len, shape.output_len) for result in everyone for shape in result.shapes})
    for pair in pairs:
        shown = [result for result in everyone if _shapes(result, pair)]
        yield _latency(pair, shown, bounds, targets)
        yield _pareto(pair, shown, bounds, targets)


def _shapes(result: Result, pair: tuple[int, int]) -> list[Shape]:
    return [shape for shape in result.shapes if (shape.input_len, shape.output_len) == pair]


def _latency(
    pair: tuple[int, int], everyone: Sequence[Result], bounds: Mapping[str, Bound | str], targets: Targets
) -> Plot:
    measured = [_series(result, pair, _throughput_latency) for result in everyone]
    limits = [
        _bound_series(result, bound, pair, lambda bound, shape, at: (bound.latency_s(shape, at), bound.throughput(at)))
        for result, bound in _distinct(everyone, bounds)
    ]
    marks = _targets(targets, {"median_e2e_latency_ms": ("x", 0.001), "output_throughput": ("y", 1.0)})
    return Plot(
        f"latency-{pair[0]}-{pair[1]}", f"Throughput against latency, {pair[0]} tokens in, {pair[1]} out",
        "median end-to-end latency, s", "output tok/s", tuple(_filled([*measured, *limits])), marks,
        _void_note(everyone, pair),
    )  # fmt: skip


def _pareto(
    pair: tuple[int, int], everyone: Sequence[Result], bounds: Mapping[str, Bound | str], targets: Targets
) -> Plot:
    per_gpu = any("output_throughput_per_gpu_all" in cell.values for result in everyone for cell in result.cells)
    key = "output_throughput_per_gpu_all" if per_gpu else "output_throughput"
    measured = [_series(result, pair, lambda runs: _means(runs, "tok_s_per_user.median", key)) for result in everyone]
    limits = [
        _bound_series(result, bound, pair, lambda bound, _, at: (bound.user_speed(at), _share(bound, at, per_gpu)))
        for result, bound in _distinct(everyone, bounds)
    ]
    title = "output tok/s per GPU (all GPUs)" if per_gpu else "output tok/s"
    return Plot(
        f"pareto-{pair[0]}-{pair[1]}", f"Speed a user against throughput, {pair[0]} tokens in, {pair[1]} out",
        "output tok/s a user (1 / median TPOT)", title, tuple(_filled([*measured, *limits])),
        _targets(targets, {"tok_s_per_user.median": ("x", 1.0), key: ("y", 1.0)}), _void_note(everyone, pair),
    )  # fmt: skip


def _share(bound: Bound, concurrency: float, per_gpu: bool) -> float:
    return bound.throughput(concurrency) / (bound.gpus if per_gpu and bound.gpus else 1)


def _throughput_latency(runs: Runs) -> tuple[float, float] | None:
    found = _means(runs, "median_e2e_latency_ms", "output_throughput")
    return (found[0] / 1000, found[1]) if found else None


def _means(runs: Runs, x: str, y: str) -> tuple[float, float] | None:
    xs, ys = runs.of(x), runs.of(y)
    return (fmean(xs), fmean(ys)) if xs and ys else None


def _series(result: Result, pair: tuple[int, int], place: Place) -> Series:
    points = []
    for shape in _shapes(result, pair):
        found = place(runs_of(result, shape))
        if found:
            about = f"{result.label}, C={shape.concurrency}: {found[0]:,.4g}, {found[1]:,.4g}"
            points.append(Point(*found, f"C={shape.concurrency}", about))
    return Series(result.label, tuple(points))


def _bound_series(
    result: Result, bound: Bound, pair: tuple[int, int], place: Callable[[Bound, Shape, float], tuple[float, float]]
) -> Series:
    """The curve over the concurrencies that were measured."""
    shapes = _shapes(result, pair)
    low, high = shapes[0].concurrency, shapes[-1].concurrency
    steps = [low * (high / low) ** (at / _STEPS) for at in range(_STEPS + 1)] if high > low else [float(low)]
    name = f"roofline (upper bound), {bound.roofline.gpu}"
    return Series(name, tuple(Point(*place(bound, shapes[0], at)) for at in steps), bound=True)


def _distinct(everyone: Sequence[Result], bounds: Mapping[str, Bound | str]) -> list[tuple[Result, Bound]]:
    """One result for each bound that differs."""
    found: dict[Bound, Result] = {}
    for result in everyone:
        bound = bounds[result.label]
        if isinstance(bound, Bound):
            found.setdefault(bound, result)
    return [(result, bound) for bound, result in found.items()]


def _filled(series: Sequence[Series]) -> Iterator[Series]:
    yield from (one for one in series if one.points)


def _targets(targets: Targets, axes: Mapping[str, tuple[str, float]]) -> tuple[Target, ...]:
    return tuple(
        Target(axes[key][0], value * axes[key][1], f"target {value * axes[key][1]:,.10g}")
        for key, value in targets.items()
        if key in axes
    )


def _void_note(everyone: Sequence[Result], pair: tuple[int, int]) -> str:
    void = [
        f"{result.label} C={shape.concurrency}"
        for result in everyone
        for shape in _shapes(result, pair)
        if not runs_of(result, shape).valid
    ]
    return f"void, so not drawn: {', '.join(void)}" if void else ""
