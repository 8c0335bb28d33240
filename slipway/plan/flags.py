"""Checks engine settings against the release's flag list and spells them; problems become findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.finding import Finding
from slipway.knowledge import gates
from slipway.knowledge.flags import FlagList


def render_flags(release: str, subject: str, settings: Mapping[str, Any]) -> tuple[list[str], list[Finding]]:
    """Flags as `release` spells them, and what is wrong with them; wrong ones are left out of the flags."""
    known = FlagList.for_release(release)
    problems = known.check_all(settings)
    wrong = {problem.subject for problem in problems if problem.severity == "error"}
    findings = [
        Finding(problem.kind, problem.severity, subject, problem.message, problem.fix, problem.source)
        for problem in problems
    ]
    right = {key: value for key, value in settings.items() if key not in wrong and known.has(key)}
    return known.render(right), findings


def clean_exit(release: str) -> str:
    """How a clean stop of the engine ends: '0', or 'SIGKILL' for releases that end by killing themselves."""
    return "0" if gates.holds("sigterm_exit_status_zero", release) else "SIGKILL"
