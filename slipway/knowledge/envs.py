"""Environment variables of the engine: which a release knows, of what type, and what a wrong name may have meant."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from slipway.knowledge import releases, tables
from slipway.knowledge.problems import Problem
from slipway.knowledge.versions import Version, version

_FILE = "envs.json"
OURS = ("SGLANG_", "SGL_")  # prefixes that only the engine uses: an unknown name is a mistake
_BOOLEANS = frozenset({"true", "1", "yes", "y", "false", "0", "no", "n"})  # EnvBool.parse of srt/environ.py


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable as a release has it; `default` is source text, `successor` the new name of an old one.

    type: bool, int, float, str, list, json, or any where the engine reads it outside its registry.
    """

    name: str
    type: str
    default: str
    successor: str | None = None


def known(release: str) -> Mapping[str, Variable]:
    """Return every variable that a release reads; a release without a record gets the nearest one's."""
    return _known(_standing(release))


def check(name: str, value: Any, release: str) -> list[Problem]:
    """Say what is wrong with setting a variable; variables of other programs are never judged."""
    remarks = check_name(name, release)
    variable = known(release).get(name)
    if variable is None:
        return remarks
    if not _TYPES.get(variable.type, _anything)(str(value)):
        message = f"{name}: got {str(value)!r}; SGLang {release} reads {_WORDS[variable.type]}"
        remarks.append(Problem("error", "env-type", message, "", _source(), name))
    return remarks


def check_name(name: str, release: str) -> list[Problem]:
    """Say what is wrong with setting a variable, whatever its value."""
    variable = known(release).get(name)
    if variable is None:
        return [_unknown(name, release)] if name.startswith(OURS) else []
    if not variable.successor:
        return []
    message = f"{name} is the old name of {variable.successor} in SGLang {release}"
    return [Problem("note", "env-deprecated", message, f"use {variable.successor}", _source(), name)]


def check_names(names: Iterable[str], release: str) -> list[Problem]:
    """Check variables whose values nobody may see."""
    return [problem for name in names for problem in check_name(name, release)]


def check_all(settings: Mapping[str, Any], release: str) -> list[Problem]:
    """Check every variable of an environment."""
    return [problem for name, value in settings.items() for problem in check(name, value, release)]


def releases_with(name: str) -> tuple[str, ...]:
    """List the releases that read a variable, oldest first."""
    return tuple(item for item in _releases() if name in _known(item))


def _unknown(name: str, release: str) -> Problem:
    """Explain a name of the engine's that the release does not read."""
    others = releases_with(name)
    if others:
        message = f"SGLang {release} does not read {name}: it is read from {others[0]} to {others[-1]}"
        return Problem("warning", "env-other-release", message, "take it out", _source(), name)
    near = difflib.get_close_matches(name, list(known(release)), n=3, cutoff=0.75)
    fix = f"did you mean {' or '.join(near)}?" if near else "take it out; a misspelt variable does nothing"
    return Problem("warning", "env-unknown", f"SGLang {release} does not read {name}", fix, _source(), name)


def _standing(release: str) -> str:
    """Name the recorded release that stands for another: the newest not newer, else the oldest."""
    wanted = Version.parse(release) or releases.nearest(release).version
    older = [item for item in _releases() if version(item) <= wanted]
    return older[-1] if older else _releases()[0]


@cache
def _releases() -> tuple[str, ...]:
    """List the releases of the record, oldest first."""
    return tuple(tables.load(_FILE)["releases"])


def _source() -> str:
    """Say where the record comes from."""
    return str(tables.load(_FILE)["source"])


@cache
def _known(release: str) -> Mapping[str, Variable]:
    """Read the variables of a recorded release."""
    now = version(release)
    found: dict[str, Variable] = {}
    for name, points in tables.load(_FILE)["variables"].items():
        past = [point for point in points if version(point[0]) <= now]
        if past and past[-1][1] is not None:
            found[name] = _variable(name, past[-1])
    return found


def _variable(name: str, point: list[Any]) -> Variable:
    """Read one change point: [since, type, default], where a default '> NAME' means an old name of NAME."""
    if len(point) != 3 or point[1] not in _WORDS:
        raise tables.TableError(_FILE, name, f"{point!r} must be [release, type, default] or [release, null]")
    moved = str(point[2]).removeprefix("> ") if str(point[2]).startswith("> ") else None
    return Variable(name, str(point[1]), "" if moved else str(point[2]), moved)


def _anything(_: str) -> bool:
    """Accept every text."""
    return True


def _boolean(text: str) -> bool:
    """Accept what EnvBool parses."""
    return text.lower() in _BOOLEANS


def _whole(text: str) -> bool:
    """Accept what EnvInt parses."""
    return _parses(int, text)


def _number(text: str) -> bool:
    """Accept what EnvFloat parses."""
    return _parses(float, text)


def _json(text: str) -> bool:
    """Accept JSON, or a path: EnvJSON reads a file when one exists."""
    return text == "" or "/" in text or text.endswith(".json") or _parses(json.loads, text)


def _parses(parser: Callable[[str], Any], text: str) -> bool:
    """Tell whether a parser takes a text."""
    try:
        parser(text)
    except (ValueError, RecursionError):
        return False
    return True


_TYPES: dict[str, Callable[[str], bool]] = {"bool": _boolean, "int": _whole, "float": _number, "json": _json}
_WORDS = {
    "bool": "true or false (1, 0, yes, no, y, n too)",
    "int": "a whole number",
    "float": "a number",
    "json": "JSON text or a path to it",
    "list": "words with commas",
    "str": "text",
    "any": "text",
}
