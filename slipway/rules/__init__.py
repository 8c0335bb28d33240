"""Rules: what people lost days to, checked on the plan before anything starts. Waivable by id, with a reason."""

from __future__ import annotations

from functools import cache

from slipway.finding import Finding
from slipway.plan.evidence import Evidence

# They register their rules when they are imported; the aliases say so to the type checker.
from . import checkpoints as checkpoints
from . import environment as environment
from . import memory as memory
from . import process as process
from . import topology as topology
from . import transfer as transfer
from . import wiring as wiring
from .facts import Whole
from .known import Known, known_others
from .model import Hit, Rule
from .registry import registered
from .table import rows

__all__ = ["Hit", "Known", "Rule", "all_rules", "check", "known_ids", "known_others"]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    found = (*rows(), *registered())
    by_id = {rule.id: rule for rule in found}
    if len(by_id) < len(found):
        raise ValueError("two rules have one id")
    return tuple(by_id[id] for id in sorted(by_id))


def check(evidence: Evidence) -> list[Finding]:
    """Every fault that a rule finds; errors first, then by rule, then in the order of the plan."""
    whole = Whole(evidence)
    found = [finding for rule in all_rules() for finding in rule.findings(whole)]
    order = ("error", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.severity))


@cache
def known_ids() -> frozenset[str]:
    """Every id that a finding can have, and that a user may waive."""
    return frozenset({rule.id for rule in all_rules()} | {other.id for other in known_others()})
