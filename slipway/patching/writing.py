"""Writes entries of patches/series.yml, whose comments and order stay as the user left them."""

from __future__ import annotations

import json
import re

EMPTY = re.compile(r"^patches:\s*(\[\s*\]|null|~)?\s*$", re.MULTILINE)


def with_entry(text: str, fields: dict[str, str]) -> str:
    """The file with one more entry at its end. fields: in the order in which they are written."""
    rows = [f"{key}: {_scalar(value)}" for key, value in fields.items() if value]
    entry = "  - " + "\n    ".join(rows) + "\n"
    if not re.search(r"^patches:", text, re.MULTILINE):
        return f"{text.rstrip()}\npatches:\n{entry}".lstrip()
    whole = EMPTY.sub("patches:", text, count=1).rstrip() + "\n"
    return whole + entry


def with_hash(text: str, old: str, new: str) -> str:
    """The file with another hash pinned."""
    return text.replace(old, new)


def _scalar(value: str) -> str:
    """Plain where YAML reads it as this text, else quoted as JSON, which YAML reads too."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9 ._/+-]*[A-Za-z0-9.+]", value) and value.lower() not in (
        "yes",
        "no",
        "true",
        "null",
    )
    return value if plain else json.dumps(value, ensure_ascii=False)
