"""How fast a fetch goes: held below a cap, and told in a line that is the job's last."""

from __future__ import annotations

import threading
import time
from typing import Any

LARGEST = 2 * 1024 * 1024  # bytes: a fifth less CPU than 256 kB, and 4 MiB brought nothing more (measured)
SMALLEST = 16 * 1024  # a TLS record
PIECES_A_SECOND = 64  # of all threads under a cap


class Pace:
    """Counts bytes of all threads. cap: bytes a second, 0 for none. total: what is to come, begun: what is there."""

    def __init__(self, total: int, begun: int, files: int, cap: float = 0.0, every_s: float = 1.0) -> None:
        self.total, self.done, self.files, self.finished, self.cap = total, begun, files, 0, cap
        self.every_s, self.came, self.began = every_s, 0, time.monotonic()
        self.lock, self.closing = threading.Lock(), threading.Event()
        self.notes: list[tuple[float, int]] = []
        self.thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Pace:
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.closing.set()
        self.thread.join()

    def add(self, count: int) -> None:
        """Count bytes that came, and wait when they came faster than they may."""
        with self.lock:
            self.done += count
            self.came += count
            early = self.came / self.cap - (time.monotonic() - self.began) if self.cap else 0.0
        if early > 0:
            self.closing.wait(early)

    @property
    def piece(self) -> int:
        """Bytes to take at once: few under a low cap, so that they come evenly and are told as they come."""
        return int(min(max(self.cap / PIECES_A_SECOND, SMALLEST), LARGEST)) if self.cap else LARGEST

    def lost(self, count: int) -> None:
        """Bytes that have to come again."""
        with self.lock:
            self.done -= count

    def file(self) -> None:
        """One file more is there and proven."""
        with self.lock:
            self.finished += 1

    def line(self, now: float) -> str:
        """Bytes, rate, time left and files, over the last ten seconds."""
        self.notes = [*self.notes, (now, self.came)][-10:]
        (first, before), (last, after) = self.notes[0], self.notes[-1]
        rate = (after - before) / (last - first) if last > first else 0.0
        share = 100 * self.done / max(self.total, 1)
        left = f"{duration((self.total - self.done) / rate)} left" if rate > 0 else "nothing comes"
        return (
            f"{size(self.done)} of {size(self.total)} ({share:.0f}%), {size(rate)}/s, {left}, "
            f"{self.finished} of {self.files} files"
        )

    def _tell(self) -> None:
        self.notes = [(self.began, 0)]
        while not self.closing.wait(self.every_s):
            print(self.line(time.monotonic()), flush=True)


def size(count: float) -> str:
    """Bytes in the unit that leaves the fewest digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} TB"


def duration(seconds: float) -> str:
    """A time as people say it."""
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
