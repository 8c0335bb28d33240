"""An experiment in words: before it, what is measured and what is refused; after it, what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipway.bench.folder import Result
from slipway.bench.report import Report, Request, Table, make_report
from slipway.experiment.model import BASELINE, Experiment
from slipway.experiment.outcome import Outcome, recommendation, tables
from slipway.experiment.planning import Planned
from slipway.experiment.state import State
from slipway.report import table

_MOST = 2  # keys, and lines of a plan's difference, that a listing shows


def plan_lines(experiment: Experiment, planned: Sequence[Planned]) -> list[str]:
    """Every variant with what it changes in the plan; then those that are refused, with the finding."""
    rows = [(one.variant.name, _few(one.variant.own.keys, ", ") or "-", _state(one)) for one in planned]
    count = sum(not one.refused for one in planned)
    sweep = f", sweep {experiment.sweep}" if experiment.sweep else ""
    head = f"Experiment {experiment.name}: {experiment.about}"
    rounds = f"{count} of {len(planned)} measured, {experiment.repeats} round(s) each, {experiment.order}{sweep}"
    lines = [head, rounds, "", *table(("VARIANT", "SETS", "PLAN"), rows)]
    for one in planned:
        lines += [f"refused: {one.variant.name}: {one.refused}"] if one.refused else []
    return lines


def _state(one: Planned) -> str:
    if one.refused:
        return "REFUSED"
    if one.variant.name == BASELINE:
        return "ok"
    lines = [line.strip() for line in one.differs if line.startswith("    ")] or list(one.differs)
    return _few(list(dict.fromkeys(lines)), "; ")


def _few(words: Sequence[str], between: str) -> str:
    more = f" and {len(words) - _MOST} more" if len(words) > _MOST else ""
    return between.join(words[:_MOST]) + more


def report_of(experiment: Experiment, state: State, results: Mapping[str, Result]) -> tuple[Outcome, Report]:
    """The outcome, and the whole report. Variants that are wrong or failed are named and not ranked."""
    counted = {name: result for name, result in results.items() if state.variants[name].status == "ready"}
    outcome = Outcome(experiment, state, counted)
    others = tuple(_named(result, name) for name, result in counted.items() if name != BASELINE)
    baseline = _named(counted[BASELINE], BASELINE) if BASELINE in counted else None
    lead = (experiment.about, *recommendation(outcome)) if baseline else (experiment.about, "No baseline is measured.")
    title = f"Experiment {experiment.name}"
    shown = others or ((baseline,) if baseline else ())
    request = Request(shown, baseline if others else None, title=title, lead=lead, tables=tables(outcome))
    return outcome, make_report(request)


def _named(result: Result, name: str) -> Result:
    """Under the variant's own name, which is shorter than the label."""
    return Result(name, result.provenance, result.cells, result.complete)


def closing_lines(outcome: Outcome) -> list[str]:
    """The tables and the recommendation, for the terminal."""
    lines: list[str] = []
    for one in tables(outcome):
        lines += ["", one.title, *_text(one)]
    return [*lines, "", *recommendation(outcome)]


def _text(one: Table) -> list[str]:
    return table(one.head, [tuple(item.text for item in row) for row in one.rows])
