"""What a model's attention keeps per token: its kind, heads, latent ranks, windows and index dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from slipway.checkpoint.fields import Fields

Kind = Literal["mha", "gqa", "mla", "dsa", "swa", "hybrid"]


@dataclass(frozen=True)
class Attention:
    """Attention of one model. Counts are layers, heads and elements; 0 means the model has none.

    kind: mha, gqa, mla (latent), dsa (latent with a sparse index), swa (some layers see a window only),
    hybrid (some layers are Mamba or linear attention and keep a state instead of KV).
    full_layers, swa_layers, linear_layers: the three sorts; their sum may be below `layers` (MLP-only
    layers). compress_ratios: DeepSeek-V4, one number a layer: 0 keeps the window only, 4 and 128 compress.
    """

    kind: Kind
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    full_layers: int
    swa_layers: int = 0
    linear_layers: int = 0
    sliding_window: int = 0
    kv_lora_rank: int = 0
    q_lora_rank: int = 0
    o_lora_rank: int = 0
    o_groups: int = 0
    qk_rope_head_dim: int = 0
    qk_nope_head_dim: int = 0
    index_heads: int = 0
    index_head_dim: int = 0
    index_topk: int = 0
    compress_ratios: tuple[int, ...] = ()
    state_heads: int = 0
    state_head_dim: int = 0
    state_size: int = 0
    state_groups: int = 0
    state_conv: int = 0


def read_attention(config: Fields, family: dict[str, Any]) -> Attention:
    """Attention from config.json (or its text_config)."""
    layers = config.integer("num_hidden_layers", "n_layer", "num_layers")
    heads = config.integer("num_attention_heads", "n_head")
    kv_heads = config.integer("num_key_value_heads", "multi_query_group_num", default=heads)
    sorts = _sorts(config, layers)
    head_dim = _head_dim(config, heads)
    return Attention(
        kind=_kind(config, heads, kv_heads, sorts, bool(family["swa_pool"])),
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=config.integer("v_head_dim", default=head_dim),
        full_layers=sorts[0],
        swa_layers=sorts[1],
        linear_layers=sorts[2],
        sliding_window=config.integer("sliding_window", "attention_chunk_size"),
        **_latent(config, head_dim),
        **_state(config),
    )


def _head_dim(config: Fields, heads: int) -> int:
    """`head_dim` where given; hidden / heads otherwise.

    MLA models give the two parts of the query instead.
    """
    parts = config.integer("qk_nope_head_dim") + config.integer("qk_rope_head_dim")
    if config.integer("kv_lora_rank") and parts:
        return parts
    derived = config.integer("hidden_size", "n_embd") // heads if heads > 0 else 0
    return config.integer("head_dim", "attention_head_dim", default=derived)


def _latent(config: Fields, head_dim: int) -> dict[str, Any]:
    rope = config.integer("qk_rope_head_dim")
    return {
        "kv_lora_rank": config.integer("kv_lora_rank"),
        "q_lora_rank": config.integer("q_lora_rank"),
        "o_lora_rank": config.integer("o_lora_rank"),
        "o_groups": config.integer("o_groups"),
        "qk_rope_head_dim": rope,
        # DeepSeek-V4 gives the whole head and its rope part only
        "qk_nope_head_dim": config.integer("qk_nope_head_dim", default=max(head_dim - rope, 0) if rope else 0),
        "index_heads": config.integer("index_n_heads"),
        "index_head_dim": config.integer("index_head_dim"),
        "index_topk": config.integer("index_topk"),
        "compress_ratios": config.integers("compress_ratios"),
    }


def _state(config: Fields) -> dict[str, Any]:
    """The recurrent state of Mamba or linear-attention layers."""
    return {
        "state_heads": config.integer("mamba_num_heads", "linear_num_value_heads"),
        "state_head_dim": config.integer("mamba_head_dim", "linear_value_head_dim"),
        "state_size": config.integer("ssm_state_size", "linear_key_head_dim"),
        "state_groups": config.integer("n_groups", "linear_num_key_heads"),
        "state_conv": config.integer("conv_kernel", "linear_conv_kernel_dim"),
    }


def _sorts(config: Fields, layers: int) -> tuple[int, int, int]:
    """Layers with full attention, with a window, and with a recurrent state."""
    pattern = config.text("hybrid_override_pattern")
    if pattern:
        return pattern.count("*"), 0, pattern.count("M")
    types = config.strings("layer_types")
    if types:
        windowed = sum("sliding" in kind or "chunked" in kind for kind in types)
        linear = sum("linear" in kind or "mamba" in kind for kind in types)
        return len(types) - windowed - linear, windowed, linear
    return _sorts_by_period(config, layers)


def _sorts_by_period(config: Fields, layers: int) -> tuple[int, int, int]:
    """Configs that name a period: every n-th layer is the full one."""
    linear_period = config.integer("full_attention_interval")
    if linear_period > 0:
        return layers // linear_period, 0, layers - layers // linear_period
    window_period = config.integer("sliding_window_pattern")
    if window_period > 0 and config.integer("sliding_window") > 0:
        return layers // window_period, layers - layers // window_period, 0
    chunked = config.integers("no_rope_layers")
    if chunked and config.integer("attention_chunk_size") > 0:
        windowed = sum(item == 1 for item in chunked)
        return layers - min(windowed, layers), min(windowed, layers), 0
    return layers, 0, 0


def _kind(config: Fields, heads: int, kv_heads: int, sorts: tuple[int, int, int], swa_pool: bool) -> Kind:
    indexed = config.integer("index_topk") > 0 or config.integer("index_head_dim") > 0
    latent = config.integer("kv_lora_rank") > 0
    candidates: tuple[tuple[bool, Kind], ...] = (
        (bool(config.integers("compress_ratios")), "dsa"),
        (latent and indexed, "dsa"),
        (latent, "mla"),
        (sorts[2] > 0, "hybrid"),
        (sorts[1] > 0 or (swa_pool and config.integer("sliding_window") > 0), "swa"),
        (kv_heads < heads, "gqa"),
    )
    return next((kind for holds, kind in candidates if holds), "mha")
