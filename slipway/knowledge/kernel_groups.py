"""Which part of a forward pass a kernel belongs to, by its name: rows of kernel_groups.yml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from .tables import TableError, check_keys, rows

FILE = "kernel_groups.yml"
GROUPS = ("attention", "moe", "gemm", "communication", "other")
_KEYS = frozenset({"group", "pattern", "source", "confidence"})


@cache
def group_of(kernel: str) -> str:
    """One of GROUPS. Raises TableError when the table is malformed."""
    return next((group for group, pattern in _patterns() if pattern.search(kernel)), "other")


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(_pattern(index, row) for index, row in enumerate(rows(FILE, "groups")))


def _pattern(index: int, row: Mapping[str, Any]) -> tuple[str, re.Pattern[str]]:
    where = f"groups[{index}]"
    check_keys(FILE, where, row, _KEYS)
    if row.get("group") not in GROUPS:
        raise TableError(FILE, where, f"group is {row.get('group')!r}; must be one of {', '.join(GROUPS)}")
    try:
        return str(row["group"]), re.compile(row["pattern"])
    except (re.error, KeyError) as error:
        raise TableError(FILE, where, f"no regular expression: {error}") from None
