"""How fast decode can be at most: bytes of weights that a step must read, over the GPU's memory bandwidth.

An upper bound. Reads of the KV cache, kernels that do not reach the bandwidth, communication, sampling and the draft's
own weights are left out; all of them make the real speed lower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.checkpoint import Checkpoint
from slipway.knowledge.gpus import Gpu
from slipway.memory.layout import Layout
from slipway.memory.weights import Part, measured_scale, weight_parts

_LOOKED_UP = "embedding"  # a step reads one row of it a token
_DRAFT = "draft (MTP) layers"
_EXPERTS = "experts"


@dataclass(frozen=True)
class Roofline:
    """What one step of decode reads on one GPU. Bytes; bandwidth in bytes a second.

    always: read whatever the batch. experts: of all routed experts; a token reads active of routed of them.
    tokens_a_step: most that one request gains by a step, more than one with speculation. lines: the arithmetic.
    """

    gpu: str
    bandwidth: float
    always: float
    experts: float
    routed: int
    active: int
    tokens_a_step: int
    lines: tuple[str, ...]

    def bytes_read(self, batch: float = 1.0) -> float:
        """Bytes of a step with `batch` requests, when each token chooses experts evenly and by itself."""
        if not self.routed:
            return self.always
        untouched = math.pow(1 - self.active / self.routed, max(batch, 1.0))
        return self.always + self.experts * (1 - untouched)

    def user_speed(self, batch: float = 1.0) -> float:
        """Output tok/s of one of `batch` requests at most."""
        return self.tokens_a_step * self.bandwidth / self.bytes_read(batch)


def roofline(checkpoint: Checkpoint, layout: Layout, gpu: Gpu | None, tokens_a_step: int = 1) -> Roofline | None:
    """The bound of an instance; None where the bandwidth or the model's shapes are not known.

    A pipeline's stages are read one after the other by a token, so they count as one.
    """
    whole = Layout(layout.tp, 1, layout.ep, layout.attn_dp, layout.a2a, layout.speculative)
    parts = weight_parts(checkpoint, whole)
    scale = measured_scale(parts, checkpoint.total_bytes)
    if gpu is None or not gpu.bandwidth_gb_s or not scale:
        return None
    read = [part for part in parts if _is_read(part, checkpoint)]
    experts = sum(part.gpu_bytes * scale for part in read if part.label == _EXPERTS)
    always = sum(part.gpu_bytes * scale for part in read if part.label != _EXPERTS)
    if always + experts <= 0:
        return None
    routed, active = (checkpoint.experts.routed, checkpoint.experts.active) if experts else (0, 0)
    lines = _lines(read, scale, gpu, checkpoint, tokens_a_step)
    found = Roofline(gpu.name, gpu.bandwidth_gb_s * 1e9, always, experts, routed, active, tokens_a_step, lines)
    return found if not routed or 0 < active <= routed else None


def _is_read(part: Part, checkpoint: Checkpoint) -> bool:
    """Draft layers are left out: with them the bound would be lower."""
    if part.label == _LOOKED_UP:
        return checkpoint.tied_embeddings  # it is the output head as well
    return part.label != _DRAFT


def _lines(parts: list[Part], scale: float, gpu: Gpu, checkpoint: Checkpoint, tokens: int) -> tuple[str, ...]:
    lines = []
    for part in parts:
        size, text = part.gpu_bytes * scale, part.expression + (f" x {scale:.4g} (files over shapes)" * (scale != 1))
        if part.label == _EXPERTS:
            experts = checkpoint.experts
            size, text = size * experts.active / experts.routed, f"{text} x {experts.active}/{experts.routed} chosen"
        lines.append(f"{part.label}: {size / 1e9:.4g} GB = {text}")
    lines.append(f"{gpu.name}: {gpu.bandwidth_gb_s:g} GB/s ({gpu.source})")
    return (*lines, *([f"speculation: at most {tokens} tokens a step"] if tokens > 1 else []))


def read_roofline(data: Mapping[str, Any] | None) -> Roofline | None:
    """As a recorded plan has it; None where it has none."""
    if not data:
        return None
    return Roofline(**{**data, "lines": tuple(data["lines"])})
