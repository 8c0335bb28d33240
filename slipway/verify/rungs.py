"""The table of rungs, and which of them the configuration wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


@dataclass(frozen=True)
class RungRow:
    """One row of rungs.yml. level: fail, warn or skip."""

    name: str
    where: str
    limit_s: int
    proves: str
    level: str = "fail"
    light: bool = False


@cache
def rung_rows() -> tuple[RungRow, ...]:
    """All rungs in the order of the climb."""
    text = resources.files("slipway.verify").joinpath("rungs.yml").read_text(encoding="utf-8")
    return tuple(RungRow(**row) for row in yaml.safe_load(text)["rungs"])


def rungs_at(place: str, levels: Mapping[str, str], left_out: Iterable[str] = (), light: bool = False) -> list[RungRow]:
    """The rungs of one place that are wanted; light: only those that cost little.

    levels: what the configuration says instead of the table.
    """
    without = set(left_out)
    wanted = [row for row in rung_rows() if row.where == place and levels.get(row.name, row.level) != "skip"]
    return [row for row in wanted if row.name not in without and (row.light or not light)]


def lenient(rows: Iterable[RungRow], levels: Mapping[str, str]) -> list[str]:
    """Names of those that only warn."""
    return [row.name for row in rows if levels.get(row.name, row.level) == "warn"]
