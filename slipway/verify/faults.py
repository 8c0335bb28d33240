"""The table of faults with what catches each; docs/reference/faults.md is made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

TEST = "tests/slipway/agent/verify/test_faults.py::test_caught"
ELSEWHERE = ("start-up", "stop", "logs", "")  # not rungs of the agent


@dataclass(frozen=True)
class Caught:
    """One row of faults.yml. rung '': nothing catches it, and `why` says why that is right."""

    fault: str
    rung: str
    worker: str
    value: str = ""
    ask: Mapping[str, Any] = field(default_factory=dict)
    test: str = ""
    why: str = ""

    @property
    def seen_by(self) -> str:
        """The test that sees it caught, as pytest names it."""
        return self.test or f"{TEST}[{self.fault}]"

    @property
    def by_agent(self) -> bool:
        """Whether the agent alone catches it."""
        return self.rung not in ELSEWHERE


@cache
def caught() -> tuple[Caught, ...]:
    """Every row."""
    return tuple(Caught(**row) for row in _table()["faults"])


@dataclass(frozen=True)
class Wired:
    """A fault of how things are put together, with engines that are well."""

    fault: str
    source: str
    rung: str
    test: str


@cache
def wired() -> tuple[Wired, ...]:
    """Every row of faults.yml that no engine shows by itself."""
    return tuple(Wired(**row) for row in _table()["wired"])


def _table() -> Any:
    return yaml.safe_load(resources.files("slipway.verify").joinpath("faults.yml").read_text(encoding="utf-8"))
