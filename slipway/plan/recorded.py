"""Reads a plan back from what a release recorded of it."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from .hub import HubFiles
from .model import Files, HostPlan, Instance, Plan

T = TypeVar("T")


class RecordedError(ValueError):
    """Why a recorded plan cannot be read: one sentence."""


def plan_from(text: str) -> Plan:
    """The plan of a plan.json, without decisions and findings, which change nothing on a host. Raises RecordedError."""
    try:
        data = json.loads(text)
        hosts = tuple(_read(HostPlan, row) for row in data["hosts"])
        instances = tuple(_read(Instance, row) for row in data["instances"])
        return Plan(str(data["deployment"]), hosts, instances, bool(data["simulated"]), (), ())
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordedError(f"it is no plan that this version can read ({type(error).__name__}: {error})") from None


def _read(cls: type[T], row: Mapping[str, Any]) -> T:
    hints = typing.get_type_hints(cls)
    values = {}
    for one in fields(cls):  # type: ignore[arg-type]
        if one.name in row:
            values[one.name] = _value(hints[one.name], row[one.name])
        elif one.default is MISSING and one.default_factory is MISSING:
            if one.name != "source":  # folders of the controller are not recorded
                raise RecordedError(f"{cls.__name__} has no {one.name}")
            values[one.name] = ""
    return cls(**values)


def _value(hint: Any, value: Any) -> Any:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if value is None or hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _value(_fitting([one for one in inside if one is not type(None)], value), value)
    if origin is tuple:
        kinds = [inside[0]] * len(value) if inside[-1] is Ellipsis else inside
        return tuple(_value(kind, item) for kind, item in zip(kinds, value, strict=True))
    return _mapping(hint, inside, value) if isinstance(value, Mapping) else value


def _mapping(hint: Any, inside: tuple[Any, ...], value: Mapping[str, Any]) -> Any:
    if hint is Files and "repo" in value:
        return _read(HubFiles, value)
    if isinstance(hint, type) and is_dataclass(hint):
        return _read(hint, value)
    return {key: _value(inside[1], item) for key, item in value.items()} if inside else dict(value)


def _fitting(kinds: list[Any], value: Any) -> Any:
    """The kind of a union that a value can be."""
    if isinstance(value, Mapping):
        return next((kind for kind in kinds if is_dataclass(kind) or typing.get_origin(kind)), Any)
    return kinds[0] if len(kinds) == 1 else Any
