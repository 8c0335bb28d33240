"""Small, total readers of the probe's JSON: whatever was written there, a reader answers."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from typing import Any

ABSENT = re.compile(r"\[?(n/?a|not supported|unknown error|insufficient permissions|not found|-)\]?", re.IGNORECASE)


def section(probe: Any, *keys: str) -> dict[str, Any]:
    """The mapping at a path of keys; empty when it is missing, failed or something else."""
    for key in keys:
        probe = probe.get(key) if isinstance(probe, Mapping) else None
    return dict(probe) if isinstance(probe, Mapping) and all(isinstance(key, str) for key in probe) else {}


def rows(probe: Any, *keys: str) -> list[dict[str, Any]]:
    """The list of mappings at a path of keys, without what is not a mapping."""
    holder = section(probe, *keys[:-1]).get(keys[-1])
    return [row for row in holder if isinstance(row, dict)] if isinstance(holder, list) else []


def word(value: Any) -> str:
    """A string as it is; anything else, and the words for 'no value', as empty."""
    return "" if not isinstance(value, str) or ABSENT.fullmatch(value.strip()) else value.strip()


def whole(value: Any) -> int | None:
    """A whole number out of a number or digits; None for anything else, too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        match = re.match(r"-?\d{1,18}(?!\d)", value.strip())
        return int(match.group()) if match else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value) if isinstance(value, int | float) and abs(value) < 1e18 else None


def count(value: Any) -> int:
    """A number that cannot be negative; 0 where unknown."""
    return max(0, whole(value) or 0)


def fraction(value: Any) -> float | None:
    """A finite number, None for anything else."""
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and math.isfinite(number) else None


def words(value: Any) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def output(probe: Any, *keys: str) -> str:
    """What a command printed; empty when it failed, so that no error text is read as data."""
    answer = section(probe, *keys)
    out = answer.get("out")
    return out if isinstance(out, str) and answer.get("rc") == 0 else ""


def complaint(probe: Any, *keys: str) -> str:
    """Why a reading failed: the probe's own error, or what the tool printed beside a bad exit status."""
    answer = section(probe, *keys)
    if word(answer.get("error")):
        return word(answer["error"])
    if answer.get("rc") in (0, None):
        return ""
    printed = f"{word(answer.get('out'))} {word(answer.get('err'))}".strip()
    return printed or f"exit status {answer['rc']}"


def table(text: str) -> list[dict[str, str]]:
    """A CSV as nvidia-smi prints it, keyed by column without the unit; short rows are left out."""
    try:
        lines = list(csv.reader(text.replace("\0", "").splitlines(), skipinitialspace=True))
    except csv.Error:
        return []
    if not lines:
        return []
    names = [re.sub(r"\s*\[.*\]$", "", name).strip() for name in lines[0]]
    return [dict(zip(names, map(str.strip, line), strict=False)) for line in lines[1:] if len(line) >= len(names)]
