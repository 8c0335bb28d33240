"""What lines of a log mean: rows of log_patterns.yml, and the most telling of those that matched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .tables import TableError, check_keys, rows

FILE = "log_patterns.yml"
KINDS = ("routine", "harmless", "progress", "throughput", "alarm")
SEVERITIES = ("error", "warning", "note")
_SHARED = frozenset({"id", "pattern", "meaning", "cure", "source", "confidence"})
_KEYS = {"patterns": _SHARED | {"kind", "severity", "block", "fatal", "peer"}, "stalls": _SHARED}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row. severity: of an alarm; '' for other kinds. block: what follows without a time stamp belongs to it.

    fatal: a start that shows it will not succeed by being tried again. peer: also printed while the other side of a
    pair is being restarted.
    """

    id: str
    kind: str
    pattern: str
    meaning: str
    cure: str
    source: str
    confidence: str
    severity: str = ""
    block: bool = False
    fatal: bool = False
    peer: bool = False

    @property
    def hint(self) -> str:
        """Meaning and cure in one line."""
        return f"{self.meaning}. {self.cure[:1].upper()}{self.cure[1:]}" if self.cure else self.meaning


@cache
def patterns() -> tuple[Pattern, ...]:
    """All patterns, the more telling first. Raises TableError."""
    return tuple(_pattern("patterns", row) for row in rows(FILE, "patterns"))


@cache
def stalls() -> tuple[Pattern, ...]:
    """What a start does that stands still after a line. Raises TableError."""
    return tuple(_pattern("stalls", row) for row in rows(FILE, "stalls"))


def _pattern(section: str, row: Mapping[str, Any]) -> Pattern:
    where = f"{section} {row.get('id')}"
    check_keys(FILE, where, row, _KEYS[section])
    found = Pattern(**{"kind": "stall", "cure": "", **row})
    if section == "patterns" and found.kind not in KINDS:
        raise TableError(FILE, where, f"kind is {found.kind!r}; must be one of {', '.join(KINDS)}")
    if (found.kind == "alarm") != (found.severity in SEVERITIES):
        raise TableError(FILE, where, f"severity is {found.severity!r}; an alarm's is one of {', '.join(SEVERITIES)}")
    if found.kind == "alarm" and not found.cure:
        raise TableError(FILE, where, "an alarm needs a cure")
    try:
        groups = re.compile(found.pattern).groups
    except re.error as error:
        raise TableError(FILE, where, f"no regular expression: {error}") from None
    if groups != (found.kind == "throughput"):
        raise TableError(FILE, where, f"has {groups} group(s); only throughput has one, its number")
    return found


@cache
def matchers() -> tuple[dict[str, Any], ...]:
    """The patterns as the reader on a host takes them (slipway/agent/logs.py)."""
    return tuple(
        {"id": one.id, "kind": one.kind, "severity": one.severity, "pattern": one.pattern, "block": one.block}
        for one in patterns()
    )


def passing(name: str) -> bool:
    """Whether a pattern is also seen while the other side of a pair is being restarted."""
    return any(one.peer for one in patterns() if one.id == name)


def most_telling(ids: Iterable[str]) -> Pattern | None:
    """Of the patterns that matched, the one that says most about the cause: what ends a start, then by severity."""
    seen = set(ids)
    found = [one for one in patterns() if one.id in seen and one.kind == "alarm"]
    return min(found, key=lambda one: (not one.fatal, SEVERITIES.index(one.severity)), default=None)


def standstill(line: str) -> Pattern | None:
    """What a start is busy with whose last line is this one."""
    return next((one for one in stalls() if re.search(one.pattern, line)), None)
