"""Plans every variant before anything is deployed: which would be refused, and which change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.config.errors import InvalidConfigError
from slipway.experiment.model import Change, Experiment, Variant
from slipway.front import Opened, open_inventory
from slipway.plan.diff import diff_lines
from slipway.plan.facts import HostFacts
from slipway.plan.model import Plan, to_json

Facts = Callable[[Opened], Mapping[str, HostFacts]]


@dataclass(frozen=True)
class Planned:
    """A variant's plan. data: what pyinfra is given by --data. refused: why it is not measured, '' when it can be.

    differs: lines of what its plan changes against the baseline's.
    """

    variant: Variant
    inventory: Path
    data: Mapping[str, Any]
    refused: str
    differs: tuple[str, ...] = ()


def plan_experiment(experiment: Experiment, inventory: Path, data: Mapping[str, Any], facts: Facts) -> list[Planned]:
    """Each variant, in order. inventory: of the experiment; those that variants name lie beside it, so that all
    results come together. data: overrides that hold for all, as from --data.
    """
    first, found = None, []
    for variant in experiment.variants:
        place = inventory.with_name(variant.change.inventory or inventory.name)
        planned, plan = _plan(variant, place, data, facts)
        first = first or plan
        found.append(_against(planned, plan, first) if variant is not experiment.baseline else planned)
    return found


def _plan(variant: Variant, place: Path, data: Mapping[str, Any], facts: Facts) -> tuple[Planned, Plan | None]:
    given = {**data, **variant.change.data}
    try:
        if variant.change.patches:
            given["engine.patches"] = _patches(open_inventory(place, given), variant.change)
        opened = open_inventory(place, given)
        plan = opened.plan(facts(opened))
    except InvalidConfigError as error:
        return Planned(variant, place, given, "; ".join(str(one) for one in error.errors)), None
    return Planned(variant, place, given, "; ".join(_reasons(plan))), plan


def _patches(opened: Opened, change: Change) -> list[str]:
    configured = next(host.engine.patches for host in opened.deployment.hosts)
    return [*configured, *(patch for patch in change.patches if patch not in configured)]


def _reasons(plan: Plan) -> list[str]:
    """The findings that refuse it; the same one about several workers once."""
    return list(dict.fromkeys(f"{finding.message} [{finding.rule}]" for finding in plan.errors))


def _against(planned: Planned, plan: Plan | None, baseline: Plan | None) -> Planned:
    if plan is None or baseline is None or planned.refused:
        return planned
    lines = tuple(diff_lines(to_json(baseline), to_json(plan)))
    nothing = "its plan is the baseline's: what it sets is set so already, or is overridden elsewhere"
    return Planned(planned.variant, planned.inventory, planned.data, "" if lines else nothing, lines)
