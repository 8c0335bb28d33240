"""Release numbers of an engine: parse, compare (post, dev and pre-releases included), half-open ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, total_ordering

_PATTERN = re.compile(
    r"v?(?P<numbers>\d{1,9}(?:\.\d{1,9}){0,5})(?:\.?(?P<phase>a|b|rc|post|dev)(?P<count>\d{0,9}))?(?:\+[\w.]{1,80})?",
    re.IGNORECASE | re.ASCII,
)
_PHASES = {"dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, "post": 1}


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A release number as PEP 440 orders it; enough of it for what engines publish."""

    text: str
    key: tuple[tuple[int, ...], int, int]

    @classmethod
    def parse(cls, text: object) -> Version | None:
        """Read '0.5.13', 'v0.5.13.post1' or '0.6.0rc2'; None for anything else (a commit, a branch)."""
        match = _PATTERN.fullmatch(str(text).strip())
        if match is None:
            return None
        numbers = tuple(int(part) for part in match["numbers"].split("."))
        phase = (match["phase"] or "").lower()
        while numbers and numbers[-1] == 0:
            numbers = numbers[:-1]
        return cls(str(text).strip().removeprefix("v"), (numbers, _PHASES[phase], int(match["count"] or 0)))

    def __lt__(self, other: Version) -> bool:
        """Order by number, then dev < pre-release < release < post."""
        return self.key < other.key

    def __eq__(self, other: object) -> bool:
        """Compare by meaning: 0.6 equals 0.6.0."""
        return isinstance(other, Version) and self.key == other.key

    def __hash__(self) -> int:
        """Hash what equality compares."""
        return hash(self.key)

    def __str__(self) -> str:
        """Print as it was written."""
        return self.text


@cache
def version(text: str) -> Version:
    """Parse a number that must be right (from a table of ours)."""
    found = Version.parse(text)
    if found is None:
        raise ValueError(f"{text!r} is not a release number")
    return found


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of releases: since <= v < until; either end may be open."""

    since: Version | None = None
    until: Version | None = None

    @classmethod
    def parse(cls, text: str) -> Span:
        """Read 'all', '0.5.14+', '..0.5.21' or '0.5.14..0.5.21'."""
        if text == "all":
            return cls()
        if text.endswith("+"):
            return cls(since=version(text[:-1]))
        since, dots, until = text.partition("..")
        if not dots:
            raise ValueError(f"{text!r} is not a range; write 'all', 'A+', '..B' or 'A..B'")
        return cls(version(since) if since else None, version(until) if until else None)

    def holds(self, release: Version) -> bool:
        """Tell whether a release lies inside."""
        return (self.since is None or self.since <= release) and (self.until is None or release < self.until)

    def __str__(self) -> str:
        """Say it in words."""
        if self.since and self.until:
            return f"{self.since} up to, not including, {self.until}"
        if self.since:
            return f"since {self.since}"
        return f"before {self.until}" if self.until else "every release"
