"""Notices what clocks can do to a measurement: a jump of the wall clock, and a host that slept."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

JUMP_S = 0.5
DRIFT = 0.001  # NTP may slew by 500 ppm; twice that is no jump


class Clocks:
    """The clocks as they stood at the beginning."""

    def __init__(self) -> None:
        self.wall, self.steady, self._boot = time.time(), time.monotonic(), boot_time()

    def wall_at(self, moment: float) -> float:
        """Unix seconds of a monotonic moment."""
        return self.wall + moment - self.steady

    @staticmethod
    def iso(moment: float) -> str:
        """A moment as text, UTC."""
        return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017

    def jumps(self) -> dict[str, list[str]]:
        """Since the beginning: notes on a jump of the wall clock, reasons to void what a suspended host measured."""
        steady = time.monotonic() - self.steady
        return told(steady, time.time() - self.wall, boot_time() - self._boot)


def told(steady: float, wall: float, boot: float) -> dict[str, list[Any]]:
    """What three clocks that ran for so many seconds say of one another."""
    notes, reasons = [], []
    allowed = max(JUMP_S, DRIFT * steady)
    slept = boot - steady
    if slept > allowed:
        reasons.append(f"the host slept for {slept:.1f} s in the middle of the cell")
    jump = wall - max(boot, steady)
    if abs(jump) > allowed:
        notes.append(f"the wall clock jumped by {jump:+.1f} s during the cell; durations are of the monotonic clock")
    return {"notes": notes, "reasons": reasons}


def boot_time() -> float:
    """Seconds since boot, time asleep included; the monotonic clock where there is no such clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()
