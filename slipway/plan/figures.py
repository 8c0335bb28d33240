"""Asks the memory arithmetic whether workers that are alike fit their GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.finding import Finding
from slipway.knowledge import gates, gpus
from slipway.memory import Layout, MemoryPlan, Use, plan_memory
from slipway.memory.layout import layout_findings
from slipway.memory.roofline import Roofline, roofline

from .kind import Kind

BYTES_PER_MIB = 2**20
# A prefill instance of these releases captures no CUDA graph at all.
_NO_GRAPHS = "prefill_disables_all_cuda_graphs"


def memory_of(kind: Kind, values: Mapping[str, Any], subject: str) -> MemoryPlan | None:
    """Memory of one GPU; None without a checkpoint or a GPU whose memory is known.

    values: what the engine runs with, by flag name: passed settings, and engine defaults where they are known.
    """
    if kind.checkpoint is None or not kind.checkpoint.usable or kind.memory <= 0:
        return None
    return plan_memory(kind.checkpoint, _layout(kind, values), _use(kind, values), subject)


def split_of(kind: Kind, values: Mapping[str, Any], subject: str) -> list[Finding]:
    """Splits that the engine refuses at its start, where memory is not reckoned. values: as for memory_of."""
    if kind.checkpoint is None or not kind.checkpoint.usable:
        return []
    return layout_findings(kind.checkpoint, _layout(kind, values), subject)


def roofline_of(kind: Kind, values: Mapping[str, Any]) -> Roofline | None:
    """The most that decode can do; None for prefill, and where the GPU or the checkpoint is not known.

    values: as for memory_of.
    """
    if kind.role == "prefill" or kind.checkpoint is None or not kind.checkpoint.usable or not kind.gpu:
        return None
    return roofline(kind.checkpoint, _layout(kind, values), gpus.find(kind.gpu), _tokens_a_step(values))


def _layout(kind: Kind, values: Mapping[str, Any]) -> Layout:
    return Layout(
        tp=kind.settings.tp,
        pp=kind.settings.pp,
        ep=kind.settings.ep,
        attn_dp=kind.attention_groups,
        a2a=values.get("moe_a2a_backend") not in (None, "none"),
        speculative=bool(values.get("speculative_algorithm")),
    )


def _tokens_a_step(values: Mapping[str, Any]) -> int:
    """Tokens that a request gains by one step at most: all drafted ones and the target's own."""
    if not values.get("speculative_algorithm"):
        return 1
    return max(_whole(values, "speculative_num_draft_tokens"), _whole(values, "speculative_num_steps") + 1)


def _use(kind: Kind, values: Mapping[str, Any]) -> Use:
    return Use(
        gpu_memory_bytes=kind.memory * BYTES_PER_MIB,
        mem_fraction_static=_number(values, "mem_fraction_static"),
        kv_cache_dtype=str(values.get("kv_cache_dtype") or "auto"),
        context_length=_whole(values, "context_length"),
        max_running_requests=_whole(values, "max_running_requests"),
        cuda_graph_max_bs=_graphs(kind, values),
        chunked_prefill_size=_whole(values, "chunked_prefill_size"),
        page_size=_whole(values, "page_size") or 1,
        swa_full_tokens_ratio=_number(values, "swa_full_tokens_ratio"),
    )


def _graphs(kind: Kind, values: Mapping[str, Any]) -> int:
    """The largest captured batch: 0 for no graphs, -1 for the engine's own choice."""
    without = kind.role == "prefill" and gates.holds(_NO_GRAPHS, kind.engine.version) is True
    if without or values.get("disable_cuda_graph") is True:
        return 0
    return _whole(values, "cuda_graph_max_bs") or -1


def _whole(values: Mapping[str, Any], name: str) -> int:
    """A count that someone wrote; 0 where there is none or it is no count (the flag's check says so)."""
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
