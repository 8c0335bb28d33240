"""Clocks that differ: releases are told apart by number, but logs and records by time."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.finding import Finding

MOST_S = 30.0


def clock_findings(host: str, clock: float, began: float, ended: float) -> Iterator[Finding]:
    """A warning for a host whose clock, read between `began` and `ended` of ours, is far off. Seconds since 1970."""
    ahead, behind = clock - ended, began - clock
    if max(ahead, behind) > MOST_S:
        way = f"{ahead:.0f} s ahead of" if ahead > 0 else f"{behind:.0f} s behind"
        text = f"its clock is {way} this machine's: times in its logs and audit do not compare with those of others"
        fix = "set its clock (chrony or systemd-timesyncd); releases are ordered by number and are not affected"
        yield Finding("clock-skew", "warning", host, text, fix)
