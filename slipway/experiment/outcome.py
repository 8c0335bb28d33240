"""What an experiment came to: each variant and each lever alone against the baseline, and what is recommended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from slipway.bench.compare import rows, runs_of
from slipway.bench.folder import Result
from slipway.bench.metrics import BY_KEY, Metric
from slipway.bench.noise import Difference, compare
from slipway.bench.record import Shape
from slipway.bench.report import Item, Table
from slipway.experiment.model import BASELINE, Experiment, Variant
from slipway.experiment.state import State

# A figure that gets worse beyond the noise by more than this is told beside a recommendation.
_SIDE_EFFECT_PERCENT = 5.0
_SIDES = ("output_throughput", "tok_s_per_user.median", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms")


@dataclass(frozen=True)
class Score:
    """One variant over all loads. difference: of the ranking metric's geometric mean over loads, run by run.

    why: why it has no score; '' when it has.
    """

    variant: Variant
    difference: Difference | None
    why: str


@dataclass(frozen=True)
class Effect:
    """A level of a lever, all else equal. pairs: how many pairs of variants differ in it alone."""

    lever: str
    level: str
    percent: float
    half: float | None
    pairs: int

    @property
    def verdict(self) -> str:
        """As of noise.Difference, without a direction."""
        if self.half is None:
            return "unknown"
        return "noise" if abs(self.percent) <= self.half else "differs"


class Outcome:
    """The results of an experiment's variants, compared. results: of those that are not refused, wrong or failed."""

    def __init__(self, experiment: Experiment, state: State, results: Mapping[str, Result]) -> None:
        self.experiment, self.state, self.results = experiment, state, results
        self.metric: Metric = BY_KEY[experiment.metric]
        self.scores = [self._score(one) for one in experiment.variants[1:]]
        self.effects = list(self._effects())

    def shapes(self) -> list[Shape]:
        """Loads that every variant was measured with, but for those in which the baseline has nothing that counts.

        A load that is void in a variant alone stays: who loses requests is not to be ranked by what it does not lose.
        """
        found = [set(result.shapes) for result in self.results.values()]
        common = sorted(set.intersection(*found)) if found else []
        return [shape for shape in common if shape not in self.left_out()]

    def left_out(self) -> list[Shape]:
        """Loads that are void in every round of the baseline."""
        baseline = self.results.get(BASELINE)
        return [shape for shape in baseline.shapes if not runs_of(baseline, shape).valid] if baseline else []

    def runs(self, name: str) -> list[float]:
        """A variant's ranking figure for each round in which no load is void: its geometric mean over the loads."""
        by_round: dict[int, list[float]] = {}
        for shape in self.shapes():
            for cell in runs_of(self.results[name], shape).valid:
                if cell.values.get(self.metric.key, 0) > 0:
                    by_round.setdefault(cell.repeat, []).append(cell.values[self.metric.key])
        whole = [values for values in by_round.values() if len(values) == len(self.shapes())]
        return [math.exp(fmean(map(math.log, values))) for values in whole]

    def _score(self, variant: Variant) -> Score:
        standing = self.state.variants[variant.name]
        if standing.status != "ready":
            return Score(variant, None, f"{standing.status}: {standing.why}")
        if variant.name not in self.results or BASELINE not in self.results:
            return Score(variant, None, "not measured yet")
        difference = self._compared(variant.name, BASELINE)
        return Score(variant, difference, "" if difference else "void: no round in which every load counts")

    def _compared(self, name: str, other: str) -> Difference | None:
        mine, theirs = self.runs(name), self.runs(other)
        return compare(mine, theirs, self.metric.higher) if mine and theirs else None

    def _effects(self) -> Iterator[Effect]:
        known = {one.variant.name for one in self.scores if one.difference} | {BASELINE}
        variants = [one for one in self.experiment.variants if one.name in known]
        for lever in dict.fromkeys(lever for one in variants for lever in one.levels):
            first = self._reference(variants, lever)
            for level in dict.fromkeys(one.levels.get(lever, "") for one in variants):
                pairs = [] if level == first else list(self._pairs(variants, lever, level, first))
                if pairs:
                    yield _combined(lever, level, pairs)

    def _reference(self, variants: Sequence[Variant], lever: str) -> str:
        """The level that others are held against: the baseline's own where there are pairs with it, else the first."""
        levels = list(dict.fromkeys(one.levels.get(lever, "") for one in variants))
        with_own = any(list(self._pairs(variants, lever, level, "")) for level in levels if level)
        return "" if with_own else next(level for level in levels if level)

    def _pairs(self, variants: Sequence[Variant], lever: str, level: str, other: str) -> Iterator[Difference]:
        for one in variants:
            for against in variants:
                alike = _without(one.levels, lever) == _without(against.levels, lever)
                if alike and one.levels.get(lever, "") == level and against.levels.get(lever, "") == other:
                    difference = self._compared(one.name, against.name)
                    if difference:
                        yield difference

    def ranked(self) -> list[Score]:
        """Variants with a score, best first."""
        found = [(score, score.difference.percent) for score in self.scores if score.difference]
        sign = 1 if self.metric.higher else -1
        return [score for score, _ in sorted(found, key=lambda pair: -sign * (pair[1] or 0.0))]

    def side_effects(self, name: str) -> list[str]:
        """What gets worse beyond the noise with a variant, and by a good deal."""
        found = []
        for row in rows(self.results[name], self.results[BASELINE]):
            difference = row.difference
            if row.metric.key in _SIDES and difference and difference.verdict == "worse":
                percent = difference.percent or 0.0
                if abs(percent) > _SIDE_EFFECT_PERCENT:
                    found.append(f"{row.metric.title} {percent:+.1f} % at {row.shape}")
        return found


