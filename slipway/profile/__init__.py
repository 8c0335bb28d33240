"""Where an engine's time goes, read from the traces of its own profiler. Pure: bytes in, tables and pictures out."""

from __future__ import annotations

from .breakdown import Breakdown, Share, breakdown
from .report import picture, summary, table_lines
from .trace import TraceError, events

__all__ = ["Breakdown", "Share", "TraceError", "breakdown", "events", "picture", "summary", "table_lines"]
