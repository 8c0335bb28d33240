"""The rows of backends.yml and known_bad.yml as typed values; a malformed row is named by file and row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

from slipway.knowledge import tables
from slipway.knowledge.conditions import When
from slipway.knowledge.problems import Severity

BACKENDS = "backends.yml"
KNOWN_BAD = "known_bad.yml"
Judgement = Literal["allowed", "forbidden", "wrong", "unverified"]
_SEVERITIES = ("error", "warning", "note")
_JUDGEMENTS = ("allowed", "forbidden", "wrong", "unverified")
_COMMON = frozenset({"when", "source", "confidence"})


@dataclass(frozen=True, slots=True)
class Remark:
    """What a row has to say when it holds: a problem whose texts may name facts in braces."""

    severity: Severity
    kind: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class ClassRow:
    """Names what a checkpoint or an attention is to the other rows."""

    name: str
    when: When
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """What the engine does by itself (`auto`) and what Slipway passes (`value`, None = nothing)."""

    where: str
    when: When
    auto: str
    value: str | None
    reason: str
    remark: Remark | None
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What is known of values that a user may write."""

    where: str
    values: frozenset[str]
    when: When
    verdict: Judgement
    reason: str
    fix: str
    source: str
    confidence: str

    def speaks_of(self, value: object) -> bool:
        """Tell whether the row is about a value; '*' is about every value."""
        return str(value) in self.values or "*" in self.values


@dataclass(frozen=True, slots=True)
class ConstraintRow:
    """A combination that fails, or that people reported broken; `id` is empty for constraints."""

    where: str
    setting: str
    when: When
    remark: Remark
    source: str
    confidence: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """A variable that a combination needs."""

    where: str
    name: str
    value: str
    when: When
    reason: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Tables:
    """Every row, parsed once."""

    order: tuple[str, ...]
    aliases: Mapping[str, str]
    driver_marks: tuple[int, ...]
    quantization_classes: tuple[ClassRow, ...]
    attention_classes: tuple[ClassRow, ...]
    choices: Mapping[str, tuple[ChoiceRow, ...]]
    verdicts: Mapping[str, tuple[VerdictRow, ...]]
    constraints: tuple[ConstraintRow, ...]
    environment: tuple[EnvironmentRow, ...]
    known_bad: tuple[ConstraintRow, ...]


@cache
def load_tables() -> Tables:
    """Parse backends.yml and known_bad.yml."""
    raw = tables.load(BACKENDS)
    order = tuple(str(name) for name in raw["order"])
    classes = raw["classes"]
    return Tables(
        order=order,
        aliases={str(key): str(value) for key, value in raw["aliases"].items()},
        driver_marks=tuple(int(mark) for mark in raw["driver_marks"]),
        quantization_classes=_classes("quantization", classes["quantization"]),
        attention_classes=_classes("attention", classes["attention"]),
        choices={name: _choices(name, rows) for name, rows in _sections(raw, "choices", order)},
        verdicts={name: _verdicts(name, rows) for name, rows in _sections(raw, "verdicts", order)},
        constraints=_constraints(BACKENDS, raw["constraints"], order),
        environment=_environment(raw["environment"]),
        known_bad=_constraints(KNOWN_BAD, tables.load(KNOWN_BAD)["known_bad"], order),
    )


def _sections(raw: Mapping[str, Any], name: str, order: tuple[str, ...]) -> list[tuple[str, list[Any]]]:
    """List the per-setting rows of a section; a setting that `order` lacks would never be read."""
    for setting in raw[name]:
        if setting not in order:
            raise tables.TableError(BACKENDS, f"{name}.{setting}", "is not in `order`")
    return list(raw[name].items())


def _open(file: str, where: str, row: Any, *keys: str) -> When:
    """Check a row's shape and return its condition."""
    tables.check_row(file, where, row)
    tables.check_keys(file, where, row, _COMMON | frozenset(keys))
    return When.parse(file, where, row.get("when"))


def _need(file: str, where: str, row: Mapping[str, Any], key: str) -> str:
    """Return a text that a row must have."""
    if row.get(key) is None:
        raise tables.TableError(file, where, f"has no {key}")
    return str(row[key])


