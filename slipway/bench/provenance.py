"""What results were measured on, and what differs between two besides the lever that was meant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Record = Mapping[str, Any]

# Facets that a table shows: key path in provenance.json -> what a reader calls it.
FACETS = {
    "deployment": "deployment",
    "simulated": "simulated engine",
    "engine": "engine",
    "patches": "patches",
    "checkpoint": "checkpoint",
    "gpus": "GPUs",
    "hosts": "hosts",
    "topology": "instances",
    "router": "router",
    "client": "client",
    "slipway": "Slipway",
    "runs": "runs",
}
# Keys that differ between any two results, or that stand for others, and say nothing about why figures differ.
_QUIET = {"label", "plan", "runs", "format", "deployment", "experiment", "release"}
# What follows from a lever, by the first word of its key path in group_vars.
_FOLLOWS = {
    "engine": ("engine", "builds", "patches"),
    "model": ("checkpoint", "settings"),
    "router": ("router",),
    "inventory": ("topology", "gpus", "hosts", "settings", "environment", "router", "roofline"),
}


def facets(record: Record) -> dict[str, str]:
    """What was recorded, in words, by FACETS' names."""
    known = {name: record.get(key) for key, name in FACETS.items()}
    checkpoint = record.get("checkpoint") or {}
    known["checkpoint"] = {
        key: checkpoint[key] for key in ("name", "revision") if key in checkpoint
    }  # not where it lies
    known |= {"GPUs": _gpus(record), "instances": _instances(record), "runs": _runs(record)}
    return {name: _words(value) for name, value in known.items() if value not in (None, [], {}, "")}


def _gpus(record: Record) -> str:
    counts = record.get("gpus") or {}
    return f"{counts['all']} ({counts['prefill']} prefill, {counts['decode']} decode)" if counts.get("all") else "none"


def _instances(record: Record) -> str:
    rows = [row for rows in (record.get("topology") or {}).values() for row in rows]
    gpus = [f" (GPU {', '.join(map(str, row['gpus']))})" if row.get("gpus") else "" for row in rows]
    return ", ".join(f"{row['instance']} on {row['host']}{used}" for row, used in zip(rows, gpus, strict=True))


def _runs(record: Record) -> str:
    runs = record.get("runs") or []
    releases = list(dict.fromkeys(str(run["release"]) for run in runs if run.get("release")))
    times = [run[key] for run in runs for key in ("started", "ended") if run.get(key)]
    span = f", from {min(times)} to {max(times)}" if times else ""
    proven = ", each verified before" if runs and all(run.get("verified") for run in runs) else ""
    of = f" of release {', '.join(releases)}" if releases else ""
    return f"{len(runs)}{of}{span}{proven}" if runs else ""


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items() if item not in (None, "", [], {}))
    if isinstance(value, list):
        return "; ".join(_words(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def date(record: Record) -> str:
    """When its last run ended; '' where that is not recorded."""
    runs = record.get("runs") or [{}]
    return str(runs[-1].get("ended") or runs[-1].get("started") or "")


def differences(one: Record, other: Record, lever: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Lines about what differs from `one` to `other`: those of the lever, and all besides.

    lever: names of flags, variables or facets that were meant to differ, such as moe_runner_backend, NCCL_PROTO,
    patches, engine; those that an experiment recorded are added.
    """
    levers = [*lever, *named_levers(one), *named_levers(other)]
    meant: list[str] = []
    besides: list[str] = []
    for (key, change), places in _changes(one, other).items():
        line = f"{key} ({', '.join(places)}): {change}" if places != [""] else f"{key}: {change}"
        (meant if any(_is_of(lever, key) for lever in levers) else besides).append(line)
    return meant, besides


def named_levers(record: Record) -> list[str]:
    """Keys that the experiment set for this variant; none for a sweep by hand."""
    return [str(word) for word in (record.get("experiment") or {}).get("levers", [])]


def _is_of(lever: str, key: str) -> bool:
    """Whether a difference is the lever's own or follows from it."""
    first, name = lever.partition(".")[0], _plain(lever.rpartition(".")[2])
    return _plain(key.rpartition(".")[2]) == name or key.partition(".")[0] in _FOLLOWS.get(first, (lever,))


def _plain(word: str) -> str:
    return word.replace("-", "_").strip("_").lower()


def _changes(one: Record, other: Record) -> dict[tuple[str, str], list[str]]:
    """(key, 'old -> new') -> roles or instances that it holds for; the same change in several places is one line."""
    old, new = dict(_flat(one)), dict(_flat(other))
    found: dict[tuple[str, str], list[str]] = {}
    for place in dict.fromkeys([*old, *new]):
        if old.get(place) != new.get(place):
            change = f"{old.get(place, 'not there')} -> {new.get(place, 'not there')}"
            found.setdefault((place[0], change), []).append(place[1])
    return found


def _flat(record: Record) -> Iterator[tuple[tuple[str, str], str]]:
    """((key, place), text): settings by role and environments by instance have their place beside the key."""
    for key, value in record.items():
        if key in _QUIET:
            continue
        if key in ("settings", "environment", "hosts", "roofline") and isinstance(value, Mapping):
            for place, inner in value.items():
                yield from (((f"{key}.{name}", place), _words(item)) for name, item in (inner or {}).items())
        elif isinstance(value, Mapping) and key != "builds":
            yield from (((f"{key}.{name}", ""), _words(item)) for name, item in value.items())
        else:
            text = ", ".join(value) if key == "builds" and isinstance(value, Mapping) else _words(value)
            yield (key, ""), text


def unlike(one: Record, other: Record) -> list[str]:
    """Why figures of the two are not of one kind: hardware, a simulated engine, another client."""
    found = []
    if bool(one.get("simulated")) != bool(other.get("simulated")):
        found.append("one is measured on the simulated engine, the other is not")
    for name, kind in (("GPUs", _gpu_kind), ("clients", _client_kind)):
        mine, theirs = kind(one), kind(other)
        if mine != theirs:
            found.append(f"{name} differ: {mine or 'none'} and {theirs or 'none'}")
    return found


def _gpu_kind(record: Record) -> str:
    """GPUs by number and kind; which hosts, drivers and roles they have may differ."""
    counts, hosts = record.get("gpus") or {}, record.get("hosts") or {}
    kinds = sorted({str(host.get("hardware") or "") for host in hosts.values()})
    return f"{counts.get('all', 0)} of {' and '.join(kinds)}" if counts.get("all") else ""


def _client_kind(record: Record) -> str:
    client = record.get("client") or {}
    return " ".join(str(client[key]) for key in ("name", "api") if client.get(key))
