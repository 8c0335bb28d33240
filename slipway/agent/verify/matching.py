"""Whether an answer is the expected one."""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
THOUGHT = re.compile(r"^\s*(?:<think>)?.*?</think>", re.DOTALL)


def spoken(text: str) -> str:
    """The answer without the thinking before it, for models whose server has no parser for that."""
    return THOUGHT.sub("", text, count=1).strip()


def still_thinking(text: str, reasoning: str, finish: str) -> bool:
    """Whether a reasoning model was cut off before it came to its answer."""
    unclosed = text.lstrip().startswith("<think>") and "</think>" not in text
    return finish == "length" and (unclosed or (bool(reasoning) and not text.strip()))


def matches(text: str, row: dict[str, Any], first: bool = False) -> bool:
    """Whether a text is what a row of known answers expects.

    match: exact (the default), number (the last one in the text; the first one with `first`, as a base model goes on
    talking), regex (found anywhere), contains (whatever the case).
    """
    expect, said, kind = str(row["expect"]), spoken(text), row.get("match", "exact")
    if kind == "number":
        return number_in(said, first) == number_in(expect, first) is not None
    if kind == "regex":
        return re.search(expect, said) is not None
    if kind == "contains":
        return expect.lower() in said.lower()
    return said == expect.strip()


def number_in(text: str, first: bool = False) -> float | None:
    """The last number of a text, or its first; None when there is none."""
    marked = text.rpartition("####")[2] if "####" in text else text
    found = NUMBER.findall(marked)
    return float(found[0 if first else -1].replace(",", "")) if found else None
