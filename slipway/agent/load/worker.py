"""One process of the client: keeps its share of the streams full until there is nothing left to ask.

The loop does nothing but wait, receive and append; figures are made when a request has ended. How much of a core it
used and how long it waited for one is measured, so that a cell that the client slowed down can be told.
"""

from __future__ import annotations

import os
import resource
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .stream import WRITE, Stream
from .target import Target

TICK_S = 0.5
Next = Callable[[], int | None]


@dataclass
class Orders:
    """What a worker is to do. start: monotonic seconds to begin at. lasts_s: from then on, after which none is begun.

    payload: the bytes of a request by its index. asked: prompt and output tokens of every request.
    timeout_s: longest time of one request; silence_s: longest without a byte. pause_s: after a failed request.
    """

    target: Target
    payload: Callable[[int], bytes]
    asked: tuple[int, int]
    streamed: bool
    streams: int
    start: float
    lasts_s: float | None
    timeout_s: float
    silence_s: float
    pause_s: float


class Worker:
    """Runs the orders; `say` is called with what happened about twice a second."""

    def __init__(self, orders: Orders, draw: Next, say: Callable[[dict[str, Any]], None]) -> None:
        self._orders, self._draw, self._say = orders, draw, say
        self._epoll = select.epoll()
        self._open: dict[int, Stream] = {}
        self._waiting: dict[int, int] = {}
        self._until = None if orders.lasts_s is None else orders.start + orders.lasts_s
        self._idle = orders.streams  # places without a request
        self._rested = 0.0  # until when failed requests are answered by a rest
        self._exhausted = False
        self._gaps: dict[int, int] = {}
        self._seconds: dict[int, int] = {}
        self._new: list[dict[str, Any]] = []
        self._tokens = 0

    def run(self) -> dict[str, Any]:
        """Work until done; the sums of this process."""
        time.sleep(max(0.0, self._orders.start - time.monotonic()))
        spent, waited, began = cpu_seconds(), waited_seconds(), time.monotonic()
        ticked = began
        while True:
            self._fill()
            if not self._open and self._exhausted:
                break
            for descriptor, _ in self._epoll.poll(self._patience()):
                self._step(descriptor)
            if time.monotonic() - ticked >= TICK_S:
                ticked = time.monotonic()
                self._tick(ticked)
        self._report()
        return {
            "cpu_s": cpu_seconds() - spent, "waited_s": waited_seconds() - waited,
            "seconds": time.monotonic() - began, "gaps": self._gaps, "per_second": self._seconds,
        }  # fmt: skip

    def _patience(self) -> float:
        return 0.02 if self._idle and not self._exhausted else TICK_S

    def _fill(self) -> None:
        now = time.monotonic()
        while self._idle and not self._exhausted and now >= self._rested:
            if self._until is not None and now >= self._until:
                self._exhausted = True
                return
            index = self._draw()
            if index is None:
                return
            if index < 0:
                self._exhausted = True
                return
            self._begin(index)

    def _begin(self, index: int) -> None:
        orders = self._orders
        stream = Stream(orders.target, index, orders.payload(index), orders.streamed)
        descriptor = stream.open()
        if descriptor is None:
            self._count(stream)
            return
        self._idle -= 1
        self._open[descriptor], self._waiting[descriptor] = stream, WRITE
        self._epoll.register(descriptor, WRITE)

    def _step(self, descriptor: int) -> None:
        stream = self._open[descriptor]
        wanted = stream.ready()
        if not wanted:
            self._end(descriptor)
        elif wanted != self._waiting[descriptor]:
            self._waiting[descriptor] = wanted
            self._epoll.modify(descriptor, wanted)

    def _end(self, descriptor: int) -> None:
        """A closed socket has left the epoll set by itself."""
        stream = self._open.pop(descriptor)
        del self._waiting[descriptor]
        self._idle += 1
        self._count(stream)

    def _count(self, stream: Stream) -> None:
        row = stream.row(self._orders.asked)
        self._new.append(row)
        if stream.error:
            self._rested = time.monotonic() + self._orders.pause_s  # a server that is down is not hammered
            return
        times, start = stream.answer.times, self._orders.start
        self._tokens += row["output"] if row["output"] is not None else len(times)
        gaps, seconds = self._gaps, self._seconds
        for before, after in zip(times, times[1:]):  # noqa: B905, RUF007 - Python 3.9 has neither
            gap = int((after - before) * 1e6)
            gaps[gap] = gaps.get(gap, 0) + 1
        for moment in times:
            second = int(moment - start)
            seconds[second] = seconds.get(second, 0) + 1

    def _tick(self, now: float) -> None:
        orders = self._orders
        for descriptor, stream in list(self._open.items()):
            if now - stream.started > orders.timeout_s:
                stream.give_up(f"no complete answer within {orders.timeout_s:g} s")
                self._end(descriptor)
            elif now - stream.heard > orders.silence_s:
                stream.give_up(f"nothing was heard for {orders.silence_s:g} s")
                self._end(descriptor)
        self._report()

    def _report(self) -> None:
        partial = sum(len(stream.answer.times) for stream in self._open.values())
        self._say({"rows": self._new, "tokens": self._tokens + partial})
        self._new = []


def cpu_seconds() -> float:
    """Processor time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def waited_seconds() -> float:
    """Time that this process was ready to run and had no core; 0 where the kernel does not count it."""
    try:
        with open(f"/proc/{os.getpid()}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
