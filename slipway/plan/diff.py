"""What differs between two recorded plans: by instance, flag by flag. Plain data in, lines out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Record = Mapping[str, Any]


def diff_lines(before: Record, after: Record) -> list[str]:
    """Lines for hosts and instances that came, went or changed; none when nothing differs.

    before, after: plans as `to_json` gives them, such as a release's plan.json.
    """
    return [
        *_named("host", before["hosts"], after["hosts"], _host_facets),
        *_named("instance", before["instances"], after["instances"], _instance_facets),
    ]


def _named(
    what: str, before: list[Record], after: list[Record], facets: Callable[[Record], dict[str, str]]
) -> Iterator[str]:
    old, new = ({row["name"]: facets(row) for row in rows} for rows in (before, after))
    for name in dict.fromkeys([*old, *new]):
        if name not in new or name not in old:
            yield f"{'-' if name in old else '+'} {what} {name}"
            continue
        changes = list(_changes(old[name], new[name]))
        yield from [f"~ {what} {name}", *(f"    {line}" for line in changes)] if changes else []


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in dict.fromkeys([*old, *new]):
        if key not in new:
            yield f"- {key} {old[key]}".rstrip()
        elif key not in old:
            yield f"+ {key} {new[key]}".rstrip()
        elif old[key] != new[key]:
            yield f"~ {key} {old[key] or '(bare)'} -> {new[key] or '(bare)'}"


def _host_facets(host: Record) -> dict[str, str]:
    facets = {key: str(host.get(key)) for key in ("address", "manager", "user", "python")}
    facets["root"] = str(host["paths"]["root"])
    builds = [build["id"] for build in host["builds"]]
    facets.update({f"build {name.partition('-')[0]}": name for name in builds})
    checkpoint = host.get("checkpoint")
    return {**facets, "checkpoint": str(checkpoint["path"])} if checkpoint else facets


def _instance_facets(instance: Record) -> dict[str, str]:
    build = str(instance["build"])
    facets = {"host": str(instance["host"]), "gpus": ",".join(map(str, instance["gpus"])) or "none", "build": build}
    program, flags = _flags(instance["argv"])
    env = {f"env {key}": str(value) for key, value in sorted(instance["env"].items())}
    paths = {"program": program, **flags, **env}  # the build's name stands in many of them; it is told once
    return {**facets, **{key: value.replace(build, "BUILD") if build else value for key, value in paths.items()}}


def _flags(argv: list[str]) -> tuple[str, dict[str, str]]:
    """The words before the first flag, and each flag with its values; a repeated flag keeps all of them."""
    program: list[str] = []
    flags: dict[str, str] = {}
    current = ""
    for word in argv:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            current = name if equals else word
            flags[current] = f"{flags[current]} {value}".strip() if current in flags else value
        elif current:
            flags[current] = f"{flags[current]} {word}".strip()
        else:
            program.append(word)
    return " ".join(program), flags
