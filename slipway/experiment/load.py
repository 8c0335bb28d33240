"""Reads experiments/NAME.yml and expands its forms into variants; everything that is wrong is told at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema

from slipway.bench.errors import BenchError
from slipway.bench.gate import metric_named
from slipway.config.errors import ConfigError, InvalidConfigError, nearest
from slipway.config.source import Source, read_yaml
from slipway.config.validate import allowed_by, dotted, show
from slipway.experiment.model import BASELINE, ROLES, Change, Experiment, Variant


@cache
def schema() -> dict[str, Any]:
    """The schema of experiments/NAME.yml."""
    text = resources.files("slipway.experiment").joinpath("schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def load_experiment(folder: Path, name: str) -> Experiment:
    """The experiment `name` of `folder`. Raises InvalidConfigError with everything that is wrong."""
    path = folder / f"{name}.yml"
    if not path.is_file():
        known = sorted(one.stem for one in folder.glob("*.yml"))
        close = nearest(name, known)
        hint = f"did you mean {close}?" if close else ""
        raise InvalidConfigError([ConfigError(str(path), 0, "", "no such file", f"one of {', '.join(known)}", hint)])
    source = read_yaml(path.read_text(encoding="utf-8"), f"experiments/{name}.yml")
    errors = source.errors or list(_violations(source))
    if errors:
        raise InvalidConfigError(errors)
    found = _experiment(name, {**_defaults(), **source.data})
    errors = list(_contradictions(source, found))
    if errors:
        raise InvalidConfigError(errors)
    return found


def _defaults() -> dict[str, Any]:
    return {key: row["default"] for key, row in schema()["properties"].items() if "default" in row}


def _violations(source: Source) -> Iterator[ConfigError]:
    for violation in jsonschema.Draft202012Validator(schema()).iter_errors(source.data):
        path = tuple(violation.absolute_path)
        found, allowed, hint = show(violation.instance), allowed_by(violation), ""
        if violation.validator == "additionalProperties" and isinstance(violation.instance, dict):
            known = violation.schema.get("properties", {})
            key = next(key for key in violation.instance if key not in known)
            close = nearest(key, known)
            found, allowed = f"unknown key {key}", f"one of {', '.join(known)}"
            path, hint = (*path, key), f"did you mean {close}?" if close else ""
        origin = next(source.origins[path[:end]] for end in range(len(path), -1, -1) if path[:end] in source.origins)
        yield ConfigError(source.file, origin.line, dotted(path), found, allowed, hint)


def _contradictions(source: Source, found: Experiment) -> Iterator[ConfigError]:
    """What no schema can say."""

    def error(key: str, got: str, allowed: str, hint: str = "") -> ConfigError:
        origin = source.origins.get((key,))
        return ConfigError(source.file, origin.line if origin else 0, key, got, allowed, hint)

    counts = {lever: len(levels) for lever, levels in source.data.get("zip", {}).items()}
    if len(set(counts.values())) > 1:
        yield error("zip", ", ".join(f"{lever} with {count}" for lever, count in counts.items()), "equally many levels")
    names = [variant.name for variant in found.variants]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield error("variants", f"{name} twice", "a name for each variant; baseline is taken")
    if len(names) == 1:
        yield error("variants", "no variant", "one variant at least, in variants, one_at_a_time, matrix or zip")
    for variant in found.variants[1:]:
        if variant.own.empty:
            yield error(
                "variants", f"{variant.name}, which changes nothing", "a change in set, env, patches or inventory"
            )
    try:
        metric_named(found.metric)
    except BenchError as wrong:
        yield error("metric", found.metric, "a metric of which one way is better", str(wrong))


def _experiment(name: str, data: Mapping[str, Any]) -> Experiment:
    base = read_change(data["baseline"])
    listed = [
        (row["name"], {row["name"]: row["name"]}, read_change(row), row.get("about", "")) for row in data["variants"]
    ]
    formed = [*_one_at_a_time(data["one_at_a_time"]), *_matrix(data["matrix"]), *_zip(data["zip"])]
    rows = [*listed, *((one, levels, change, "") for one, levels, change in formed)]
    variants = [Variant(BASELINE, {}, base, Change())]
    variants += [Variant(one, levels, change.over(base), change, about) for one, levels, change, about in rows]
    rest = ("repeats", "order", "sweep", "metric", "worth_percent")
    return Experiment(name, data["about"], data.get("inventory", ""), tuple(variants), *(data[key] for key in rest))


Formed = tuple[str, dict[str, str], Change]


def _one_at_a_time(levers: Mapping[str, Any]) -> Iterator[Formed]:
    for lever, levels in levers.items():
        for level, row in levels.items():
            yield f"{lever}-{level}", {lever: level}, read_change(row)


def _matrix(levers: Mapping[str, Any]) -> Iterator[Formed]:
    """Every combination but the baseline itself; a level that changes nothing is the baseline's."""
    if levers:
        for rows in product(*(levels.items() for levels in levers.values())):
            found = _together(list(levers), list(rows))
            if found[1]:
                yield found


def _zip(levers: Mapping[str, Any]) -> Iterator[Formed]:
    if levers:
        for rows in zip(*(levels.items() for levels in levers.values()), strict=False):
            yield _together(list(levers), list(rows))


def _together(levers: list[str], rows: list[tuple[str, Any]]) -> Formed:
    levels, change = {}, Change()
    for lever, (level, row) in zip(levers, rows, strict=True):
        if not read_change(row).empty:
            levels[lever] = level
            change = read_change(row).over(change)
    return "_".join(f"{lever}-{level}" for lever, level in levels.items()), levels, change


def read_change(row: Mapping[str, Any]) -> Change:
    """A change as written. `worker` means every worker, whatever group_vars say of its role."""
    data: dict[str, Any] = {}
    for path, value in _leaves(row.get("set", {}), ()):
        roles = ROLES if path[0] == "worker" else (path[0],)
        data.update({".".join((role, *path[1:])): value for role in roles})
    for name, value in row.get("env", {}).items():
        data.update({f"{role}.env.{name}": value for role in ROLES})
    return Change(data, tuple(row.get("patches", ())), row.get("inventory", ""))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif path:
        yield path, value
