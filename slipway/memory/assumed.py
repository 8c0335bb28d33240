"""The assumptions of the memory arithmetic, read once from the YAML beside this file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

GIB = 2**30


@cache
def assumed() -> dict[str, Any]:
    """assumptions.yml."""
    text = (Path(__file__).parent / "assumptions.yml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def gib(count: float) -> str:
    """Bytes for a person: GiB with two decimals, or MiB and bytes for less."""
    if abs(count) >= GIB / 10:
        return f"{count / GIB:,.2f} GiB"
    return f"{count / 2**20:,.2f} MiB" if abs(count) >= 2**20 / 10 else f"{count:,.0f} B"
