"""What a table has to say against (or about) a value: one shape for flags, environment and backends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One remark: `kind` is a stable word for rules and tests, the texts are for people."""

    severity: Severity
    kind: str
    message: str
    fix: str = ""
    source: str = ""
    subject: str = ""

    def __str__(self) -> str:
        """Print it as one line, with the fix."""
        return f"{self.severity}: {self.message}" + (f" (fix: {self.fix})" if self.fix else "")
