"""Scheduling sizes that depend on the GPU's memory."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.memory.assumed import assumed

from .conditions import as_number
from .facts import Worker
from .registry import worker_rule
from .transfer import real


@worker_rule(
    "chunk-large",
    "warning",
    title="Prefill chunks suit the GPU's memory",
    fix="leave chunked_prefill_size out, or stay within twice the engine's own",
    source="sgl-project/sglang#9787; sglang.md H; reported_faults.md 70",
    confidence="issue",
    roles=("prefill", "unified"),
)
def chunk_large(worker: Worker) -> Iterator[str]:
    """chunked_prefill_size of one attention-DP group is at most twice what the engine takes for that memory."""
    size = as_number(worker.get("given.chunked_prefill_size"))
    memory = min((gpu.memory_mib for gpu in worker.hardware.gpus), default=0) if worker.hardware else 0
    if not real(worker) or size is None or memory <= 0:
        return
    own = next(row["chunk"] for row in assumed()["defaults"] if memory / 1024 < row["below_gib"])
    share = size // worker.get("attn_dp")
    if share > 2 * own:
        yield f"chunked_prefill_size is {share} a GPU group, the engine's own for this memory is {own}: prefill stalls"
