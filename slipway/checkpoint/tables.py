"""The tables of this package.

Model families and quantization rules, read once from the YAML beside this file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def table(name: str) -> dict[str, Any]:
    """`families` or `quantization`."""
    text = (Path(__file__).parent / f"{name}.yml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def family_row(model_type: str, architectures: tuple[str, ...]) -> dict[str, Any]:
    """The row of the family, with the defaults filled in; family `unknown` when no row matches."""
    families = table("families")
    by_type = (row for row in families["families"] if model_type in row["model_types"])
    by_name = (row for row in families["families"] if _starts(architectures, row["architectures"]))
    row = next(by_type, None) or next(by_name, None) or {"family": "unknown"}
    return {**families["defaults"], **row}


def _starts(architectures: tuple[str, ...], prefixes: list[str]) -> bool:
    return any(name.startswith(prefix) for name in architectures for prefix in prefixes)
