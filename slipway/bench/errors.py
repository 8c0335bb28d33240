"""What is wrong with results, in a sentence that names the file and what to do."""

from __future__ import annotations


class BenchError(Exception):
    """Results that cannot be read, or cannot be compared."""
