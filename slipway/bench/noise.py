"""Whether a difference is one: repeats give a spread, and a difference inside the spread is called noise.

Figures are compared as ratios: what disturbs a run, disturbs it by a share of its figure. So the logarithms of the
runs are taken, and their means compared by Student's t interval at 95 %, with one spread for both sides, as they are
measured alike. A side with one run has the other's spread; where no side has repeats, it is one that the reader names;
with none, nothing can be said, and it is said that nothing can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

Verdict = Literal["better", "worse", "noise", "differs", "unknown"]
# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
# fmt: off
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
# fmt: on
_NORMAL95 = 1.960
_ENORMOUS = 20.0  # an interval of a factor of e^20 is as good as endless


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


def compare(
    values: Sequence[float], baseline: Sequence[float], higher: bool | None, spread: float | None = None
) -> Difference:
    """Compare the runs of one figure. higher: whether more is better; None where neither way is.

    spread: relative standard deviation of a run (0.02 is 2 %), for where no side has repeats.
    """
    value, base = fmean(values), fmean(baseline)
    if min(*values, *baseline) > 0:
        logs = [[math.log(one) for one in side] for side in (values, baseline)]
        delta, half = fmean(logs[0]) - fmean(logs[1]), _half_width(logs[0], logs[1], spread)
        shown = None if half is None else base * math.exp(delta) * math.sinh(min(half, _ENORMOUS))
        return Difference(value, base, shown, _verdict(delta, half, higher))
    half = _half_width(values, baseline, None)  # a count of failures, say, has no ratio to 0
    return Difference(value, base, half, _verdict(value - base, half, higher))


def _verdict(delta: float, half: float | None, higher: bool | None) -> Verdict:
    if half is None:
        return "unknown"
    if abs(delta) <= half:
        return "noise"
    if higher is None:
        return "differs"
    return "better" if (delta > 0) == higher else "worse"


def _half_width(one: Sequence[float], other: Sequence[float], spread: float | None) -> float | None:
    """Half the width of the interval of the difference of means."""
    scale = math.sqrt(1 / len(one) + 1 / len(other))
    freedom = len(one) + len(other) - 2
    if freedom:
        squares = sum((value - fmean(side)) ** 2 for side in (one, other) for value in side)
        return t95(freedom) * math.sqrt(squares / freedom) * scale
    return None if spread is None else _NORMAL95 * spread * scale
