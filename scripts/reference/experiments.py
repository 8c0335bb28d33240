"""Page of every key of experiments/NAME.yml, made from its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slipway.experiment.load import schema

PATH = "docs/reference/experiments.md"

HEAD = """# Experiments

Every key of `experiments/NAME.yml`. Made from `slipway/experiment/schema.json` by `make docs`; do not edit. How they
are used: [docs/guides/comparing.md](../guides/comparing.md).
"""

CHANGE = """
## A change

What stands in `baseline`, in an entry of `variants` beside its `name` and `about`, and as a level of a lever in
`one_at_a_time`, `matrix` and `zip` (`LEVER: {LEVEL: change}`).
"""


def text() -> str:
    """The whole page."""
    change = schema()["$defs"]["change"]["properties"]
    return "\n".join([HEAD, *_table(schema()["properties"]), CHANGE, *_table(change)]) + "\n"


def _table(nodes: dict[str, Any]) -> Iterator[str]:
    yield "| key | what may stand there | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, node in nodes.items():
        default = f"`{json.dumps(node['default'])}`" if "default" in node else ""
        yield f"| `{name}` | {_allowed(node)} | {default} | {node['description']} |"


def _allowed(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{item}`" for item in node["enum"])
    if "$ref" in node:
        return {"change": "a change", "levers": "levers"}[node["$ref"].rpartition("/")[2]]
    kinds = node["type"]
    words = kinds if isinstance(kinds, str) else " or ".join(kinds)
    bounds = [f"{word} {node[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in node]
    return f"{words}, {', '.join(bounds)}" if bounds else words
