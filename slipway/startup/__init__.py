"""Judges a start from what is seen of it while it comes up. Pure: looks in, words out."""

from __future__ import annotations

from .watch import Course, Look, begun, failure, is_up, progress, seen

__all__ = ["Course", "Look", "begun", "failure", "is_up", "progress", "seen"]
