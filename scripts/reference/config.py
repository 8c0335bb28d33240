"""Page of every key of group_vars, made from the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slipway.config.validate import resolve, schema

PATH = "docs/reference/config.md"

HEAD = """# Configuration

Every key of `group_vars/*.yml` and `host_vars/*.yml`, and of `--data KEY.PATH=VALUE`. Made from
`slipway/config/schema.json` by `make docs`; do not edit. Precedence: all < group < host < `--data`.
Mappings merge, everything else replaces.

The sections `prefill`, `decode` and `unified` have the keys of `worker` and win over it for their role.
"""

SAME_AS_WORKER = ("prefill", "decode", "unified")


def text() -> str:
    """The whole page."""
    top = {name: resolve(node) for name, node in schema()["properties"].items()}
    plain = {name: node for name, node in top.items() if "properties" not in node}
    parts = [HEAD, "## Top level\n", *_table(plain)]
    for name, node in top.items():
        if "properties" in node and name not in SAME_AS_WORKER:
            parts += [f"\n## {name}\n", f"{node.get('description', '')}\n", *_table(node["properties"])]
    return "\n".join(parts) + "\n"


def _table(nodes: dict[str, Any]) -> Iterator[str]:
    yield "| key | what may stand there | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, raw in nodes.items():
        node = resolve(raw)
        default = f"`{json.dumps(node['default'])}`" if "default" in node else ""
        yield f"| `{name}` | {_allowed(node)} | {default} | {_cell(node.get('description', ''))} |"


def _allowed(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{item}`" for item in node["enum"])
    if "oneOf" in node or "anyOf" in node:
        return " or ".join(_allowed(resolve(one)) for one in node.get("oneOf", node.get("anyOf")))
    kinds = node.get("type", "any")
    words = " or ".join(kinds) if isinstance(kinds, list) else kinds
    bounds = [f"{word} {node[key]}" for key, word in _BOUNDS.items() if key in node]
    return words + (f", {', '.join(bounds)}" if bounds else "")


_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
}


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
