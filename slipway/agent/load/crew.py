"""Several processes that share one load: forked, fed from one queue of numbers, and joined in one result."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .worker import Orders, Worker

NUMBER = struct.Struct("=i")
F_SETPIPE_SZ = 1031
START_S = 0.3  # from the fork to the first request: every process must be there by then
STREAMS_PER_PROCESS = 64
Tick = Callable[[list[dict[str, Any]], int], bool]


class CrewError(Exception):
    """A process of the client died."""


def processes_for(streams: int, wanted: int | None) -> int:
    """How many processes carry so many streams; `wanted` wins."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(streams, wanted or min(cores, -(-streams // STREAMS_PER_PROCESS))))


def run_load(orders: Orders, requests: int | None, processes: int, tick: Tick) -> dict[str, Any]:
    """Send `requests` requests (None: as many as there is time for) over orders.streams streams.

    tick: called about twice a second with the rows that came in since, and the tokens so far; False begins no more.
    Returns rows, gaps (ITL in microseconds -> how many), per_second, workers (processor time of each), start.
    Raises CrewError.
    """
    orders = replace(orders, start=time.monotonic() + START_S)
    queue = Queue(requests)
    members = [Member(share(orders, processes, number), queue) for number in range(processes)]
    try:
        return collect(members, queue, orders.start, tick)
    finally:
        queue.close()
        for member in members:
            member.end()


def share(orders: Orders, processes: int, number: int) -> Orders:
    """One process's part of the streams."""
    streams = orders.streams // processes + (number < orders.streams % processes)
    return replace(orders, streams=streams)


class Queue:
    """The numbers of the requests, in a pipe that all processes read from: whoever is free takes the next."""

    def __init__(self, requests: int | None) -> None:
        self.read, self._write = os.pipe()
        self._next, self._count = 0, requests
        for descriptor in (self.read, self._write):
            os.set_blocking(descriptor, False)
        self._widen()

    def _widen(self) -> None:
        try:
            fcntl.fcntl(self._write, F_SETPIPE_SZ, 1 << 20)
        except OSError:
            return  # a smaller pipe is fed more often

    def feed(self) -> None:
        """Fill up; close when all numbers are in."""
        while self._write >= 0 and (self._count is None or self._next < self._count):
            end = self._next + 256 if self._count is None else min(self._next + 256, self._count)
            try:
                sent = os.write(self._write, b"".join(NUMBER.pack(number) for number in range(self._next, end)))
            except BlockingIOError:
                return
            self._next += sent // NUMBER.size
        self.close()

    def close(self) -> None:
        """No more numbers."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def empty(self) -> None:
        """Take back what nobody has begun yet."""
        self.close()
        while self.draw() not in (None, -1):
            pass

    def draw(self) -> int | None:
        """The next number; None when there is none at the moment, -1 when there is no more."""
        try:
            data = os.read(self.read, NUMBER.size)
        except BlockingIOError:
            return None
        return int(NUMBER.unpack(data)[0]) if len(data) == NUMBER.size else -1


class Member:
    """One forked process and the pipe that it tells its figures through."""

    def __init__(self, orders: Orders, queue: Queue) -> None:
        self.read, write = os.pipe()
        self.result: dict[str, Any] | None = None
        self.tokens = 0
        self._buffer = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.read)
            self._work(orders, queue, write)
        os.close(write)
        os.set_blocking(self.read, False)

    def _work(self, orders: Orders, queue: Queue, write: int) -> None:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
            queue.close()
            result = Worker(orders, queue.draw, lambda said: send(write, said)).run()
            send(write, {"result": result})
            code = 0
        except BrokenPipeError:
            pass  # the parent is gone, and with it the reason to work
        finally:
            os._exit(code)

    def take(self) -> list[dict[str, Any]] | None:
        """Rows that came in since; None at the end."""
        try:
            data = os.read(self.read, 1 << 20)
        except BlockingIOError:
            return []
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        rows: list[dict[str, Any]] = []
        for line in lines:
            said = json.loads(line)
            self.result = said.get("result", self.result)
            self.tokens = said.get("tokens", self.tokens)
            rows += said.get("rows", ())
        return rows

    def end(self) -> None:
        """Nothing of it is left."""
        os.close(self.read)
        if self.result is None:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def send(descriptor: int, said: dict[str, Any]) -> None:
    """One line of JSON, whole."""
    data = json.dumps(said).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def collect(members: list[Member], queue: Queue, start: float, tick: Tick) -> dict[str, Any]:
    """Read until every process has said its last."""
    poll, open_ones = select.poll(), {member.read: member for member in members}
    for member in members:
        poll.register(member.read, select.POLLIN)
    rows: list[dict[str, Any]] = []
    while open_ones:
        queue.feed()
        new: list[dict[str, Any]] = []
        for descriptor, _ in poll.poll(500):
            taken = open_ones[descriptor].take()
            if taken is None:
                poll.unregister(descriptor)
                del open_ones[descriptor]
            new += taken or ()
        rows += new
        if not tick(new, sum(member.tokens for member in members)):
            queue.empty()
    return joined(members, rows, start)


def joined(members: list[Member], rows: list[dict[str, Any]], start: float) -> dict[str, Any]:
    """The result of all. Raises CrewError when one has none."""
    results = [member.result for member in members if member.result is not None]
    if len(results) < len(members):
        raise CrewError("a process of the client died; is the host out of memory?")
    return {
        "start": start,
        "rows": sorted(rows, key=lambda row: row["start"]),
        "gaps": summed([result["gaps"] for result in results]),
        "per_second": summed([result["per_second"] for result in results]),
        "workers": [{key: result[key] for key in ("cpu_s", "waited_s", "seconds")} for result in results],
    }


def summed(parts: list[dict[str, int]]) -> dict[int, int]:
    """Counts by number, over all processes."""
    total: dict[int, int] = {}
    for part in parts:
        for key, count in part.items():
            total[int(key)] = total.get(int(key), 0) + count
    return total
