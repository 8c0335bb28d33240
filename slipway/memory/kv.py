"""Bytes of KV cache that one token costs on one GPU, and the state that one request costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slipway.checkpoint import Checkpoint
from slipway.memory.assumed import assumed
from slipway.memory.layout import Layout, Use
from slipway.memory.weights import stage_share


@dataclass(frozen=True)
class Cost:
    """Bytes with the arithmetic that gives them."""

    bytes: float
    expression: str


def kv_dtype(checkpoint: Checkpoint, use: Use) -> str:
    """The dtype that the KV cache ends with: the user's, else the checkpoint's, else the model's."""
    if use.kv_cache_dtype != "auto":
        return use.kv_cache_dtype
    declared = checkpoint.quantization.kv_cache
    if declared != "auto":
        return declared
    return "float32" if checkpoint.dtype == "float32" else "bfloat16"


def element_bytes(dtype: str) -> float:
    """Bytes of one KV element; an unknown dtype counts as bfloat16, the safe side."""
    return float(assumed()["kv_dtypes"].get(dtype, 2.0))


def token_cost(checkpoint: Checkpoint, layout: Layout, use: Use) -> Cost:
    """Bytes of one token on one GPU of the largest pipeline stage, after SGLang's pool configurators."""
    attention = checkpoint.attention
    if attention.compress_ratios:
        kind: Callable[[Checkpoint, Layout, Use], Cost] = _compressed
    elif attention.kv_lora_rank > 0:
        kind = _latent
    else:
        kind = _heads
    cost = kind(checkpoint, layout, use)
    return _with_draft(cost, checkpoint, layout)


def _with_draft(cost: Cost, checkpoint: Checkpoint, layout: Layout) -> Cost:
    """A draft keeps KV for its own layers: the cost grows by draft layers over layers."""
    layers, draft = checkpoint.attention.layers, checkpoint.mtp_layers
    if not layout.speculative or layers <= 0 or draft <= 0:
        return cost
    return Cost(cost.bytes * (1 + draft / layers), f"({cost.expression}) x (1 + {draft}/{layers} draft)")


def _heads(checkpoint: Checkpoint, layout: Layout, use: Use) -> Cost:
    """MHA and GQA: each rank keeps its heads, at least one. Window layers keep a share of the tokens only."""
    attention = checkpoint.attention
    local = -(-attention.kv_heads // layout.attn_tp)
    size = element_bytes(kv_dtype(checkpoint, use))
    share = stage_share(attention.layers, layout.pp)
    ratio = _window_ratio(checkpoint, use)
    layers = (attention.full_layers + ratio * attention.swa_layers) * share
    words = f"{local} KV heads x ({attention.head_dim} + {attention.v_head_dim}) x {size:g} B"
    layer_words = f"{attention.full_layers} layers"
    if attention.swa_layers:
        layer_words = f"({attention.full_layers} full + {ratio:g} x {attention.swa_layers} window layers)"
    words += f" x {layer_words}" + (f" x {share:.4g} of them" if share != 1 else "")
    return Cost(max(local, 0) * (attention.head_dim + attention.v_head_dim) * size * layers, words)


def _window_ratio(checkpoint: Checkpoint, use: Use) -> float:
    """Tokens of the window pool over tokens of the full pool; 1 where SGLang keeps no separate pool."""
    if checkpoint.swa_ratio <= 0:
        return 1.0
    return use.swa_full_tokens_ratio or checkpoint.swa_ratio


def _latent(checkpoint: Checkpoint, layout: Layout, use: Use) -> Cost:
    """MLA: every rank keeps the whole latent. DSA adds the index keys."""
    attention = checkpoint.attention
    dtype = kv_dtype(checkpoint, use)
    size = element_bytes(dtype)
    share = stage_share(attention.layers, layout.pp)
    latent = (attention.kv_lora_rank + attention.qk_rope_head_dim) * size
    words = f"({attention.kv_lora_rank} + {attention.qk_rope_head_dim}) x {size:g} B"
    if attention.kind == "dsa" and dtype == "fp8_e4m3":
        latent = float(assumed()["dsa_fp8"]["bytes_per_token"])
        words = f"{latent:g} B (packed FP8 latent)"
    index = _index_bytes(attention.index_head_dim)
    words = f"({words}" + (f" + {index} B index" if index else "") + f") x {attention.layers} layers"
    words += f" x {share:.4g} of them" if share != 1 else ""
    return Cost((latent + index) * attention.layers * share, words)


def _index_bytes(head_dim: int) -> int:
    """One FP8 index key with a float scale per 128 elements."""
    scale = assumed()["index_scale"]
    return int(head_dim + head_dim // scale["block"] * scale["bytes"])


def _compressed(checkpoint: Checkpoint, layout: Layout, use: Use) -> Cost:
    """DeepSeek-V4.

    Window pool for every layer, one latent per 4 or per 128 tokens, index keys per 4 tokens.
    """
    attention, row = checkpoint.attention, assumed()["deepseek_v4"]
    ratios = attention.compress_ratios[: attention.layers]
    fours, many = ratios.count(4), ratios.count(128)
    latent = attention.qk_nope_head_dim + 2 * attention.qk_rope_head_dim + row["extra"]
    window = use.swa_full_tokens_ratio or checkpoint.swa_ratio
    rings = (row["ring_speculative"] if layout.speculative else row["ring"]) / row["page"]
    state = 4 * (attention.head_dim + attention.index_head_dim) * row["state_bytes"]
    index = _index_bytes(attention.index_head_dim)
    total = window * latent * len(ratios) + latent * (fours / 4 + many / 128) + index * fours / 4
    total += window * rings * state * fours
    share = stage_share(attention.layers, layout.pp)
    words = (
        f"{latent} B x ({window:g} x {len(ratios)} + {fours}/4 + {many}/128) + {index} B x {fours}/4"
        f" + {window:g} x {rings:g} x {state} B x {fours}"
    )
    return Cost(total * share, f"({words})" + (f" x {share:.4g} of the layers" if share != 1 else ""))


def request_state(checkpoint: Checkpoint, layout: Layout, use: Use) -> Cost:
    """Bytes that do not grow with tokens: DeepSeek-V4's state rings of the 128-token layers, per request."""
    attention, row = checkpoint.attention, assumed()["deepseek_v4"]
    many = attention.compress_ratios[: attention.layers].count(128)
    if many == 0:
        return Cost(0.0, "none")
    requests = (use.max_running_requests or row["default_requests"]) // max(layout.attn_dp, 1)
    ring = 256 if layout.speculative else 128
    rows = -(-((requests + 1) * ring + ring + 1) // 128) * 128
    share = stage_share(attention.layers, layout.pp)
    cost = rows * 2 * attention.head_dim * row["state_bytes"] * many * share
    words = f"{rows:,} rows x 2 x {attention.head_dim} x {row['state_bytes']} B x {many} layers"
    words += f" for {requests} requests"
    return Cost(cost, words)
