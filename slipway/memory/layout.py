"""How one instance spreads a model over its GPUs, and what it is asked to hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipway.checkpoint import Checkpoint
from slipway.finding import Finding


@dataclass(frozen=True)
class Layout:
    """Parallelism of one instance, in GPUs.

    tp: tensor, pp: pipeline, ep: experts (divides tp), attn_dp: data-parallel attention groups (divides tp).
    a2a: an all-to-all backend is in use, which keeps shared experts whole on each GPU.
    speculative: the MTP layers are loaded as draft.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    attn_dp: int = 1
    a2a: bool = False
    speculative: bool = False

    @property
    def attn_tp(self) -> int:
        """GPUs that share one copy of the attention (sglang.md D2: tp / attn_dp)."""
        return max(self.tp // max(self.attn_dp, 1), 1)


@dataclass(frozen=True)
class Use:
    """What an instance is asked to hold. 0 (or -1 for graphs) means the engine's own choice.

    gpu_memory_bytes: of one GPU, as nvidia-smi reports it. mem_fraction_static: 0..1. kv_cache_dtype:
    SGLang's spelling. context_length, chunked_prefill_size, page_size: tokens. max_running_requests: of the
    instance. cuda_graph_max_bs: largest captured batch, 0 for no graphs. swa_full_tokens_ratio: 0..1.
    """

    gpu_memory_bytes: int
    mem_fraction_static: float = 0.0
    kv_cache_dtype: str = "auto"
    context_length: int = 0
    max_running_requests: int = 0
    cuda_graph_max_bs: int = -1
    chunked_prefill_size: int = 0
    page_size: int = 1
    swa_full_tokens_ratio: float = 0.0


def layout_findings(checkpoint: Checkpoint, layout: Layout, subject: str) -> list[Finding]:
    """Layouts that SGLang cannot start, whatever the memory."""
    sizes = {"tp": layout.tp, "pp": layout.pp, "ep": layout.ep, "attn_dp": layout.attn_dp}
    wrong = [f"{name}: got {size}; must be 1 or more" for name, size in sizes.items() if size < 1]
    wrong = wrong or _divisions(checkpoint, layout)
    fix = "choose tp, pp, ep and attn_dp that divide the model's heads, layers and experts"
    return [Finding("memory-layout", "error", subject, message, fix, "sglang.md C4, D2") for message in wrong]


def _divisions(checkpoint: Checkpoint, layout: Layout) -> list[str]:
    heads, layers = checkpoint.attention.heads, checkpoint.attention.layers
    routed = checkpoint.experts.routed
    checks = (
        (layout.tp % layout.attn_dp, f"attn_dp {layout.attn_dp} must divide tp {layout.tp}"),
        (layout.tp % layout.ep, f"ep {layout.ep} must divide tp {layout.tp}"),
        (heads % layout.attn_tp, f"the attention TP {layout.attn_tp} must divide {heads} heads"),
        (layout.pp > layers > 0, f"pp {layout.pp} must not exceed {layers} layers"),
        (routed > 0 and layout.ep > routed, f"ep {layout.ep} must not exceed {routed} experts"),
    )
    return [message for failed, message in checks if failed]


def use_findings(use: Use, subject: str) -> list[Finding]:
    """Figures outside their range."""
    fraction, ratio = use.mem_fraction_static, use.swa_full_tokens_ratio
    checks = (
        (use.gpu_memory_bytes > 0, f"gpu_memory_bytes: got {use.gpu_memory_bytes}; must be positive"),
        (
            math.isfinite(fraction) and 0 <= fraction < 1,
            f"mem_fraction_static: got {fraction}; must be in 0..1",
        ),
        (math.isfinite(ratio) and 0 <= ratio <= 1, f"swa_full_tokens_ratio: got {ratio}; must be in 0..1"),
        (use.page_size > 0, f"page_size: got {use.page_size}; must be positive"),
    )
    fix = "correct the setting of this role or instance"
    return [Finding("memory-setting", "error", subject, message, fix) for holds, message in checks if not holds]
