"""Line plots as inline SVG: no script, no fetched font; colours are the page's variables, so light and dark are one.

Own code rather than a library: see docs/decisions/0003.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 48
SERIES_COLOURS = 8
# Labels of neighbouring series lie on different sides of their points, so that they do not collide.
_LABEL_PLACES = ((0, -10, "middle"), (0, 20, "middle"), (10, 4, "start"), (-10, 4, "end"))
_SPAN_OF_LOG = 12  # axes whose largest value is this many times the smallest are logarithmic


@dataclass(frozen=True)
class Point:
    """One measured cell. label: what it is called, such as C=8. about: all of it, shown when pointed at."""

    x: float
    y: float
    label: str = ""
    about: str = ""


@dataclass(frozen=True)
class Series:
    """Points of one configuration in order; bound: a limit that was reckoned, not measured."""

    name: str
    points: tuple[Point, ...]
    bound: bool = False


@dataclass(frozen=True)
class Target:
    """A value to reach, on the axis 'x' or 'y'."""

    axis: str
    value: float
    name: str


@dataclass(frozen=True)
class Plot:
    """One plot. id: unique on the page."""

    id: str
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    targets: tuple[Target, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Axis:
    """Where values lie on the paper. logarithmic: lowest is above 0."""

    lowest: float
    highest: float
    logarithmic: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value, in SVG units."""
        scale: Callable[[float], float] = math.log10 if self.logarithmic else float
        share = (scale(value) - scale(self.lowest)) / (scale(self.highest) - scale(self.lowest))
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values to mark."""
        return _log_ticks(self.lowest, self.highest) if self.logarithmic else _ticks(self.highest)


def axis_of(values: Iterable[float], start: float, end: float) -> Axis:
    """An axis that holds all values: from 0, or logarithmic when they span more than an order of magnitude."""
    found = [value for value in values if value > 0] or [1.0]
    lowest, highest = min(found), max(found)
    if highest / lowest < _SPAN_OF_LOG:
        top = _ticks(highest * 1.06)[-1]
        return Axis(0.0, max(top, highest * 1.06), False, start, end)
    return Axis(lowest / 1.3, highest * 1.3, True, start, end)


def _ticks(highest: float) -> list[float]:
    step = _step(highest / 5)
    return [step * at for at in range(int(highest / step + 1e-9) + 1)]


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)


def _log_ticks(lowest: float, highest: float) -> list[float]:
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    factors = (1, 2, 5) if len(decades) <= 5 else (1,)
    found = [factor * 10.0**power for power in decades for factor in factors]
    return [value for value in found if lowest <= value <= highest]


def number(value: float) -> str:
    """A tick's label: short, with thousands as k and M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and not value % size):
            return f"{value / size:.3g}{letter}"
    return f"{value:.4g}"


def svg(plot: Plot) -> str:
    """The plot as one SVG element; its title and description are there for who cannot see it."""
    points = [point for series in plot.series for point in series.points]
    marks = [(target.axis, target.value) for target in plot.targets]
    xs = [point.x for point in points] + [value for axis, value in marks if axis == "x"]
    ys = [point.y for point in points] + [value for axis, value in marks if axis == "y"]
    x, y = axis_of(xs, LEFT, WIDTH - RIGHT), axis_of(ys, HEIGHT - BOTTOM, TOP)
    body = [*_frame(plot, x, y), *_targets(plot.targets, x, y), *_all_series(plot.series, x, y)]
    about = f"{plot.title}: {', '.join(series.name for series in plot.series)}"
    return "\n".join(
        [
            f'<svg class="plot" id="{escape(plot.id)}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="{escape(plot.id)}-title">',
            f'<title id="{escape(plot.id)}-title">{escape(about)}</title>',
            *body,
            "</svg>",
        ]
    )


