"""Whether one instance fits its GPUs.

Weights, KV cache, tokens and reserve, with the arithmetic and findings.
"""

from __future__ import annotations

import math
from dataclasses import replace

from slipway.checkpoint import Checkpoint
from slipway.finding import Finding
from slipway.memory.assumed import assumed
from slipway.memory.kv import Cost, kv_dtype, request_state, token_cost
from slipway.memory.layout import Layout, Use, layout_findings, use_findings
from slipway.memory.outcome import Line, MemoryPlan
from slipway.memory.reserve import Reserve, automatic_fraction, reserve_of
from slipway.memory.verdict import verdict
from slipway.memory.weights import Part, measured_scale, weight_parts


def plan_memory(checkpoint: Checkpoint, layout: Layout, use: Use, subject: str = "instance") -> MemoryPlan:
    """The memory of one GPU of the instance's largest pipeline stage.

    subject: the instance or role, for findings. Assumes what assumptions.yml lists; weights count as they are
    stored. Errors mean that it cannot start (`fits` is false), warnings that it is tight.
    """
    wrong = [*layout_findings(checkpoint, layout, subject), *use_findings(use, subject)]
    wrong += _unknown_size(checkpoint, subject)
    if wrong:
        return MemoryPlan(findings=tuple(wrong))
    lines, doubts = _weight_lines(checkpoint, layout, subject)
    plan = _filled(checkpoint, layout, use, lines)
    return replace(plan, findings=(*doubts, *verdict(plan, checkpoint, layout, use, subject)))


def weights_per_gpu(checkpoint: Checkpoint, layout: Layout) -> float:
    """Bytes of weights on one GPU; 0 when the files say neither shapes nor sizes."""
    return sum(line.bytes for line in _weight_lines(checkpoint, layout, "")[0])


def _unknown_size(checkpoint: Checkpoint, subject: str) -> list[Finding]:
    if checkpoint.attention.layers > 0 and (checkpoint.total_bytes > 0 or checkpoint.hidden_size > 0):
        return []
    message = "the checkpoint's files say neither its layers nor its size, so no memory can be reckoned"
    fix = "correct the findings about the checkpoint's files first"
    return [Finding("memory-unknown-model", "error", subject, message, fix)]


def _weight_lines(checkpoint: Checkpoint, layout: Layout, subject: str) -> tuple[list[Line], list[Finding]]:
    """Weights by parts, brought to the checkpoint's own size.

    By its size alone where the shapes do not explain it.
    """
    parts = weight_parts(checkpoint, layout)
    scale = measured_scale(parts, checkpoint.total_bytes)
    if scale:
        return [_part_line(part, scale) for part in parts if part.share > 0], []
    ranks = layout.tp * layout.pp
    words = f"{checkpoint.total_bytes:,} B of files / ({layout.tp} tp x {layout.pp} pp)"
    return [Line("weights", checkpoint.total_bytes / ranks, words)], [_shapes_differ(checkpoint, parts, subject)]


def _part_line(part: Part, scale: float) -> Line:
    words = part.expression + (f" x {scale:.4g} (files over shapes)" if scale != 1 else "")
    return Line(part.label, part.gpu_bytes * scale, words)


def _shapes_differ(checkpoint: Checkpoint, parts: tuple[Part, ...], subject: str) -> Finding:
    by_shapes = sum(part.total_bytes for part in parts)
    message = (
        f"the weights are {checkpoint.total_bytes / 1e9:,.1f} GB but the shapes in config.json give "
        f"{by_shapes / 1e9:,.1f} GB; the size is split evenly, parts that each GPU copies are not counted"
    )
    fix = "leave room: lower mem_fraction_static, and report the model so that its family can be described"
    return Finding("memory-shapes-differ", "warning", subject, message, fix, "slipway/memory/assumptions.yml")


def _filled(checkpoint: Checkpoint, layout: Layout, use: Use, weights: list[Line]) -> MemoryPlan:
    reserve = reserve_of(layout, use)
    fraction = use.mem_fraction_static or automatic_fraction(use, reserve)
    usable = max(use.gpu_memory_bytes - assumed()["context"]["bytes"], 0)
    held = sum(line.bytes for line in weights)
    cost, state = token_cost(checkpoint, layout, use), request_state(checkpoint, layout, use)
    kv = _kv_bytes(checkpoint, fraction * usable - held - state.bytes)
    return MemoryPlan(
        weights=held,
        state=state.bytes,
        kv=kv,
        per_token=cost.bytes,
        tokens=_whole_pages(kv, cost.bytes, use.page_size),
        fraction=fraction,
        kv_dtype=kv_dtype(checkpoint, use),
        usable=usable,
        reserve_needed=reserve.bytes,
        reserve_left=(1 - fraction) * use.gpu_memory_bytes,
        lines=(
            *weights,
            *_budget(use, fraction, usable),
            *_pool(checkpoint, cost, state, kv),
            *_beside(reserve),
        ),
    )


def _kv_bytes(checkpoint: Checkpoint, room: float) -> float:
    """KV's part of what weights leave: all of it, but hybrid models give a part to their recurrent states."""
    if checkpoint.attention.linear_layers == 0:
        return room
    return float(room / (1 + assumed()["hybrid_state"]["ratio"]))


def _whole_pages(kv: float, per_token: float, page: int) -> int:
    return math.floor(kv / per_token / page) * page if kv > 0 and per_token > 0 else 0


def _budget(use: Use, fraction: float, usable: float) -> list[Line]:
    context = use.gpu_memory_bytes - usable
    words = f"{fraction:g} x ({use.gpu_memory_bytes:,} B - {context:,.0f} B context)"
    return [Line("static memory", fraction * usable, words)]


def _pool(checkpoint: Checkpoint, cost: Cost, state: Cost, kv: float) -> list[Line]:
    words = "static memory - weights" + (" - request state" if state.bytes else "")
    if checkpoint.attention.linear_layers:
        words = f"({words}) / (1 + {assumed()['hybrid_state']['ratio']:g} for recurrent states)"
    lines = [Line("request state", state.bytes, state.expression)] if state.bytes else []
    return [*lines, Line("KV cache", kv, words), Line("KV of one token", cost.bytes, cost.expression)]


def _beside(reserve: Reserve) -> list[Line]:
    return [Line(f"reserve: {line.label}", line.bytes, line.expression) for line in reserve.lines]
