"""What results were measured on, and what differs between two besides the lever that was meant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slipway.plan.diff import diff_lines

Record = Mapping[str, Any]

# Facets beside the plan, by the key of provenance.json: what a reader calls them.
FACETS = {
    "deployment": "deployment",
    "release": "release",
    "simulated": "simulated engine",
    "checkpoint": "checkpoint",
    "builds": "builds",
    "patches": "patches",
    "router": "router",
    "gpus": "GPUs",
    "client": "client",
    "sweep": "sweep",
    "verified": "verified",
    "date": "date",
}
# Differences that are there between any two results, and say nothing about why figures differ.
_ALWAYS = {"date", "release", "verified"}


def facets(record: Record) -> dict[str, str]:
    """What was recorded beside the plan, in words, by FACETS' names."""
    return {name: _words(record[key]) for key, name in FACETS.items() if record.get(key) not in (None, [], {})}


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(_words(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def differences(one: Record, other: Record, lever: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Lines about what differs from `one` to `other`: those of the lever, and all besides.

    lever: names of flags, variables or facets that were meant to differ, such as moe_runner_backend, NCCL_PROTO,
    patches; those that the records name are added.
    """
    words = {_plain(word) for word in (*lever, *named_levers(one), *named_levers(other))}
    meant: list[str] = []
    besides: list[str] = []
    for subject, line in _lines(one, other):
        text = f"{subject}: {line}" if subject else line
        (meant if _of_lever(line, words) else besides).append(text)
    return meant, besides


def named_levers(record: Record) -> list[str]:
    """Keys that the experiment set for this variant; none for a sweep by hand."""
    return [str(word) for word in (record.get("experiment") or {}).get("levers", [])]


def _plain(word: str) -> str:
    return word.rpartition(".")[2].replace("-", "_").strip("_").lower()


def _of_lever(line: str, words: set[str]) -> bool:
    """Whether the flag, variable or facet that a line is about is one of the words."""
    parts = line.lstrip("~+- ").split()
    name = parts[1] if parts[:1] == ["env"] and len(parts) > 1 else (parts or [""])[0]
    return _plain(name.rstrip(":")) in words


def _lines(one: Record, other: Record) -> Iterator[tuple[str, str]]:
    """(subject, line) pairs: facets first, then host by host and instance by instance."""
    old, new = facets(one), facets(other)
    quiet = {FACETS[key] for key in _ALWAYS}
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name) and name not in quiet:
            yield "", f"{name}: {old.get(name, 'not recorded')} -> {new.get(name, 'not recorded')}"
    if not one.get("plan") or not other.get("plan"):
        yield "", "plan: not recorded on a side, so flags and environments cannot be compared"
        return
    subject = ""
    for line in diff_lines(one["plan"], other["plan"]):
        if line.startswith("    "):
            yield subject, line.strip()
        elif line.startswith("~"):
            subject = line[2:]
        else:
            yield "", line


def unlike(one: Record, other: Record) -> list[str]:
    """Why figures of the two are not of one kind: hardware, a simulated engine, another client."""
    found = []
    if bool(one.get("simulated")) != bool(other.get("simulated")):
        found.append("one is measured on the simulated engine, the other is not")
    for key in ("gpus", "client"):
        mine, theirs = _kind(one.get(key)), _kind(other.get(key))
        if mine != theirs:
            found.append(f"{FACETS[key]} differ: {_words(mine) or 'none'} and {_words(theirs) or 'none'}")
    return found


def _kind(value: Any) -> Any:
    """GPUs without host names and drivers, which may differ; a client by its kind alone."""
    if isinstance(value, list):
        rows = [{key: row.get(key) for key in ("name", "count")} for row in value if isinstance(row, Mapping)]
        return sorted(rows, key=str)
    return value.get("kind") if isinstance(value, Mapping) else value
