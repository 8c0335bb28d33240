"""The engine's profiler: /start_profile and /stop_profile, and a trace in torch's format with a known truth in it.

Every token that was made in between is a decode step of the same kernels, under names that real ones have.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from typing import Any

# Kernel, category, microseconds a decode step: 200 in all.
STEP: tuple[tuple[str, str, float], ...] = (
    ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "kernel", 90.0),
    (
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 1u>(Params)",
        "kernel",
        60.0,
    ),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", 30.0),
    ("fused_moe_kernel", "kernel", 12.0),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >", "kernel", 6.0),
    ("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", 2.0),
)
PITCH_US = 250.0  # from the start of a step to that of the next: a fifth of the time the GPU does nothing
MOST_STEPS = 20_000


class Profiler:
    """At most one profile at a time, as in the engine."""

    def __init__(self, rank: str = "TP-0") -> None:
        self._rank = rank
        self._folder = ""
        self._made = 0
        self._id = ""

    def start(self, body: dict[str, Any], made: int) -> str:
        """'' when it runs now, else why not. made: tokens up to now."""
        if self._folder:
            return "Profiling is already in progress. Call /stop_profile first."
        self._folder = str(body.get("output_dir") or os.environ.get("SGLANG_TORCH_PROFILER_DIR") or "/tmp")  # noqa: S108
        self._made, self._id = made, str(time.time())
        return ""

    def stop(self, made: int) -> str:
        """'' when the trace is written, else why not."""
        if not self._folder:
            return "Profiling is not in progress. Call /start_profile first."
        folder, self._folder = self._folder, ""
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{self._id}-{self._rank}.trace.json.gz")
        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(trace(min(made - self._made, MOST_STEPS)), file)
        return ""


def trace(steps: int) -> dict[str, Any]:
    """A trace of so many decode steps."""
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "simulated GPU"}}]
    for step in range(steps):
        at = step * PITCH_US
        row = {"ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": PITCH_US, "cat": "user_annotation"}
        events.append({**row, "name": "step[DECODE bs=1]"})
        for name, category, length in STEP:
            events.append({"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": at, "dur": length})
            at += length
    return {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events, "traceName": "simulated"}
