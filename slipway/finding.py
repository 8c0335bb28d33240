"""What a check found about a plan, a host or a checkpoint: plain data, printed and recorded as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One finding.

    rule: stable id, by which a user can waive it. subject: the file, host or instance concerned.
    message: what was found and what is allowed. fix: what to do. source: where the fact comes from.
    """

    rule: str
    severity: Severity
    subject: str
    message: str
    fix: str = ""
    source: str = ""
