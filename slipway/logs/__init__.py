"""What was found in a log, judged: pure, on the answers of slipway/agent/logs.py."""

from __future__ import annotations

from .verdict import passing_after, verdict

__all__ = ["passing_after", "verdict"]
