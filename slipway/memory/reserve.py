"""What must stay free beside weights and KV: activations, CUDA graphs, communication buffers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slipway.memory.assumed import GIB, assumed
from slipway.memory.layout import Layout, Use
from slipway.memory.outcome import Line


@dataclass(frozen=True)
class Reserve:
    """The estimate with its steps (sglang.md H gives the formula.

    Nothing of it was measured on a large model).
    """

    bytes: float
    lines: tuple[Line, ...]


def chunk_tokens(use: Use) -> int:
    """Tokens of a prefill chunk: the setting, or the engine's choice by GPU memory."""
    return use.chunked_prefill_size if use.chunked_prefill_size > 0 else int(_defaults(use)["chunk"])


def graph_batches(layout: Layout, use: Use) -> int:
    """The largest batch with a CUDA graph: the setting (0 for none), or the engine's choice."""
    if use.cuda_graph_max_bs >= 0:
        return use.cuda_graph_max_bs
    return int(_defaults(use)["graph_batches"][1 if layout.tp >= 4 else 0])


def _defaults(use: Use) -> dict[str, Any]:
    rows: list[dict[str, Any]] = assumed()["defaults"]
    size = use.gpu_memory_bytes / GIB
    return next((row for row in rows if size < row["below_gib"]), rows[-1])


def reserve_of(layout: Layout, use: Use) -> Reserve:
    """The reserve of one GPU, in bytes."""
    rows = assumed()["reserve"]
    chunk, graphs, ranks = chunk_tokens(use), graph_batches(layout, use), layout.tp * layout.pp
    steps: tuple[Line, ...] = (
        Line("runtime", rows["runtime"]["bytes"], "fixed"),
        Line("activations", chunk * rows["per_activation_token"]["bytes"], f"{chunk} chunk tokens x 1.5 MiB"),
        Line("communication", ranks * rows["per_rank"]["bytes"], f"{ranks} ranks x 128 MiB"),
        Line("CUDA graphs", graphs * rows["per_graph_batch"]["bytes"], f"up to batch {graphs} x 2 MiB"),
    )
    total = sum(step.bytes for step in steps)
    floor = rows["floor"]
    if use.gpu_memory_bytes > floor["above_gpu_bytes"] and total < floor["bytes"]:
        steps += (Line("up to the engine's floor", floor["bytes"] - total, "at least 10 GiB on large GPUs"),)
        total = floor["bytes"]
    return Reserve(float(total), steps)


def automatic_fraction(use: Use, reserve: Reserve) -> float:
    """mem_fraction_static as the engine chooses it: what the reserve leaves, within bounds."""
    limits: dict[str, float] = assumed()["fraction"]
    wanted = 1 - reserve.bytes / use.gpu_memory_bytes
    return math.floor(min(max(wanted, limits["lowest"]), limits["highest"]) * 1000) / 1000