def _without(levels: Mapping[str, str], lever: str) -> dict[str, str]:
    return {name: level for name, level in levels.items() if name != lever}


def _combined(lever: str, level: str, pairs: Sequence[Difference]) -> Effect:
    """The mean over the pairs; their intervals add up as those of independent figures."""
    percents = [pair.percent or 0.0 for pair in pairs]
    halves = [pair.half_percent for pair in pairs if pair.half_percent is not None]
    half = math.hypot(*halves) / len(pairs) if len(halves) == len(pairs) else None
    return Effect(lever, level, fmean(percents), half, len(pairs))


def recommendation(outcome: Outcome) -> list[str]:
    """What to do, in sentences; the first one says it."""
    missing = ", ".join(map(str, outcome.left_out()))
    note = [f"Not compared, as it is void in every round of the baseline: {missing}."] if missing else []
    return [*_recommended(outcome), *note]


def _recommended(outcome: Outcome) -> list[str]:
    worth, metric = outcome.experiment.worth_percent, outcome.metric
    good = [score for score in outcome.ranked() if _is_worth(score, worth)]
    unknown = [score for score in outcome.ranked() if score.difference and score.difference.verdict == "unknown"]
    if unknown:
        once = f"with one round, no difference in {metric.title} can be told from noise"
        return [f"No recommendation: {once}; set repeats to 2 at least and run again: what is measured stays."]
    if not outcome.ranked():
        return ["No recommendation: no variant has a round in which every load counts."]
    if not good:
        return [
            f"Keep the baseline: no variant is better in {metric.title} beyond the noise and by {worth:g} % at least."
        ]
    return list(_for(outcome, good))


def _is_worth(score: Score, worth: float) -> bool:
    difference = score.difference
    return bool(difference and difference.verdict == "better" and abs(difference.percent or 0.0) >= worth)


def _for(outcome: Outcome, good: Sequence[Score]) -> Iterator[str]:
    best = good[0]
    yield f"Recommended: {best.variant.name} ({_percent(best.difference)} {outcome.metric.title}, over all loads)."
    yield f"It sets {', '.join(best.variant.own.keys)}."
    worse = outcome.side_effects(best.variant.name)
    if worse:
        yield f"At a price: {'; '.join(worse)}."
    others = [score for score in good[1:] if set(score.variant.levels) - set(best.variant.levels)]
    if others:
        names = ", ".join(f"{score.variant.name} ({_percent(score.difference)})" for score in others)
        yield f"Better as well, each alone: {names}. Effects need not add up: measure them together to keep both."


def _percent(difference: Difference | None) -> str:
    if difference is None or difference.percent is None:
        return ""
    half = "" if difference.half_percent is None else f" ±{difference.half_percent:.1f}"
    return f"{difference.percent:+.1f} %{half}"


_VERDICTS = {"unknown": "not known (1 round)"}


def tables(outcome: Outcome) -> tuple[Table, ...]:
    """Every variant that is ranked, best first; each lever alone; and what is not ranked, with the reason."""
    first = Table(
        f"Variants against the baseline: {outcome.metric.title}, geometric mean over the loads",
        ("variant", "value", "baseline", "percent", "verdict", "sets"),
        tuple(map(_ranked_row, outcome.ranked())),
    )
    levers = Table(
        "Each lever alone",
        ("lever", "level", "percent", "pairs", "verdict"),
        tuple(_effect_row(effect, outcome.metric) for effect in outcome.effects if effect.lever != effect.level),
        note="variants that differ in this lever alone, averaged",
    )
    others = [(Item(one.variant.name), Item(one.why, "void"), Item(_sets(one))) for one in outcome.scores if one.why]
    last = Table("Not ranked", ("variant", "why", "sets"), tuple(others), texts=True)
    return tuple(one for one in (first, levers, last) if one.rows)


def _sets(score: Score) -> str:
    return ", ".join(score.variant.own.keys)


def _ranked_row(score: Score) -> tuple[Item, ...]:
    difference = score.difference
    if difference is None:
        return ()
    verdict = difference.verdict
    return (
        Item(score.variant.name), Item(f"{difference.value:,.1f}"), Item(f"{difference.baseline:,.1f}"),
        Item(_percent(difference), verdict), Item(_VERDICTS.get(verdict, verdict), verdict), Item(_sets(score)),
    )  # fmt: skip


def _effect_row(effect: Effect, metric: Metric) -> tuple[Item, ...]:
    verdict = effect.verdict
    if verdict == "differs":
        verdict = "better" if (effect.percent > 0) == metric.higher else "worse"
    half = "" if effect.half is None else f" ±{effect.half:.1f}"
    tone = {"better": "better", "worse": "worse", "noise": "noise"}.get(verdict, "unknown")
    percent = Item(f"{effect.percent:+.1f} %{half}", tone)  # type: ignore[arg-type]
    words = Item(_VERDICTS.get(verdict, verdict), tone)  # type: ignore[arg-type]
    return (Item(effect.lever), Item(effect.level or BASELINE), percent, Item(str(effect.pairs)), words)
