"""One change that a deploy would make on a host."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal["create", "update", "remove", "install", "reload", "start", "restart", "enable", "stop", "refuse"]


@dataclass(frozen=True)
class Change:
    """What would change, and why.

    role: whose change it is. subject: the file, build, instance or user. reason: what was found there.
    diff: for texts, a unified diff. data: what the operation needs to make the change.
    """

    host: str
    role: str
    action: Action
    subject: str
    reason: str
    diff: str = ""
    data: Any = field(default=None, repr=False)  # may hold a secret, and pyinfra prints arguments

    def __str__(self) -> str:
        return f"{self.action} {self.subject}: {self.reason}"


def text_diff(path: str, before: str, after: str) -> str:
    """A unified diff of two texts."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{path} (on the host)", f"{path} (wanted)", lineterm="", n=2
    )
    return "\n".join(lines)
