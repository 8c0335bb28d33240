"""Values of flags: what a parser of the engine would refuse, and how a value is written into argv."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slipway.knowledge.problems import Problem

if TYPE_CHECKING:
    from slipway.knowledge.flags import Flag

_MANY = ("+", "*")
_SIZE = re.compile(r"\d+|\d+(\.\d+)?[kMGT]|\d+[KMGT]i", re.ASCII)  # human_readable_int of srt/utils/common.py


def value_problem(flag: Flag, name: str, value: Any, release: str, source: str) -> Problem | None:
    """Return why the release would refuse this value, or None; the problem's subject is the name as written."""
    wrong = None if value is None else _wrong(flag, value)
    if wrong is None:
        return None
    kind, must, fix = wrong
    message = f"{flag.name}: got {_show(value)}; in SGLang {release} it must be {must}"
    return Problem("error", kind, message, fix, source, name)


def spell_value(flag: Flag, value: Any) -> list[str]:
    """Write one accepted setting as argv; a value that is off or absent writes nothing."""
    if value is None:
        return []
    if flag.kind in ("switch", "ignored"):
        return [flag.name] if value else []
    if flag.kind == "toggle":
        return [flag.name if value else f"--no-{flag.name[2:]}"]
    if flag.nargs == "?" and value is True:
        return [flag.name]
    if flag.nargs in _MANY:
        items = value if isinstance(value, (list, tuple)) else [value]
        return [flag.name, *(_word(item) for item in items)]
    word = _word(value)
    return [f"{flag.name}={word}"] if word.startswith("-") else [flag.name, word]


def _word(value: Any) -> str:
    """Write one argv word: mappings and nested lists as compact JSON."""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, separators=(",", ":"), sort_keys=isinstance(value, dict))
    return str(value)


def _show(value: Any) -> str:
    """Show a value in a message, cut when long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _wrong(flag: Flag, value: Any) -> tuple[str, str, str] | None:
    """Find (kind, what it must be, fix) for a value, or None when it is fine."""
    if flag.kind != "value":
        ok = isinstance(value, bool)
        return None if ok else ("flag-boolean", "true or false: the flag takes no value", "write true or false")
    if isinstance(value, bool):
        return _wrong_bool(flag, value)
    if flag.nargs in _MANY:
        return _wrong_many(flag, list(value) if isinstance(value, (list, tuple)) else [value])
    return _wrong_one(flag, value)


def _wrong_bool(flag: Flag, value: bool) -> tuple[str, str, str] | None:
    """Refuse a boolean where a value is due; only nargs '?' may stand bare."""
    if flag.nargs == "?" and value:
        return None
    return ("flag-type", _expected(flag), "write the value, or null to leave it to the engine")


def _wrong_many(flag: Flag, items: list[Any]) -> tuple[str, str, str] | None:
    """Check each of several values."""
    if not items and flag.nargs == "+":
        return ("flag-arity", f"one or more of {_expected(flag)}", "give at least one value, or leave it out")
    found = (("flag-type", _expected(flag), "") if isinstance(x, bool) else _wrong_one(flag, x) for x in items)
    return next((wrong for wrong in found if wrong), None)


def _wrong_one(flag: Flag, value: Any) -> tuple[str, str, str] | None:
    """Check one value by type, then by choice."""
    if isinstance(value, (list, tuple)) and not flag.type.startswith("json"):
        return ("flag-arity", f"one value ({_expected(flag)}), not a list", "write it as one string")
    if not _TYPES.get(flag.type, _is_str)(value):
        return ("flag-type", _expected(flag), "")
    if flag.choices and str(value) not in {str(choice) for choice in flag.choices}:
        return ("flag-choice", f"one of {', '.join(str(choice) for choice in flag.choices)}", "")
    return None


def _expected(flag: Flag) -> str:
    """Say in words what a flag takes."""
    if flag.choices:
        return f"one of {', '.join(str(choice) for choice in flag.choices)}"
    return _WORDS.get(flag.type, "a string")


def _is_int(value: Any) -> bool:
    """Accept what argparse's int accepts."""
    return isinstance(value, int) or (isinstance(value, str) and bool(re.fullmatch(r"\s*[+-]?\d+\s*", value)))


def _is_float(value: Any) -> bool:
    """Accept what argparse's float accepts."""
    if isinstance(value, (int, float)):
        return True
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, str)


def _is_size(value: Any) -> bool:
    """Accept an integer or one with an SI or IEC suffix."""
    return _is_int(value) or (isinstance(value, str) and bool(_SIZE.fullmatch(value.strip())))


def _is_json(value: Any) -> bool:
    """Accept a mapping or list, or text that parses as JSON."""
    if isinstance(value, (dict, list, tuple, int, float)):
        return True
    try:
        json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_json_list(value: Any) -> bool:
    """Accept a list, or text that parses as one."""
    if isinstance(value, str) and _is_json(value):
        return isinstance(json.loads(value), list)
    return isinstance(value, (list, tuple))


def _is_str(value: Any) -> bool:
    """Accept any scalar; a mapping becomes JSON, which the engine parses itself."""
    return isinstance(value, (str, int, float, dict))


_TYPES: dict[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "float": _is_float,
    "size": _is_size,
    "json": _is_json,
    "json_list": _is_json_list,
}
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "size": "a whole number, with k, M, G, T or Ki, Mi, Gi, Ti if you like",
    "json": "a mapping or JSON text",
    "json_list": "a list or a JSON list as text",
}
