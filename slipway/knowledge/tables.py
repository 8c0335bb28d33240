"""Load the tables that ship inside this package; a malformed row is named by file and row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

CONFIDENCES = ("source", "observed", "issue", "third_party", "datasheet", "inferred", "unknown")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YAML = "tag:yaml.org,2002:"
_SCALARS: Mapping[str, Callable[[str], Any]] = {
    f"{_YAML}str": str,
    f"{_YAML}int": int,
    f"{_YAML}float": float,
    f"{_YAML}bool": {"true": True, "false": False}.__getitem__,
    f"{_YAML}null": lambda _: None,
}


class TableError(ValueError):
    """A table of this package is malformed: names the file, the row and what is wrong."""

    def __init__(self, file: str, row: object, reason: str) -> None:
        """Keep the three parts for tests and messages."""
        super().__init__(f"slipway/knowledge/{file}: row {row}: {reason}")
        self.file, self.row, self.reason = file, row, reason


def read_text(name: str) -> str:
    """Read one shipped file; absent is a TableError too."""
    try:
        return resources.files("slipway.knowledge").joinpath(name).read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError) as err:
        raise TableError(name, "-", "file is missing from the package") from err


@cache
def load(name: str) -> Mapping[str, Any]:
    """Parse one YAML or JSON table, once a process."""
    text = read_text(name)
    parsed = json.loads(text) if name.endswith(".json") else parse_yaml(name, text)
    if not isinstance(parsed, dict):
        raise TableError(name, "-", f"top level is {type(parsed).__name__}; must be a mapping")
    return parsed


def parse_yaml(name: str, text: str) -> Any:
    """Parse YAML as our tables use it: a third quicker than yaml.load, and a key written twice is an error."""
    return _plain(name, yaml.compose(text, Loader=_LOADER))


def _plain(name: str, node: Any) -> Any:
    """Turn a composed node into plain data."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(name, item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        found = {_plain(name, key): _plain(name, value) for key, value in node.value}
        if len(found) != len(node.value):
            raise TableError(name, f"line {node.start_mark.line + 1}", "a key is written twice")
        return found
    try:
        return _SCALARS[node.tag](node.value)
    except (AttributeError, KeyError, ValueError) as err:
        value = getattr(node, "value", "nothing")
        raise TableError(name, "-", f"{value!r} is no text, number, true, false or null") from err


def shipped(folder: str, suffix: str) -> tuple[str, ...]:
    """Name the tables of a folder, without the suffix."""
    found = resources.files("slipway.knowledge").joinpath(folder).iterdir()
    return tuple(sorted(item.name.removesuffix(suffix) for item in found if item.name.endswith(suffix)))


def rows(name: str, section: str) -> list[dict[str, Any]]:
    """Return a section that is a list of rows, each with source and confidence."""
    found = load(name).get(section)
    if not isinstance(found, list):
        raise TableError(name, section, "section is missing or is not a list")
    for index, row in enumerate(found):
        check_row(name, f"{section}[{index}]", row)
    return found


def check_row(file: str, row: str, value: Any) -> None:
    """Insist on a mapping with a source and a known confidence."""
    if not isinstance(value, dict):
        raise TableError(file, row, f"is {type(value).__name__}; must be a mapping")
    if not value.get("source"):
        raise TableError(file, row, "has no source")
    if value.get("confidence") not in CONFIDENCES:
        raise TableError(
            file, row, f"confidence is {value.get('confidence')!r}; must be one of {', '.join(CONFIDENCES)}"
        )


def check_keys(file: str, row: str, value: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """Refuse keys that no reader knows: a misspelt key would silently change a choice."""
    unknown = sorted(set(value) - allowed)
    if unknown:
        raise TableError(file, row, f"unknown key {unknown[0]!r}; must be one of {', '.join(sorted(allowed))}")
