"""Reads sets of known answers and the user's accuracy set, and picks the sets for a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

MATCHES = ("exact", "number", "regex", "contains")
KEYS = {"question", "expect", "match", "max_tokens", "system", "prompt"}
OWN = ("known_answers.yml", "known_answers.yaml", "known_answers.json")  # what a checkpoint's folder may bring along


class AnswerSetError(Exception):
    """A set that cannot be used: file, place, what was found and what is allowed."""


@dataclass(frozen=True)
class AnswerSet:
    """Known answers. models: patterns of checkpoint names that it is for. rows: as the agent takes them."""

    name: str
    models: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]

    def fits(self, names: Iterable[str]) -> bool:
        """Whether it is for a model that goes by one of these names."""
        return any(fnmatch(name.lower(), pattern.lower()) for name in names for pattern in self.models)


@cache
def built_in() -> tuple[AnswerSet, ...]:
    """The sets that ship with Slipway."""
    folder = resources.files("slipway.verify").joinpath("answers")
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yml")), key=lambda entry: entry.name)
    return tuple(parse_set(entry.read_text(encoding="utf-8"), entry.name) for entry in files)


def read_set(path: Path) -> AnswerSet:
    """A set in YAML or JSON. Raises AnswerSetError."""
    try:
        return parse_set(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise AnswerSetError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def parse_set(text: str, source: str) -> AnswerSet:
    """A set from its text: a mapping with `answers`, or just the list of them. Raises AnswerSetError."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise AnswerSetError(f"{source}: is neither YAML nor JSON: {str(error).splitlines()[0]}") from None
    rows = data.get("answers") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise AnswerSetError(f"{source}: must hold a list `answers` of {{question, expect, match}}")
    about = data if isinstance(data, dict) else {}
    checked = tuple(_row(row, f"{source}: answer {number}") for number, row in enumerate(rows, 1))
    return AnswerSet(str(about.get("set", Path(source).stem)), tuple(about.get("models", ("*",))), checked)


def as_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows as a release recorded them. Raises AnswerSetError."""
    return [_row(row, f"recorded answer {number}") for number, row in enumerate(rows, 1)]


def _row(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """One row; `answer` is the older word for `expect`."""
    found = {("expect" if key == "answer" else str(key)): value for key, value in row.items()}
    unknown = sorted(set(found) - KEYS)
    if unknown:
        raise AnswerSetError(f"{where}: unknown key {unknown[0]}; must be one of {', '.join(sorted(KEYS))}")
    for key in ("question", "expect"):
        if not str(found.get(key) or "").strip():
            raise AnswerSetError(f"{where}: has no {key}")
    if found.get("match", "exact") not in MATCHES:
        raise AnswerSetError(f"{where}: match is {found['match']!r}; must be one of {', '.join(MATCHES)}")
    return {**found, "question": str(found["question"]), "expect": _checked(found, where)}


def _checked(row: Mapping[str, Any], where: str) -> str:
    """What is expected, which must be such that an answer can match it."""
    expect = str(row["expect"])
    if row.get("match") == "regex":
        try:
            re.compile(expect)
        except re.error as error:
            raise AnswerSetError(f"{where}: {expect!r} is no regular expression: {error}") from None
    if row.get("match") == "number" and not re.search(r"\d", expect):
        raise AnswerSetError(f"{where}: match is number, and {expect!r} holds none")
    return expect


def chosen_rows(
    wanted: Sequence[str] | None, own: Path | None, folders: Sequence[Path], names: Sequence[str], simulated: bool
) -> list[Mapping[str, Any]]:
    """The rows to ask, each question once. Raises AnswerSetError.

    wanted: names of sets and paths, as configured; None: those that come with the checkpoint (own: its folder), that
    are for this model, or else the arithmetic ones. folders: where users' sets lie. names: of the checkpoint. A
    simulated engine knows only what comes with its checkpoint.
    """
    sets = [*built_in(), *(read_set(path) for folder in folders for path in sorted(folder.glob("*.yml")))]
    if wanted is not None:
        found = [_named(name, sets, folders) for name in wanted]
    else:
        shipped = [read_set(own / name) for name in OWN if (own / name).is_file()] if own else []
        special = [one for one in sets if one.fits(names) and "*" not in one.models]
        general = [one for one in sets if "*" in one.models]
        found = shipped if simulated and shipped else [*shipped, *special] or general
    unique = {row["question"]: row for one in reversed(found) for row in reversed(one.rows)}
    return list(reversed(list(unique.values())))


def _named(name: str, sets: Sequence[AnswerSet], folders: Sequence[Path]) -> AnswerSet:
    if not name.endswith((".yml", ".yaml", ".json")):
        known = {one.name: one for one in sets}
        if name not in known:
            raise AnswerSetError(f"verify.known_answers: no set {name}; must be one of {', '.join(known)}, or a file")
        return known[name]
    places = [Path(name).expanduser(), *(folder.parent / name for folder in folders)]
    return read_set(next((place for place in places if place.is_file()), places[-1]))


def accuracy_rows(path: Path, most: int, prompt: str) -> list[dict[str, Any]]:
    """Rows of a gsm8k-style file: one JSON object a line with question and answer, which ends in '#### NUMBER'.

    prompt: what is asked, with {question} in it. Raises AnswerSetError.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AnswerSetError(f"verify.accuracy.file: {path}: cannot be read: {reason}") from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return [_gsm8k(line, f"{path}:{number}", prompt) for number, line in numbered[:most]]


def _gsm8k(line: str, where: str, prompt: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        answer = str(row["answer"]).rpartition("####")[2].strip()
        question = str(row["question"])
    except (ValueError, KeyError, TypeError):
        raise AnswerSetError(f'{where}: must be {{"question": ..., "answer": "... #### NUMBER"}}') from None
    if not re.search(r"\d", answer):
        raise AnswerSetError(f"{where}: the answer {answer[:60]!r} holds no number")
    return {"question": prompt.replace("{question}", question), "expect": answer, "match": "number"}
