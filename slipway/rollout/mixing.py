"""Whether workers of two releases may serve beside one another: a router sends one request to a prefill of the one and
a decode of the other."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

Record = Mapping[str, Any]
PAIR = ("prefill", "decode")
OF_THE_HOST = ("release", "checkpoint", "reach")


@cache
def _table() -> dict[str, Any]:
    text = resources.files("slipway.rollout").joinpath("mixing.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def apart(before: Record, after: Record) -> tuple[str, ...]:
    """Why workers of the one plan must not meet those of the other; () when they may.

    before, after: plans as `to_json` gives them, such as a release's plan.json.
    """
    found: dict[str, None] = {}
    for first, second in ((before, after), (after, before)):
        for reason in _differences(_facets(first, "prefill"), _facets(second, "decode")):
            found[reason] = None
    return tuple(found)


def _differences(prefill: Mapping[str, set[str]], decode: Mapping[str, set[str]]) -> Iterator[str]:
    whole = {name: _table()[name] for name in OF_THE_HOST}
    rules = {**_table()["settings"], **_table()["environment"], **whole}
    for name, rule in rules.items():
        ones, others = prefill.get(name, set()), decode.get(name, set())
        if ones and others and ones != others:
            yield f"{name} {' or '.join(sorted(ones | others))} ({rule})"


def _facets(plan: Record, role: str) -> dict[str, set[str]]:
    """What each worker of a role has of everything that counts, '' for what is left to the engine."""
    releases = {name: row["release"] for row in plan.get("decisions", ()) for name in row["instances"]}
    checkpoints = {host["name"]: (host.get("checkpoint") or {}).get("path", "") for host in plan["hosts"]}
    reaches = {host["name"]: _reach(host.get("address", "")) for host in plan["hosts"]}
    found: dict[str, set[str]] = {}
    for one in plan["instances"]:
        if one["role"] != role:
            continue
        values = {name: one["settings"].get(name) for name in _table()["settings"]}
        values.update({name: one["env"].get(name) for name in _table()["environment"]})
        values.update(release=releases.get(one["leader"]), checkpoint=checkpoints.get(one["host"]))
        values.update(reach=reaches.get(one["host"]))
        for name, value in values.items():
            if name in OF_THE_HOST and not value:
                continue  # a plan that is read back from a release does not tell
            found.setdefault(name, set()).add("unset" if value is None else str(value))
    return found


def _reach(address: str) -> str:
    """From where a worker that listens there is reached; '' when a record does not tell. Names are the network's."""
    try:
        return "loopback" if ipaddress.ip_address(address).is_loopback else "network"
    except ValueError:
        return "network" if address else ""
