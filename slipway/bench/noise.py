"""Whether a difference is one: repeats give a spread, and a difference inside the spread is called noise.

Runs of one load on one deployment are taken as independent samples; two sets are compared by Welch's t interval of
the difference of means, at 95 %. One run on a side has no spread of its own: the other side's is taken for both, or
one that the reader names; with neither, nothing can be said, and it is said that nothing can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

Verdict = Literal["better", "worse", "noise", "differs", "unknown"]
# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
# fmt: off
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
# fmt: on
_NORMAL95 = 1.960


@dataclass(frozen=True)
class Difference:
    """Two means of one figure. half: half the width of the 95 % interval of the delta; None when it is not known.

    verdict: 'better' or 'worse' beyond the spread, 'noise' inside it, 'differs' beyond it where neither way is
    better, 'unknown' where nothing tells the spread.
    """

    value: float
    baseline: float
    half: float | None
    verdict: Verdict

    @property
    def delta(self) -> float:
        """Value less baseline."""
        return self.value - self.baseline

    @property
    def percent(self) -> float | None:
        """The delta in percent of the baseline; None where that is 0."""
        return 100 * self.delta / self.baseline if self.baseline else None

    @property
    def half_percent(self) -> float | None:
        """The interval's half width in percent of the baseline."""
        return 100 * self.half / self.baseline if self.baseline and self.half is not None else None


def t95(freedom: float) -> float:
    """The two-sided 95 % quantile of Student's t. freedom: degrees of freedom, rounded down: wider, never narrower."""
    whole = int(freedom)
    return _T95[max(whole, 1) - 1] if whole <= len(_T95) else _NORMAL95


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the mean's 95 % interval; None for a single run."""
    if len(values) < 2:
        return None
    return t95(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def compare(
    values: Sequence[float], baseline: Sequence[float], higher: bool | None, spread: float | None = None
) -> Difference:
    """Compare the runs of one figure. higher: whether more is better; None where neither way is.

    spread: relative standard deviation of a run (0.02 is 2 %), for where no side has repeats.
    """
    half = _half_width(values, baseline, spread)
    value, base = fmean(values), fmean(baseline)
    return Difference(value, base, half, _verdict(value - base, half, higher))


def _verdict(delta: float, half: float | None, higher: bool | None) -> Verdict:
    if half is None:
        return "unknown"
    if abs(delta) <= half:
        return "noise"
    if higher is None:
        return "differs"
    return "better" if (delta > 0) == higher else "worse"


def _half_width(values: Sequence[float], baseline: Sequence[float], spread: float | None) -> float | None:
    known = [(stdev(side), len(side)) for side in (values, baseline) if len(side) > 1]
    sizes = (len(values), len(baseline))
    if len(known) == 2:
        return _welch(*known)
    if known:
        deviation, count = known[0]
        return t95(count - 1) * deviation * math.sqrt(1 / sizes[0] + 1 / sizes[1])
    if spread is None:
        return None
    means = (fmean(values), fmean(baseline))
    return _NORMAL95 * spread * math.hypot(means[0] / math.sqrt(sizes[0]), means[1] / math.sqrt(sizes[1]))


def _welch(one: tuple[float, int], other: tuple[float, int]) -> float:
    parts = [deviation**2 / count for deviation, count in (one, other)]
    total = sum(parts)
    if total == 0:
        return 0.0
    freedom = total**2 / sum(part**2 / (count - 1) for part, (_, count) in zip(parts, (one, other), strict=True))
    return t95(freedom) * math.sqrt(total)
