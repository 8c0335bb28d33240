"""Findings that other parts of the plan make: listed so that they can be waived and looked up, not made again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


@dataclass(frozen=True)
class Known:
    """One id of a finding that no rule makes. severity: the word, or several with ` or `. where: who makes it."""

    id: str
    severity: str
    where: str
    says: str


@cache
def known_others() -> tuple[Known, ...]:
    """Every such id, by id."""
    text = resources.files("slipway.rules").joinpath("others.yml").read_text(encoding="utf-8")
    rows = yaml.safe_load(text)["others"]
    return tuple(sorted((Known(**row) for row in rows), key=lambda known: known.id))
