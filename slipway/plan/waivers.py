"""Applies `waive:`: findings that the user accepts become notes, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from slipway.config.errors import nearest
from slipway.finding import Finding

# Errors without whose cure the plan is not complete: what would start is not what was asked for.
STRUCTURAL = ("topology", "model-folder", "recipe-unknown", "router-unknown", "placement.", "flag-", "waive-")


def apply_waivers(findings: Iterable[Finding], waive: Mapping[str, str], known: Collection[str]) -> tuple[Finding, ...]:
    """The findings with those waived turned into notes. known: every rule id there is."""
    found = tuple(findings)
    ids = {*known, *(finding.rule for finding in found)}
    strange = [_unknown(rule, ids) for rule in waive if rule not in ids]
    return (*strange, *(_waived(finding, waive) for finding in found))


def _waived(finding: Finding, waive: Mapping[str, str]) -> Finding:
    reason = waive.get(finding.rule)
    if reason is None or finding.severity == "note":
        return finding
    if finding.severity == "error" and finding.rule.startswith(STRUCTURAL):
        return replace(finding, message=f"{finding.message} (it cannot be waived: the plan is not complete)")
    return replace(finding, severity="note", message=f"{finding.message} (waived: {reason})")


def _unknown(rule: str, ids: Collection[str]) -> Finding:
    close = nearest(rule, ids)
    fix = f"did you mean {close}?" if close else "the ids stand in brackets behind each finding"
    return Finding("waive-unknown", "error", "waive", f"there is no rule {rule}", fix)
