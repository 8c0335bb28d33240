"""Bytes of weights on one GPU, from the model's shapes and its quantization."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipway.checkpoint import Checkpoint, Scheme
from slipway.checkpoint.scheme import dtype_scheme
from slipway.memory.assumed import assumed
from slipway.memory.layout import Layout


@dataclass(frozen=True)
class Part:
    """A part of the model's weights.

    parameters: in the whole model. share: of them, what the largest pipeline stage holds (0..1).
    split: GPUs of a stage over which that is divided; 1 means that each holds all of it.
    """

    label: str
    parameters: int
    scheme: Scheme
    share: float
    split: float

    @property
    def total_bytes(self) -> float:
        """Bytes in the whole model."""
        return self.parameters * self.scheme.bytes_per_weight

    @property
    def gpu_bytes(self) -> float:
        """Bytes on one GPU of the largest stage."""
        return self.total_bytes * self.share / self.split

    @property
    def expression(self) -> str:
        """The arithmetic of gpu_bytes."""
        text = f"{self.parameters:,} x {self.scheme.bytes_per_weight:.4g} B ({self.scheme})"
        text += f" x {self.share:.4g} of the layers" if self.share != 1 else ""
        return text + (f" / {self.split:g}" if self.split != 1 else "")


def stage_share(layers: int, pp: int) -> float:
    """Share of the layers in the largest pipeline stage."""
    return math.ceil(layers / pp) / layers if layers > 0 else 1.0


def weight_parts(checkpoint: Checkpoint, layout: Layout) -> tuple[Part, ...]:
    """All parts with parameters. Norms and biases are left out: they are below 0.1 %.

    Sources: the models' public shapes; the split follows SGLang: attention by attention TP, keys and values
    copied when there are fewer KV heads than ranks, experts by EP and then TP, embeddings whole under DP
    attention.
    """
    share = stage_share(checkpoint.attention.layers, layout.pp)
    parts = [
        *_attention_parts(checkpoint, layout, share),
        *_feed_forward_parts(checkpoint, layout, share),
        *_vocabulary_parts(checkpoint, layout),
        *_draft_parts(checkpoint, layout),
    ]
    return tuple(part for part in parts if part.parameters > 0)


def _attention_parts(checkpoint: Checkpoint, layout: Layout, share: float) -> list[Part]:
    attention, scheme = checkpoint.attention, checkpoint.quantization.attention
    layers = attention.full_layers + attention.swa_layers
    split, keys, whole = attention_parameters(checkpoint)
    ranks = layout.attn_tp
    return [
        Part("attention, split", split * layers, scheme, share, ranks),
        Part("attention, keys and values", keys * layers, scheme, share, min(ranks, max(attention.kv_heads, 1))),
        Part("attention, on each GPU", whole * layers, scheme, share, 1),
        Part("state layers", _state_parameters(checkpoint) * attention.linear_layers, scheme, share, ranks),
    ]


def attention_parameters(checkpoint: Checkpoint) -> tuple[int, int, int]:
    """Parameters of one layer.

    Split over ranks, of keys and values (split over KV heads), whole on each GPU.
    """
    if checkpoint.attention.compress_ratios:
        return _compressed_parameters(checkpoint)
    if checkpoint.attention.kv_lora_rank > 0:
        return _latent_parameters(checkpoint)
    shape, hidden = checkpoint.attention, checkpoint.hidden_size
    queries = hidden * shape.heads * shape.head_dim + shape.heads * shape.v_head_dim * hidden
    return queries, hidden * shape.kv_heads * (shape.head_dim + shape.v_head_dim), 0


def _latent_parameters(checkpoint: Checkpoint) -> tuple[int, int, int]:
    """MLA.

    The down projections (and a DSA indexer) are whole on each GPU, the up projections split by heads.
    """
    shape, hidden = checkpoint.attention, checkpoint.hidden_size
    head = shape.qk_nope_head_dim + shape.qk_rope_head_dim
    up = (shape.q_lora_rank or hidden) * shape.heads * head
    up += shape.kv_lora_rank * shape.heads * (shape.qk_nope_head_dim + shape.v_head_dim)
    out = shape.heads * shape.v_head_dim * hidden
    down = hidden * (shape.q_lora_rank + shape.kv_lora_rank + shape.qk_rope_head_dim)
    index = shape.index_heads * shape.index_head_dim * shape.q_lora_rank + hidden * shape.index_head_dim
    return up + out, 0, down + index


def _compressed_parameters(checkpoint: Checkpoint) -> tuple[int, int, int]:
    """DeepSeek-V4.

    One latent of head_dim, low-rank queries, grouped low-rank outputs, an index on ratio-4 layers.
    """
    shape, hidden = checkpoint.attention, checkpoint.hidden_size
    wide = shape.heads * shape.head_dim
    split = shape.q_lora_rank * wide + wide * shape.o_lora_rank + shape.o_groups * shape.o_lora_rank * hidden
    down = hidden * (shape.q_lora_rank + shape.head_dim)
    index = shape.q_lora_rank * shape.index_heads * shape.index_head_dim
    indexed = shape.compress_ratios.count(4) / max(shape.layers, 1)
    return split, 0, down + int(index * indexed)


def _state_parameters(checkpoint: Checkpoint) -> int:
    """One Mamba-2 layer: the input projection (gate, x, B, C, dt) and the output projection."""
    shape, hidden = checkpoint.attention, checkpoint.hidden_size
    inner = shape.state_heads * shape.state_head_dim
    return hidden * (3 * inner + 2 * shape.state_groups * shape.state_size + shape.state_heads)


def _feed_forward_parts(checkpoint: Checkpoint, layout: Layout, share: float) -> list[Part]:
    experts, schemes, hidden = checkpoint.experts, checkpoint.quantization, checkpoint.hidden_size
    one = experts.matrices * hidden * experts.intermediate
    # ep ranks hold whole experts, rounded up; the tp / ep ranks of each split them
    held = math.ceil(experts.routed / layout.ep) * layout.ep
    uneven = held / experts.routed if experts.routed else 1.0
    shared = experts.matrices * hidden * experts.shared_intermediate * experts.shared
    dense = experts.matrices * hidden * experts.dense_intermediate
    plain = dtype_scheme(checkpoint.dtype)
    return [
        Part("experts", one * experts.routed * experts.moe_layers, schemes.experts, share, layout.tp / uneven),
        Part(
            "shared experts",
            shared * experts.moe_layers,
            schemes.shared_experts,
            share,
            1 if layout.a2a else layout.tp,
        ),
        Part("routers", hidden * experts.routed * experts.moe_layers, plain, share, 1),
        Part("dense MLP", dense * experts.dense_layers, schemes.mlp, share, layout.tp),
    ]


def _vocabulary_parts(checkpoint: Checkpoint, layout: Layout) -> list[Part]:
    """The first stage has the embedding and the last the head, both of one size.

    One of them on the largest stage.
    """
    size = checkpoint.vocab_size * checkpoint.hidden_size
    head_share = 0.0 if layout.pp > 1 else 1.0
    whole = layout.attn_dp > 1
    return [
        Part("embedding", size, dtype_scheme(checkpoint.dtype), 1.0, 1 if whole else layout.tp),
        Part(
            "output head",
            0 if checkpoint.tied_embeddings else size,
            checkpoint.quantization.lm_head,
            head_share,
            layout.tp,
        ),
    ]


def _draft_parts(checkpoint: Checkpoint, layout: Layout) -> list[Part]:
    """MTP layers: in the checkpoint always, on the GPU only when they are used as draft."""
    split, keys, whole = attention_parameters(checkpoint)
    experts = checkpoint.experts
    one = experts.matrices * checkpoint.hidden_size
    body = one * (experts.routed * experts.intermediate + experts.shared * experts.shared_intermediate)
    body = body or one * experts.dense_intermediate
    scheme = checkpoint.quantization.experts if experts.routed else checkpoint.quantization.mlp
    count = checkpoint.mtp_layers * (split + keys + whole + body)
    return [Part("draft (MTP) layers", count, scheme, 1.0 if layout.speculative else 0.0, layout.tp)]


def measured_scale(parts: tuple[Part, ...], total_bytes: int) -> float:
    """Checkpoint bytes over the bytes by shapes.

    1 when the size is unknown, 0 when the shapes cannot be right.
    """
    by_shapes = sum(part.total_bytes for part in parts)
    if total_bytes <= 0 or by_shapes <= 0:
        return 1.0 if by_shapes > 0 else 0.0
    limits = assumed()["scale_within"]
    scale = total_bytes / by_shapes
    return scale if limits["lowest"] <= scale <= limits["highest"] else 0.0
