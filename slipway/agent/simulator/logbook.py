"""Log lines in the shape of SGLang's own, on standard error, each written at once."""

from __future__ import annotations

import sys
import time
from http import HTTPStatus

# What a server with a *-log fault prints once it serves: wording of the real libraries.
KNOWN_BAD: dict[str, str] = {
    "nccl-timeout-log": "[rank0]:[E ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=4096, Timeout(ms)=600000) ran for "
    "600031 milliseconds",
    "watchdog-log": "Watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    "jit-failure-log": "RuntimeError: Ninja build failed. Ninja output: FAILED: kernel.cuda.o nvcc: not found",
    "oom-log": "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 912, "
    "new_token_ratio: 0.7000 -> 1.0000",
    "transfer-log": "Decode transfer failed for request rank=0 decode_req.req.rid='0' "
    "decode_req.req.bootstrap_room=1 with exception KVTransferError(bootstrap_room=1): Failed to get kvcache "
    "from prefill instance, it might be dead",
}

TRACEBACK = 'Traceback (most recent call last):\n  File "/srv/scheduler.py", line 1, in run_scheduler_process\n'


class Log:
    """Writes '[2026-11-29 22:37:21] text'; a scheduler's lines carry its rank when there are several."""

    def __init__(self, tp_size: int = 1) -> None:
        self._rank = " TP0" if tp_size > 1 else ""

    def line(self, text: str) -> None:
        """A line of the HTTP process."""
        sys.stderr.write(f"[{stamp()}] {text}\n")
        sys.stderr.flush()

    def scheduler(self, text: str) -> None:
        """A line of the scheduler process."""
        sys.stderr.write(f"[{stamp()}{self._rank}] {text}\n")
        sys.stderr.flush()

    def access(self, peer: str, request: str, status: int) -> None:
        """A line of uvicorn's access log; `request` is the request line."""
        self.line(f'INFO:     {peer} - "{request}" {status} {HTTPStatus(status).phrase}')

    def traceback(self, error: str) -> None:
        """An error of the scheduler as the engine prints it."""
        self.scheduler(f"Scheduler hit an exception: {TRACEBACK}{error}\n")


def stamp() -> str:
    """The time as the engine writes it."""
    return time.strftime("%Y-%m-%d %H:%M:%S")
