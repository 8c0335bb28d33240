"""The feed-forward half of a model: dense layers, routed and shared experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipway.checkpoint.fields import Fields


@dataclass(frozen=True)
class Experts:
    """Feed-forward layers. Sizes are elements of the intermediate dimension; `routed` 0 means a dense model.

    routed, active, shared: experts a layer. moe_layers and dense_layers: how many layers have which sort.
    matrices: weight matrices of one MLP or expert: 3 with a gate projection, 2 without.
    """

    routed: int
    active: int
    shared: int
    intermediate: int
    shared_intermediate: int
    moe_layers: int
    dense_layers: int
    dense_intermediate: int
    matrices: int


def read_experts(config: Fields, family: dict[str, Any], layers: int) -> Experts:
    """Experts from config.json (or its text_config)."""
    routed = config.integer("n_routed_experts", "num_experts", "num_local_experts")
    shared_size = config.integer(*family["shared_intermediate"]) if routed > 0 else 0
    intermediate = config.integer(*family["expert_intermediate"]) if routed > 0 else 0
    shared = config.integer("n_shared_experts", "num_shared_experts", default=1 if shared_size > 0 else 0)
    with_experts = _moe_layers(config, family["moe_layers"], layers) if routed > 0 else 0
    pattern = config.text("hybrid_override_pattern")
    return Experts(
        routed=max(routed, 0),
        active=config.integer("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"),
        shared=shared,
        intermediate=intermediate,
        shared_intermediate=shared_size or intermediate if shared > 0 else 0,
        moe_layers=with_experts,
        dense_layers=pattern.count("-") if pattern else max(layers - with_experts, 0),
        dense_intermediate=config.integer(*family["dense_intermediate"]),
        matrices=int(family["mlp_matrices"]),
    )


def _moe_layers(config: Fields, rule: str, layers: int) -> int:
    """How many layers have experts, by the family's rule (families.yml says what each means)."""
    counts = {
        "all": layers,
        "after_dense": layers - config.integer("first_k_dense_replace"),
        "interleave": layers // max(config.integer("interleave_moe_layer_step", default=1), 1),
        "sparse_step": layers // max(config.integer("decoder_sparse_step", default=1), 1)
        - len(config.integers("mlp_only_layers")),
        "pattern": config.text("hybrid_override_pattern").count("E"),
    }
    return min(max(counts[rule], 0), max(layers, 0))
