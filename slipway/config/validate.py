"""Checks merged configuration against the one schema and turns violations into ConfigErrors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from typing import Any

import jsonschema

from .errors import ConfigError, nearest
from .merge import Merged
from .source import KeyPath

Json = dict[str, Any]
Violation = Any  # jsonschema types what a violation holds by what any schema could; ours is one known schema


@cache
def schema() -> Json:
    """The schema of group_vars, the authority for keys, types, ranges and defaults."""
    text = resources.files("slipway.config").joinpath("schema.json").read_text(encoding="utf-8")
    loaded: Json = json.loads(text)
    return loaded


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(schema())


def resolve(node: Json) -> Json:
    """Follow a $ref of the schema; keys beside the $ref win over those it points at."""
    if "$ref" not in node:
        return node
    target: Json = schema()["$defs"][node["$ref"].rpartition("/")[2]]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def errors_of(merged: Merged) -> list[ConfigError]:
    """Every violation in `merged`, in the order of the files' lines."""
    found = [error for violation in _violations(merged.data) for error in _explain(violation, merged)]
    return sorted(set(found), key=lambda error: (error.file, error.line, error.path))


def _violations(data: Json) -> Iterator[Violation]:
    yield from _validator().iter_errors(data)


def _explain(violation: Violation, merged: Merged) -> Iterator[ConfigError]:
    path: KeyPath = tuple(violation.absolute_path)
    if violation.validator == "additionalProperties" and violation.schema.get("properties"):
        yield from _unknown_keys(violation, merged, path)
        return
    origin = merged.origin(path)
    allowed = allowed_by(violation)
    found = "a value that is not shown" if {"secret_env", "api_key", "token"} & set(path) else show(violation.instance)
    yield ConfigError(origin.file, origin.line, dotted(path), found, allowed, _hint(violation))


def _unknown_keys(violation: Violation, merged: Merged, path: KeyPath) -> Iterator[ConfigError]:
    known = violation.schema["properties"]
    for key in sorted(set(violation.instance) - set(known), key=str):
        origin = merged.origin((*path, key))
        close = nearest(key, known)
        yield ConfigError(
            origin.file,
            origin.line,
            dotted((*path, key)),
            f"unknown key {show(key)}",
            f"one of {', '.join(sorted(known))}",
            f"did you mean {close}?" if close else "remove the key, or move it to the section it belongs to",
        )


def dotted(path: KeyPath) -> str:
    """('prefill', 'tp') -> 'prefill.tp'."""
    return ".".join(str(part) for part in path)


def show(value: Any) -> str:
    """A value as an error message shows it: JSON, cut to one line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


def allowed_by(violation: Violation) -> str:
    """What the schema asks for, in words."""
    value = violation.validator_value
    words: dict[str, Callable[[], str]] = {
        "enum": lambda: "one of " + ", ".join(str(item) for item in value),
        "type": lambda: " or ".join(_TYPES[t] for t in ([value] if isinstance(value, str) else value)),
        "minimum": lambda: f"at least {value}",
        "maximum": lambda: f"at most {value}",
        "exclusiveMinimum": lambda: f"more than {value}",
        "exclusiveMaximum": lambda: f"less than {value}",
        "minLength": lambda: f"text of at least {value} characters",
        "uniqueItems": lambda: "a list without repeats",
        "pattern": lambda: f"text that matches {value}",
    }
    explain = words.get(str(violation.validator))
    return explain() if explain else violation.message


def _hint(violation: Violation) -> str:
    value, wanted = violation.instance, violation.validator_value
    if violation.validator == "type" and isinstance(value, str) and wanted in ("integer", "number"):
        return "write the number without quotes"
    if violation.validator == "type" and wanted == "string" and isinstance(value, (int, float)):
        return f'put quotes around it: "{value}"'
    if violation.validator == "enum" and isinstance(value, str):
        close = nearest(value, wanted)
        return f"did you mean {close}?" if close else ""
    return _meaning(tuple(violation.absolute_path))


def _meaning(path: KeyPath) -> str:
    """The first sentence of what the schema says of a key; '' where it says nothing."""
    node = schema()
    for part in path:
        node = resolve(node.get("properties", {}).get(part, {}))
    return str(node.get("description", "")).split(". ")[0].rstrip(".")


def with_defaults(data: Json, node: Json) -> Json:
    """`data` with every key of the schema node `node` present, defaults filled in, recursively."""
    result = dict(data)
    for key, raw in resolve(node).get("properties", {}).items():
        child = resolve(raw)
        if key not in result and "default" in child:
            result[key] = child["default"]
        if isinstance(result.get(key), dict) and "properties" in child:
            result[key] = with_defaults(result[key], child)
    return result
