"""Words and numbers that rules compare with: data, read from constants.yml."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def _table() -> dict[str, Any]:
    text = resources.files("slipway.rules").joinpath("constants.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def constant(name: str) -> Any:
    """One entry; KeyError for a name that the file lacks."""
    return _table()[name]


def words_of(name: str) -> tuple[str, ...]:
    """An entry that is a list of words."""
    return tuple(str(item) for item in _table()[name])