def _frame(plot: Plot, x: Axis, y: Axis) -> list[str]:
    lines = []
    for value in y.ticks():
        at = y.at(value)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        lines.append(f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number(value)}</text>')
    for value in x.ticks():
        at = x.at(value)
        lines.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        lines.append(f'<text class="tick" x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                     f"{number(value)}</text>")  # fmt: skip
    middle, height = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    lines.append(
        f'<text class="axis" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{_title(plot.x_title, x)}</text>'
    )
    lines.append(f'<text class="axis" transform="translate(14 {height}) rotate(-90)" text-anchor="middle">'
                 f"{_title(plot.y_title, y)}</text>")  # fmt: skip
    return lines


def _title(text: str, axis: Axis) -> str:
    return escape(text + (" (log)" if axis.logarithmic else ""))


def _targets(targets: Sequence[Target], x: Axis, y: Axis) -> list[str]:
    """Lines across the plot, each with its name at the edge: the axis says of which figure it is."""
    lines = []
    for target in targets:
        if target.axis == "x":
            at = x.at(target.value)
            left = at > (LEFT + WIDTH - RIGHT) / 2
            lines.append(f'<line class="target" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
            place = f'x="{at + (-6 if left else 6):.1f}" y="{TOP + 10}" text-anchor="{"end" if left else "start"}"'
        else:
            at = y.at(target.value)
            lines.append(f'<line class="target" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
            place = f'x="{LEFT + 6}" y="{at - 6:.1f}" text-anchor="start"'
        lines.append(f'<text class="name" {place}>{escape(target.name)}</text>')
    return lines


def _all_series(series: Sequence[Series], x: Axis, y: Axis) -> list[str]:
    lines, measured = [], 0
    for one in series:
        if one.bound:
            lines.append(f'<path class="bound" d="{_path(one, x, y)}"/>')
        else:
            lines += _measured(one, x, y, measured % SERIES_COLOURS)
            measured += 1
    return lines


def _path(series: Series, x: Axis, y: Axis) -> str:
    return " ".join(f"{'L' if at else 'M'}{x.at(p.x):.1f} {y.at(p.y):.1f}" for at, p in enumerate(series.points))


def _measured(series: Series, x: Axis, y: Axis, colour: int) -> list[str]:
    lines = [f'<g class="series s{colour}" data-series="{escape(series.name)}">']
    lines.append(f'<path class="line" d="{_path(series, x, y)}"/>')
    across_by, up_by, anchor = _LABEL_PLACES[colour % len(_LABEL_PLACES)]
    for point in series.points:
        across, up = x.at(point.x), y.at(point.y)
        lines.append(f"<g>{_marker(colour, across, up)}<title>{escape(point.about or point.label)}</title></g>")
        lines.append(f'<text class="label" x="{across + across_by:.1f}" y="{up + up_by:.1f}" '
                     f'text-anchor="{anchor}">{escape(point.label)}</text>')  # fmt: skip
    return [*lines, "</g>"]


def _marker(shape: int, x: float, y: float, size: float = 5) -> str:
    """Circle, square, triangle or diamond: colours alone do not tell series apart for everyone."""
    if shape % 4 == 0:
        return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
        3: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[shape % 4]
    points = " ".join(f"{x + size * across:.1f},{y + size * down:.1f}" for across, down in corners)
    return f'<polygon class="mark" points="{points}"/>'


def legend(series: Sequence[Series]) -> str:
    """Names beside their marks, as HTML."""
    measured = [one for one in series if not one.bound]
    items = [
        f'<li><svg viewBox="0 0 16 16" class="key series s{at % SERIES_COLOURS}" aria-hidden="true">'
        f"{_marker(at % SERIES_COLOURS, 8, 8)}</svg>{escape(one.name)}</li>"
        for at, one in enumerate(measured)
    ]
    bounds = [
        f'<li><svg viewBox="0 0 16 16" class="key" aria-hidden="true"><path class="bound" d="M0 8 L16 8"/></svg>'
        f"{escape(one.name)}</li>"
        for one in series
        if one.bound
    ]
    return f'<ul class="legend">{"".join([*items, *bounds])}</ul>'
