"""The small language in which rows of rules test facts. A fact may be unknown, so a test says yes, no or unknown.

A test is a word, a list of words (any of them), or a mapping of these, all of which must hold:
    {set: true}             known at all; the only test that an unknown fact answers with yes or no
    {not: WORD or LIST}     none of the words
    {min: N}, {max: N}      a number within bounds; N may name another fact
    {multiple_of: N}        a number that N divides
Words are compared as text, letter case aside. A fact with several words has each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Look = Callable[[str], Any]
OPERATORS = frozenset({"set", "not", "min", "max", "multiple_of"})


def holds(tests: Mapping[str, Any], look: Look) -> bool | None:
    """Whether all tests hold of the facts that `look` knows; None when that hangs on unknown ones."""
    answers = [judge(test, look(name), look) for name, test in tests.items()]
    if False in answers:
        return False
    return None if None in answers else True


def broken(tests: Mapping[str, Any], look: Look) -> bool:
    """Whether some test surely does not hold."""
    return any(judge(test, look(name), look) is False for name, test in tests.items())


def judge(test: Any, value: Any, look: Look) -> bool | None:
    """Whether one test holds of a value."""
    if not isinstance(test, Mapping):
        return None if value is None else bool(words(value) & words(test))
    answers = [_operate(name, limit, value, look) for name, limit in test.items()]
    if False in answers:
        return False
    return None if None in answers else True


def _operate(name: str, limit: Any, value: Any, look: Look) -> bool | None:
    if name == "set":
        return (value is not None) is limit
    if value is None:
        return None
    if name == "not":
        return not words(value) & words(limit)
    number, bound = as_number(value), as_number(look(limit) if isinstance(limit, str) else limit)
    if number is None or bound is None:
        return None
    if name == "multiple_of":
        return bound > 0 and number % bound == 0
    return number >= bound if name == "min" else number <= bound


def words(value: Any) -> frozenset[str]:
    """The words of a fact or of a test."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return frozenset(word(item) for item in value)
    return frozenset({word(value)})


def word(value: Any) -> str:
    """One value as a test compares it: YAML's true is the engine's `true`."""
    return str(value).strip().lower()


def as_number(value: Any) -> int | float | None:
    """A number, or text that is one; None for anything else, endless ones too."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def names(tests: Mapping[str, Any]) -> Iterable[str]:
    """The facts that some tests ask about, those they compare with included."""
    for name, test in tests.items():
        yield name
        if isinstance(test, Mapping):
            yield from (limit for key, limit in test.items() if isinstance(limit, str) and key in OPERATORS - {"not"})


def in_words(test: Any) -> str:
    """A test as the page of rules says it."""
    if not isinstance(test, Mapping):
        return f"is {_listed(test)}"
    return " and ".join(_said(name, limit) for name, limit in test.items())


def _said(name: str, limit: Any) -> str:
    said = {
        "set": "is known" if limit is True else "is not set",
        "not": f"is not {_listed(limit)}",
        "min": f"is at least {_shown(limit)}",
        "max": f"is at most {_shown(limit)}",
        "multiple_of": f"is a multiple of {_shown(limit)}",
    }
    return said[name]


def _listed(test: Any) -> str:
    return " or ".join(_shown(item) for item in test) if isinstance(test, list) else _shown(test)


def _shown(value: Any) -> str:
    return "`" + (str(value).lower() if isinstance(value, bool) else str(value)) + "`"