def _remark(file: str, where: str, row: Mapping[str, Any], message: str, kind: str) -> Remark:
    """Read the remark of a row; every remark says what to do."""
    severity = row.get("severity")
    if severity not in _SEVERITIES:
        raise tables.TableError(file, where, f"severity is {severity!r}; must be one of {', '.join(_SEVERITIES)}")
    return Remark(cast(Severity, severity), kind, message, _need(file, where, row, "fix"))


def _classes(name: str, rows: list[Any]) -> tuple[ClassRow, ...]:
    """Read the rows that name classes."""
    found = []
    for index, row in enumerate(rows):
        where = f"classes.{name}[{index}]"
        when = _open(BACKENDS, where, row, "name")
        found.append(ClassRow(_need(BACKENDS, where, row, "name"), when, row["source"], row["confidence"]))
    return tuple(found)


def _choices(name: str, rows: list[Any]) -> tuple[ChoiceRow, ...]:
    """Read the choice rows of one setting."""
    found = []
    for index, row in enumerate(rows):
        where = f"choices.{name}[{index}]"
        when = _open(BACKENDS, where, row, "auto", "value", "reason", "severity", "kind", "message", "fix")
        value = row.get("value")
        found.append(
            ChoiceRow(
                where=where,
                when=when,
                auto=_need(BACKENDS, where, row, "auto"),
                value=None if value is None else str(value),
                reason=_need(BACKENDS, where, row, "reason"),
                remark=_remark(BACKENDS, where, row, row["message"], row["kind"]) if "message" in row else None,
                source=row["source"],
                confidence=row["confidence"],
            )
        )
    return tuple(found)


def _verdicts(name: str, rows: list[Any]) -> tuple[VerdictRow, ...]:
    """Read the verdict rows of one setting."""
    found = []
    for index, row in enumerate(rows):
        where = f"verdicts.{name}[{index}]"
        when = _open(BACKENDS, where, row, "values", "verdict", "reason", "fix")
        if row.get("verdict") not in _JUDGEMENTS or not isinstance(row.get("values"), list):
            raise tables.TableError(BACKENDS, where, f"needs values and a verdict of {', '.join(_JUDGEMENTS)}")
        fix = "" if row["verdict"] == "allowed" else _need(BACKENDS, where, row, "fix")
        found.append(
            VerdictRow(
                where,
                frozenset(str(value) for value in row["values"]),
                when,
                cast(Judgement, row["verdict"]),
                _need(BACKENDS, where, row, "reason"),
                fix,
                row["source"],
                row["confidence"],
            )
        )
    return tuple(found)


def _constraints(file: str, rows: list[Any], order: tuple[str, ...]) -> tuple[ConstraintRow, ...]:
    """Read constraints, or the known-bad rows, which say `symptom` and have an id."""
    found = []
    for index, row in enumerate(rows):
        where = f"{file.removesuffix('.yml')}[{index}]"
        when = _open(file, where, row, "setting", "severity", "kind", "message", "fix", "id", "symptom")
        message = _need(file, where, row, "symptom" if file == KNOWN_BAD else "message")
        kind = "known-bad" if file == KNOWN_BAD else _need(file, where, row, "kind")
        if row.get("setting") not in order:
            raise tables.TableError(file, where, f"setting {row.get('setting')!r} is not in `order`")
        remark = _remark(file, where, row, message, kind)
        found.append(
            ConstraintRow(where, row["setting"], when, remark, row["source"], row["confidence"], str(row.get("id", "")))
        )
    return tuple(found)


def _environment(rows: list[Any]) -> tuple[EnvironmentRow, ...]:
    """Read the environment rows."""
    found = []
    for index, row in enumerate(rows):
        where = f"environment[{index}]"
        when = _open(BACKENDS, where, row, "name", "value", "reason")
        texts = [_need(BACKENDS, where, row, key) for key in ("name", "value")]
        reason = _need(BACKENDS, where, row, "reason")
        found.append(EnvironmentRow(where, texts[0], texts[1], when, reason, row["source"], row["confidence"]))
    return tuple(found)
