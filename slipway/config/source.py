"""Reads one YAML file into plain data and remembers on which line each key stands."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import yaml

from .errors import ConfigError

KeyPath = tuple[str | int, ...]
# libyaml's parser where PyYAML was built with it: ten times quicker, which counts with hundreds of host_vars.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Origin:
    """Where a value was written."""

    file: str
    line: int


@dataclass
class Source:
    """The data of one file, the origin of each of its keys, and what was wrong with its syntax."""

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    errors: list[ConfigError] = field(default_factory=list)


class _Reader:
    """Walks YAML nodes: builds values as yaml.SafeLoader would, noting lines and refusing duplicate keys."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.constructor = yaml.constructor.SafeConstructor()

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.source.origins.setdefault(path, Origin(self.source.file, node.start_mark.line + 1))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, (*path, i)) for i, child in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        try:
            return self.constructor.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            self._error(node, path, str(error).splitlines()[0], "a plain YAML value")
            return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        self.constructor.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node, path)
            name = str(key) if isinstance(key, Hashable) else repr(key)
            here = (*path, name)
            if name in result:
                self._error(key_node, here, "the same key twice", "one key, once")
            self.source.origins[here] = Origin(self.source.file, key_node.start_mark.line + 1)
            result[name] = self.value(value_node, here)
        return result

    def _error(self, node: yaml.Node, path: KeyPath, found: str, allowed: str) -> None:
        where = ".".join(str(part) for part in path)
        self.source.errors.append(ConfigError(self.source.file, node.start_mark.line + 1, where, found, allowed))


def read_yaml(text: str, file: str) -> Source:
    """Parse `text`; syntax errors end up in `errors`, they are never raised.

    file: the name that error messages show.
    """
    source = Source(file)
    try:
        node = yaml.compose(text, Loader=LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        source.errors.append(_syntax_error(error, file))
        return source
    if node is None:
        return source
    if not isinstance(node, yaml.MappingNode):
        found = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        source.errors.append(ConfigError(file, node.start_mark.line + 1, "", found, "a mapping of keys"))
        return source
    source.data = _Reader(source).value(node, ())
    return source


def _syntax_error(error: Exception, file: str) -> ConfigError:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else 0
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return ConfigError(
        file,
        line,
        "",
        f"a YAML syntax error ({problem})",
        "valid YAML",
        "check indentation, colons and quotes on this line and the one before it",
    )
