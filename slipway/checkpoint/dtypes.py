"""Whether weights are stored as the quantization config says, by the dtypes in the headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slipway.checkpoint.headers import Header, Tensor
from slipway.checkpoint.model import Checkpoint
from slipway.checkpoint.scheme import LAYER_CLASSES, LayerClass, dtype_scheme
from slipway.checkpoint.tables import table
from slipway.finding import Finding


def stored_as_declared(checkpoint: Checkpoint, headers: Mapping[str, Header]) -> list[Finding]:
    """Per layer class, whether any weight is stored as the quantization says.

    Classes of which only some layers are quantized pass when one tensor fits, so this finds a wrong config,
    not one odd layer.
    """
    stored = _stored(headers)
    found = []
    for layer_class, counts in stored.items():
        scheme = checkpoint.quantization.of(layer_class)
        plain = scheme == dtype_scheme(checkpoint.dtype)
        allowed = set(table("quantization")["schemes"][scheme.name]["storage"])
        allowed |= {"BF16", "F16", "F32"} if plain else set()
        if allowed and not allowed & set(counts):
            found.append(_dtype_finding(layer_class, str(scheme), counts))
    return found


def _dtype_finding(layer_class: LayerClass, scheme: str, counts: Counter[str]) -> Finding:
    listed = ", ".join(f"{dtype} x {count}" for dtype, count in counts.most_common(3))
    message = f"{layer_class.replace('_', ' ')} should be {scheme} by the config, but the files hold {listed}"
    fix = "fetch config.json and hf_quant_config.json of the weights' own revision"
    return Finding("checkpoint-dtype-disagrees", "error", "config.json", message, fix, "issue 6 item 4")


def _stored(headers: Mapping[str, Header]) -> dict[LayerClass, Counter[str]]:
    counts: dict[LayerClass, Counter[str]] = {}
    for header in headers.values():
        for tensor in header.tensors:
            layer_class = class_of(tensor)
            if layer_class is not None:
                counts.setdefault(layer_class, Counter())[tensor.dtype] += 1
    return {name: counts[name] for name in LAYER_CLASSES if name in counts}


_WEIGHTS = (".weight", "_packed", ".qweight", "_blocks", "_proj")


def class_of(tensor: Tensor) -> LayerClass | None:
    """The layer class of a weight matrix; None for scales, norms, biases, routers and the extra layers."""
    name = tensor.name
    if not name.endswith(_WEIGHTS) or len(tensor.shape) < 2 or name.startswith("mtp.") or "norm" in name:
        return None
    if "shared_expert" in name:
        return None if "gate.weight" in name else "shared_experts"
    if ".experts." in name:
        return "experts"
    if "self_attn" in name or ".attn." in name:
        return None if "indexer" in name or "compressor" in name or "kv_b_proj" in name else "attention"
    if name.endswith(("mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight", "mlp.down_proj.qweight")):
        return "mlp"
    return "lm_head" if name in ("lm_head.weight", "head.weight") else None
