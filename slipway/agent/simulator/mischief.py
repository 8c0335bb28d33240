"""Faults that touch requests and the process: hanging, dropping, refusing, dying."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import NoReturn

from .faults import Faults
from .logbook import KNOWN_BAD, Log
from .web import ConnectionCutError

TRANSFER_EVERY = 5  # requests a line of transfer-log


class EngineError(Exception):
    """A request that the engine refuses or fails, with the HTTP status and error type for the client."""

    def __init__(self, status: int, message: str, kind: str = "BadRequest") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class Mischief:
    """Stands before each generation request and does what the faults say."""

    def __init__(self, faults: Faults, log: Log) -> None:
        self._faults = faults
        self._log = log
        self._seen = 0

    async def before(self, running: int, samples: int) -> None:
        """Called once for each client request; `running` counts those already in the engine."""
        self._seen += 1
        if self._faults.on("transfer-log") and self._seen % TRANSFER_EVERY == 0:
            self._log.scheduler(KNOWN_BAD["transfer-log"])
        self._die(running)
        self._refuse(running)
        await self._hang(samples)

    def _die(self, running: int) -> None:
        if self._faults.on("dies-at-first-request"):
            self._log.traceback("RuntimeError: CUDA error: no kernel image is available for execution on the device")
            die()
        if self._faults.beyond("crash-on-burst", running + 1):
            self._log.traceback("RuntimeError: CUDA error: an illegal memory access was encountered")
            die()

    def _refuse(self, running: int) -> None:
        if self._faults.on("drops-every-nth") and self._seen % int(self._faults.number("drops-every-nth")) == 0:
            raise ConnectionCutError
        if self._faults.beyond("burst-loses", running + 1):
            raise ConnectionCutError
        if self._faults.beyond("500-on-burst", running + 1):
            raise EngineError(500, "Internal server error: CUDA error", "InternalServerError")
        if self._faults.beyond("queue-full", running + 1):
            raise EngineError(503, "The request queue is full.", "503")

    async def _hang(self, samples: int) -> None:
        if self._faults.on("watchdog-kills"):
            await asyncio.sleep(self._faults.number("watchdog-kills"))
            self._log.scheduler("Watchdog timeout (self.watchdog_timeout=300, self.soft=False)")
            self._log.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
            die()
        if self._faults.on("health-ok-generation-hangs") or self._faults.beyond("hang-after", self._seen):
            await forever()
        if self._faults.on("hang-n2") and samples > 1:
            await forever()


async def forever() -> NoReturn:
    """Wait until the client or the process gives up."""
    while True:
        await asyncio.sleep(3600)


def die() -> NoReturn:
    """End as the engine does when a child crashed: it kills its own process tree, itself included."""
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(137)  # not reached
