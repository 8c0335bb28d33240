"""Recorded plans of every example: python -m tests.examples.golden writes them anew.

A plan is made without asking a host, this machine included, so that it is the same everywhere; what differs between
checkouts is written as a word. `slipway plan examples/NAME/inventory.py --diff tests/examples/golden/NAME.json` shows
what a change does to it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from slipway.front import open_inventory
from slipway.plan.model import Plan, to_json

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
AGENT = re.compile(r"simulator-[0-9a-f]{8,}")  # names the simulator by its sources, which change often


def inventories() -> dict[str, Path]:
    """Every inventory that ships with the project, by the name of its recorded plan."""
    found = {path.parent.name: path for path in sorted((ROOT / "examples").glob("*/inventory.py"))}
    return {"default": ROOT / "inventory.py", **found}


def plan_of(inventory: Path) -> Plan:
    """The plan, with no host asked."""
    return open_inventory(inventory, {}).plan({})


def recorded(plan: Plan) -> str:
    """The text of a recorded plan."""
    return json.dumps(stable(to_json(plan)), indent=1, ensure_ascii=False) + "\n"


def stable(value: Any) -> Any:
    """Plan data without what differs between checkouts."""
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [stable(item) for item in value]
    return AGENT.sub("simulator-AGENT", value.replace(str(ROOT), "CHECKOUT")) if isinstance(value, str) else value


def main() -> None:
    """Write every plan that is not as recorded, and name it; plans of examples that are gone go as well."""
    known = inventories()
    for path in GOLDEN.glob("*.json"):
        if path.stem not in known:
            path.unlink()
            print(f"{path.name}: removed")
    for name, inventory in known.items():
        path, text = GOLDEN / f"{name}.json", recorded(plan_of(inventory))
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name}: written")


if __name__ == "__main__":
    main()
