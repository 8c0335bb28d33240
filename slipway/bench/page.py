"""A report as one HTML page that opens offline: no script, no font, no image from elsewhere."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from slipway.bench.plot import Plot, legend, svg
from slipway.bench.report import Report
from slipway.render import TEMPLATES


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=True, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(svg=_svg, legend=_legend)
    return environment


def _svg(plot: Plot) -> Markup:
    return Markup(svg(plot))  # noqa: S704 - every text in it is escaped where it is written


def _legend(plot: Plot) -> Markup:
    return Markup(legend(plot.series))  # noqa: S704 - likewise


def page(report: Report) -> str:
    """The text of REPORT.html."""
    return _environment().get_template("report.html.j2").render(report=report)
