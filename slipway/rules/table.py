"""Rules that are rows: a comparison of facts that data can express, read from the *.yml beside this file.

A row: id, severity, title, message, fix, source, confidence, and
    over       workers (default) or pairs (every prefill with every decode)
    roles      workers: only those
    span       releases it holds for, such as '..0.5.19'
    when       tests that must surely hold for the row to speak
    and one of
    equal      pairs: a fact that must be the same on both sides
    require    tests of which none may surely fail
    forbid     tests that must not all hold
Tests are explained in conditions.py, facts in facts.py. {NAME} in message and fix is that fact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any, cast

from slipway.finding import Severity
from slipway.knowledge.tables import CONFIDENCES, parse_yaml
from slipway.knowledge.versions import Span

from .conditions import OPERATORS, broken, holds, in_words, names
from .facts import Pair, Whole, Worker, is_known, of_worker, shown
from .model import Hit, Rule
from .registry import together

NOT_RULES = ("others.yml", "constants.yml")
_KEYS = frozenset(
    {"id", "severity", "title", "message", "fix", "source", "confidence", "over", "roles", "span", "when"}
    | {"equal", "require", "forbid"}
)
_TEXTS = ("id", "title", "message", "fix", "source")
_BRACES = re.compile(r"\{([A-Za-z0-9_.-]+)\}")


class RuleError(ValueError):
    """A row of a rules file is malformed: names the file, the row and what is wrong."""


@dataclass(frozen=True)
class Row:
    """One row, parsed. pairs: whether it is about pairs; asked: every fact that its answer depends on."""

    pairs: bool
    roles: tuple[str, ...]
    span: Span
    when: Mapping[str, Any]
    require: Mapping[str, Any]
    forbid: Mapping[str, Any]
    message: str
    fix: str
    asked: tuple[str, ...]

    def speaks(self, look: Callable[[str], Any]) -> bool:
        """Whether the row finds its fault among these facts."""
        if holds(self.when, look) is not True:
            return False
        if self.require:
            return broken(self.require, look)
        return holds(self.forbid, look) is True

    def hit(self, subject: str, look: Callable[[str], Any]) -> Hit:
        """The fault in words."""
        return Hit(subject, fill(self.message, look), fill(self.fix, look))


def fill(text: str, look: Callable[[str], Any]) -> str:
    """Put facts into the braces of a text."""
    return _BRACES.sub(lambda match: shown(look(match[1])), text)


@cache
def rows() -> tuple[Rule, ...]:
    """Every rule of the tables, in the order of files and rows."""
    folder = resources.files("slipway.rules")
    files = sorted(item.name for item in folder.iterdir() if item.name.endswith(".yml") and item.name not in NOT_RULES)
    return tuple(
        read_row(f"{file}[{index}]", raw)
        for file in files
        for index, raw in enumerate(parse_yaml(file, folder.joinpath(file).read_text(encoding="utf-8"))["rules"])
    )


def read_row(where: str, raw: Any) -> Rule:
    """One rule from its row."""
    _check_shape(where, raw)
    row = _parse(where, raw)
    find = _over_pairs if row.pairs else _over_workers
    return Rule(
        id=raw["id"],
        severity=cast(Severity, raw["severity"]),
        title=raw["title"],
        checks=_checks(raw),
        fix=_BRACES.sub(r"\1", raw["fix"]),
        source=raw["source"],
        confidence=raw["confidence"],
        find=partial(find, row),
    )


def _check_shape(where: str, raw: Any) -> None:
    if not isinstance(raw, dict):
        raise RuleError(f"slipway/rules/{where}: is {type(raw).__name__}; must be a mapping")
    wrong = sorted(set(raw) - _KEYS) or [key for key in _TEXTS if not raw.get(key)]
    if wrong:
        raise RuleError(f"slipway/rules/{where}: {wrong[0]!r} is unknown or empty; keys: {', '.join(sorted(_KEYS))}")
    if raw.get("severity") not in ("error", "warning", "note") or raw.get("confidence") not in CONFIDENCES:
        raise RuleError(f"slipway/rules/{where}: severity or confidence is none of the words for it")
    if sum(key in raw for key in ("equal", "require", "forbid")) != 1:
        raise RuleError(f"slipway/rules/{where}: needs one of equal, require, forbid")


def _parse(where: str, raw: Mapping[str, Any]) -> Row:
    pairs = raw.get("over") == "pairs"
    require = raw.get("require", {})
    forbid = {f"same.{raw['equal']}": False} if "equal" in raw else raw.get("forbid", {})
    when = raw.get("when", {})
    texts = [*_BRACES.findall(raw["message"]), *_BRACES.findall(raw["fix"])]
    asked = tuple(dict.fromkeys([*names(when), *names(require), *names(forbid), *texts]))
    for name in asked:
        if not is_known(name, pairs):
            raise RuleError(f"slipway/rules/{where}: asks about {name!r}, which facts.py does not know")
    for test in [*when.values(), *require.values(), *forbid.values()]:
        if isinstance(test, Mapping) and not set(test) <= OPERATORS:
            raise RuleError(f"slipway/rules/{where}: a test has {sorted(set(test) - OPERATORS)}")
    roles, span = tuple(raw.get("roles", ())), Span.parse(str(raw.get("span", "all")))
    return Row(pairs, roles, span, when, require, forbid, raw["message"], raw["fix"], asked)


def _checks(raw: Mapping[str, Any]) -> str:
    """What a row looks at, in words made from the row itself, so that the page cannot differ from it."""
    who = "every prefill with every decode" if raw.get("over") == "pairs" else _whom(raw.get("roles", ()))
    parts = [f"`{name}` {in_words(test)}" for name, test in raw.get("when", {}).items()]
    where = (f", where {' and '.join(parts)}" if parts else "") + _released(str(raw.get("span", "all")))
    if "equal" in raw:
        return f"{who}{where}: `{raw['equal']}` must be equal"
    tests = raw.get("require") or raw["forbid"]
    said = " and ".join(f"`{name}` {in_words(test)}" for name, test in tests.items())
    return f"{who}{where}: must hold: {said}" if "require" in raw else f"{who}{where}: must not be: {said}"


def _whom(roles: Sequence[str]) -> str:
    return f"every {' and '.join(roles)} worker" if roles else "every worker"


def _released(span: str) -> str:
    return "" if span == "all" else f" (SGLang {Span.parse(span)})"


def _over_workers(row: Row, whole: Whole) -> Iterator[Hit]:
    """Workers of which the row asks the same are one finding."""
    for group in _alike(whole.kinds(*row.roles), row.asked, row.span):
        first = group[0]
        if row.speaks(first.get):
            yield row.hit(together([worker.name for worker in group]), first.get)


def _over_pairs(row: Row, whole: Whole) -> Iterator[Hit]:
    """Pairs likewise: each sort of prefill with each sort of decode."""
    sides = [_alike(whole.kinds(role), _asked_of(row, role), row.span) for role in ("prefill", "decode")]
    for prefills in sides[0]:
        for decodes in sides[1]:
            pair = Pair(prefills[0], decodes[0])
            if row.speaks(pair.get):
                named = [together([worker.name for worker in group]) for group in (prefills, decodes)]
                yield row.hit(" with ".join(named), pair.get)


def _asked_of(row: Row, role: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for asked in row.asked for name in of_worker(asked, role)))


def _alike(kinds: Sequence[Sequence[Worker]], asked: Sequence[str], span: Span) -> list[list[Worker]]:
    """Workers in groups of which every asked fact is the same; those of other releases are left out."""
    groups: dict[tuple[str, ...], list[Worker]] = {}
    for kind in kinds:
        if span.holds(kind[0].version):
            groups.setdefault(tuple(repr(kind[0].get(name)) for name in asked), []).extend(kind)
    return list(groups.values())
