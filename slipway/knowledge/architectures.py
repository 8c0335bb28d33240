"""GPU architectures: their names, what counts as what, and which one a compute capability is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from slipway.knowledge import tables

_FILE = "architectures.yml"
_KEYS = frozenset({"name", "capabilities", "same_as", "examples", "note", "confidence", "source"})


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture; `same_as` names the one whose rows hold for it too."""

    name: str
    capabilities: tuple[str, ...]
    same_as: str | None
    examples: tuple[str, ...]
    note: str
    source: str
    confidence: str

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which rows hold, its own first."""
        return (self.name, self.same_as) if self.same_as else (self.name,)


def get(name: str) -> Architecture | None:
    """Return an architecture by name ('sm_120', 'sm120', 'SM_120'), or None."""
    plain = name.strip().lower().replace("_", "")
    return next((item for item in known() if item.name.replace("_", "") == plain), None)


def of_capability(capability: str) -> Architecture | None:
    """Return the architecture of a compute capability ('12.0'), or None for one that no table knows."""
    return next((item for item in known() if capability.strip() in item.capabilities), None)


@cache
def known() -> tuple[Architecture, ...]:
    """Read every architecture."""
    return tuple(_read(row) for row in tables.rows(_FILE, "architectures"))


def _read(row: dict[str, object]) -> Architecture:
    """Read one row."""
    tables.check_keys(_FILE, str(row.get("name")), row, _KEYS)
    capabilities, examples = row["capabilities"], row["examples"]
    if not isinstance(capabilities, list) or not isinstance(examples, list):
        raise tables.TableError(_FILE, row["name"], "capabilities and examples must be lists")
    return Architecture(
        name=str(row["name"]),
        capabilities=tuple(str(item) for item in capabilities),
        same_as=str(row["same_as"]) if row.get("same_as") else None,
        examples=tuple(str(item) for item in examples),
        note=str(row["note"]),
        source=str(row["source"]),
        confidence=str(row["confidence"]),
    )
