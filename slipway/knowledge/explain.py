"""Why a setting has its value: the rows of the tables that speak of it, for `slipway explain`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from slipway.knowledge.backend_rows import ChoiceRow, ConstraintRow, EnvironmentRow, VerdictRow, load_tables
from slipway.knowledge.backends import Choice, Request, Walk, resolve, walked

Table = Literal["choice", "verdict", "constraint", "known bad", "environment"]
_AnyRow = ChoiceRow | VerdictRow | ConstraintRow | EnvironmentRow


@dataclass(frozen=True, slots=True)
class Line:
    """One row in words. holds: its condition is true here; decides: it is the one that counts.

    With no request, holds and decides are None: the row is only listed. Of the choices, the first that holds decides,
    unless the user wrote a value: then the first verdict about that value does.
    """

    table: Table
    where: str
    when: str
    says: str
    source: str
    confidence: str
    holds: bool | None = None
    decides: bool | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A setting, what was chosen for a request (None without one), and every row about it."""

    name: str
    choice: Choice | None
    lines: tuple[Line, ...]

    @property
    def holding(self) -> tuple[Line, ...]:
        """The rows whose condition is true for the request."""
        return tuple(line for line in self.lines if line.holds)


def names() -> tuple[str, ...]:
    """List the settings and variables that can be explained."""
    tables = load_tables()
    return (*tables.order, *dict.fromkeys(row.name for row in tables.environment))


def explain(name: str, request: Request | None = None) -> Explanation:
    """Explain a setting; KeyError with the known names for one that no table speaks of."""
    plain = name.lstrip("-").replace("-", "_")
    plain = load_tables().aliases.get(plain, plain)
    if plain not in names():
        raise KeyError(f"no table speaks of {name!r}; they speak of {', '.join(names())}")
    if request is None:
        return Explanation(plain, None, _listed(plain, None, None))
    choice = next((item for item in resolve(request) if item.name == plain), None)
    return Explanation(plain, choice, _listed(plain, walked(request), choice))


def _listed(name: str, walk: Walk | None, choice: Choice | None) -> tuple[Line, ...]:
    """Put every row about a setting into words."""
    tables = load_tables()
    explicit = choice is not None and choice.how == "explicit"
    lines = _lines("choice", tables.choices.get(name, ()), walk, None if explicit else "first")
    spoken = [row for row in tables.verdicts.get(name, ()) if not explicit or row.speaks_of(choice and choice.value)]
    lines += _lines("verdict", spoken, walk, "first" if explicit else None)
    lines += _lines("constraint", [row for row in tables.constraints if row.setting == name], walk, "all")
    lines += _lines("known bad", [row for row in tables.known_bad if row.setting == name], walk, "all")
    return (*lines, *_lines("environment", [row for row in tables.environment if row.name == name], walk, "all"))


def _lines(table: Table, rows: Iterable[_AnyRow], walk: Walk | None, counts: str | None) -> list[Line]:
    """Put the rows of one table into words. counts: of the rows that hold, the first decides, all do, or none."""
    found: list[Line] = []
    for row in rows:
        holds = None if walk is None else walk.holds(row.when)
        first = not any(line.decides for line in found)
        decides = None if holds is None else holds and (counts == "all" or (counts == "first" and first))
        says = _says(row) if walk is None else walk.say(_says(row))
        found.append(Line(table, row.where, str(row.when), says, row.source, row.confidence, holds, decides))
    return found


def _says(row: _AnyRow) -> str:
    """Say what a row says."""
    if isinstance(row, ChoiceRow):
        passed = f", Slipway passes {row.value}" if row.value else ""
        return f"the engine takes {row.auto}{passed}: {row.reason}"
    if isinstance(row, VerdictRow):
        return f"{', '.join(sorted(row.values))}: {row.verdict}, {row.reason}"
    if isinstance(row, EnvironmentRow):
        return f"{row.name}={row.value}: {row.reason}"
    return f"{row.remark.severity}: {row.remark.message} (fix: {row.remark.fix})"
