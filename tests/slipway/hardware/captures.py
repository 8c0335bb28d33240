"""The recorded answers of the probe, read once."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "hardware"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text()


def capture(name: str) -> dict[str, Any]:
    """A fresh copy of one recorded answer."""
    return copy.deepcopy(json.loads(_text(name)))
