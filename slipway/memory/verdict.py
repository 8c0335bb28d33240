"""What follows from the figures: refused, tight, or fine. Each message carries its arithmetic."""

from __future__ import annotations

from slipway.checkpoint import Checkpoint
from slipway.finding import Finding, Severity
from slipway.memory.assumed import assumed, gib
from slipway.memory.layout import Layout, Use
from slipway.memory.outcome import MemoryPlan

_SOURCE = "slipway/memory/assumptions.yml; sglang.md H"


def verdict(plan: MemoryPlan, checkpoint: Checkpoint, layout: Layout, use: Use, subject: str) -> list[Finding]:
    """Findings about a plan whose figures are complete. Refusals come alone.

    What follows from them is no news.
    """
    refused = _refused(plan, layout, use, subject)
    if refused:
        return [refused]
    context = use.context_length or checkpoint.context_length
    tight = [_context(plan, context, subject), _little_kv(plan, use, subject), _reserve(plan, subject)]
    return [item for item in [*tight, _copied_heads(checkpoint, layout, subject)] if item is not None]


def _refused(plan: MemoryPlan, layout: Layout, use: Use, subject: str) -> Finding | None:
    static = plan.fraction * plan.usable
    sums = f"{gib(plan.weights)} of weights" + (f" and {gib(plan.state)} of request state" if plan.state else "")
    if plan.kv <= 0:
        message = (
            f"does not fit: {sums} a GPU (tp {layout.tp}, pp {layout.pp}) against {gib(static)} static "
            f"({plan.fraction:g} of {gib(plan.usable)} usable)"
        )
        return Finding("memory-does-not-fit", "error", subject, message, _way_out(plan, layout), _SOURCE)
    if plan.tokens < use.page_size or plan.tokens == 0:
        message = f"does not fit: {gib(plan.kv)} are left for KV, less than one page of {use.page_size} tokens"
        return Finding("memory-does-not-fit", "error", subject, message, _way_out(plan, layout), _SOURCE)
    return None


def _way_out(plan: MemoryPlan, layout: Layout) -> str:
    """A larger fraction where that is enough, else more GPUs."""
    highest = assumed()["fraction"]["highest"]
    needed = (plan.weights + plan.state) / plan.usable if plan.usable > 0 else 2.0
    fraction = needed + assumed()["tight"]["kv_share"]
    if plan.fraction < fraction <= highest:
        return f"set mem_fraction_static to {fraction:.2f} or more, if the reserve allows it, or raise tp or pp"
    ranks, factor = layout.tp * layout.pp, 2
    while needed / factor > highest - 0.15 and factor < 64:
        factor *= 2
    return f"use {ranks * factor} GPUs (tp x pp) instead of {ranks}, GPUs with more memory, or smaller weights"


def _context(plan: MemoryPlan, context: int, subject: str) -> Finding | None:
    if context <= 0 or plan.tokens >= context:
        return None
    message = f"{plan.tokens:,} tokens of KV fit, but one request may have {context:,}; longer ones are refused"
    fix = f"set context_length to {plan.tokens} or less, raise mem_fraction_static, or use more GPUs"
    return Finding("memory-context-too-long", "warning", subject, message, fix, _SOURCE)


def _little_kv(plan: MemoryPlan, use: Use, subject: str) -> Finding | None:
    share = plan.kv / use.gpu_memory_bytes
    if share >= assumed()["tight"]["kv_share"]:
        return None
    message = f"tight: {gib(plan.kv)} ({share:.1%} of the GPU) are left for KV, {plan.tokens:,} tokens"
    fix = "raise mem_fraction_static if the reserve allows it, use an FP8 KV cache, or more GPUs"
    return Finding("memory-tight", "warning", subject, message, fix, _SOURCE)


def _reserve(plan: MemoryPlan, subject: str) -> Finding | None:
    """A warning below half of the estimate only: fractions that leave about half of it are known to work.

    The cookbook's verified RTX PRO 6000 cell (0.92, sglang.md H) leaves 7.6 of an estimated 13 GiB.
    """
    if plan.reserve_left >= plan.reserve_needed:
        return None
    left, needed = gib(plan.reserve_left), gib(plan.reserve_needed)
    message = (
        f"mem_fraction_static {plan.fraction:g} leaves {left} for activations and CUDA graphs; "
        f"the engine's own estimate is {needed}"
    )
    fix = "if it runs out of memory: lower mem_fraction_static, chunked_prefill_size or cuda_graph_max_bs"
    source = f"{_SOURCE}; reported_faults.md 71"
    severity: Severity = "warning" if plan.reserve_left < plan.reserve_needed / 2 else "note"
    return Finding("memory-reserve-tight", severity, subject, message, fix, source)


def _copied_heads(checkpoint: Checkpoint, layout: Layout, subject: str) -> Finding | None:
    """GQA with fewer KV heads than ranks: every rank holds a copy, so more TP brings no more tokens a GPU."""
    attention = checkpoint.attention
    if attention.kv_lora_rank or attention.compress_ratios or not 0 < attention.kv_heads < layout.attn_tp:
        return None
    message = (
        f"attention TP {layout.attn_tp} exceeds {attention.kv_heads} KV heads: each head is kept "
        f"{layout.attn_tp // attention.kv_heads} times"
    )
    fix = "use attn_dp, or a smaller tp with more instances, if KV memory is short"
    return Finding("memory-kv-copied", "note", subject, message, fix, "sglang.md D2")
