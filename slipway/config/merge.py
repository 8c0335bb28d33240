"""Deep-merges configuration layers and keeps, for each key, where its winning value was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .source import KeyPath, Origin, Source


@dataclass
class Merged:
    """Plain data after merging, with the origin of each key path."""

    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)

    def origin(self, path: KeyPath) -> Origin:
        """Where `path` was written; the nearest parent's place when the key itself was not."""
        for end in range(len(path), -1, -1):
            found = self.origins.get(path[:end])
            if found:
                return found
        return Origin("group_vars", 0)


def merge(layers: Iterable[Source]) -> Merged:
    """Later layers win; mappings merge, everything else replaces (a list replaces a list)."""
    merged = Merged()
    for layer in layers:
        _merge_into(merged, merged.data, layer.data, layer, ())
    return merged


def _merge_into(merged: Merged, target: dict[str, Any], data: Mapping[str, Any], layer: Source, path: KeyPath) -> None:
    for key, value in data.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge_into(merged, target[key], value, layer, here)
            continue
        target[key] = _copy(value)
        _take_origins(merged, layer, here)


def _take_origins(merged: Merged, layer: Source, path: KeyPath) -> None:
    for known in [known for known in merged.origins if known[: len(path)] == path]:
        del merged.origins[known]
    for known, origin in layer.origins.items():
        if known[: len(path)] == path:
            merged.origins[known] = origin


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
