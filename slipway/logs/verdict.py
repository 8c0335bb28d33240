"""Whether a log is free of known-bad lines."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from slipway.knowledge.log_patterns import most_telling, passing

Found = Mapping[str, Any]


class Verdict(NamedTuple):
    """Whether the rung `logs` holds, and why. warning: it holds, and something in the log wants to be looked at."""

    ok: bool
    detail: str
    warning: bool = False


def verdict(found: Found, passing_s: float = math.inf, later: Container[str] = ()) -> Verdict:
    """Errors fail the rung, warnings warn, notes are told.

    found: the answer of slipway/agent/logs.py. passing_s: what is older than this, and is explained by a restart of the
    other side of a pair, is told only - unless it is in `later`, which was seen after both sides had found each other.
    """
    if found.get("error"):  # that says nothing of the server: a good release is not put back for a slow journal
        return Verdict(True, f"it could not be read: {found['error']}", warning=True)
    alarms = {name: match for name, match in found["matches"].items() if match["kind"] == "alarm"}
    errors = {
        name: match
        for name, match in alarms.items()
        if match["severity"] == "error" and (name in later or not _passed(name, match, passing_s))
    }
    if errors:
        return Verdict(False, _worst(errors))
    warnings = {name: match for name, match in alarms.items() if match["severity"] == "warning"}
    if warnings:
        return Verdict(True, _worst(warnings), warning=True)
    return Verdict(True, _clean(found, alarms))


def _clean(found: Found, alarms: Mapping[str, Any]) -> str:
    told = [f"{name} ({match['count']})" for name, match in alarms.items()]
    lines = f"{found['new']} line(s) read"
    beyond = f", {found['skipped'] / 1e6:.0f} MB before them were not" if found.get("skipped") else ""
    return f"{lines}{beyond}, none known-bad" + (f"; of note: {', '.join(told)}" if told else "")


def _passed(name: str, match: Mapping[str, Any], passing_s: float) -> bool:
    return passing(name) and (match["age_s"] or 0.0) >= passing_s


def passing_after(found: Iterable[Found], settle_s: float) -> float:
    """Seconds of age from which on trouble between the two sides of a pair belongs to their last restart.

    found: what was read of all instances. settle_s: how long they may take to find each other, once the newest is up.
    """
    newest = min((one["up_s"] for one in found if one.get("up_s") is not None), default=math.inf)
    return max(0.0, newest - settle_s)


def _worst(errors: Mapping[str, Any]) -> str:
    """The most telling one with its line and cure, and the names of the others."""
    telling = most_telling(errors)
    assert telling is not None
    match = errors[telling.id]
    times = f" ({match['count']} times)" if match["count"] > 1 else ""
    others = sorted(set(errors) - {telling.id})
    more = f". Also in it: {', '.join(others)}" if others else ""
    return f"{telling.id}{times}: {telling.hint}{more}. Line: {match['line']}"
