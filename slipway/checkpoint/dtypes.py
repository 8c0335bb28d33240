"""Whether weights are stored as the quantization config says, by the dtypes in the headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slipway.checkpoint.headers import Header
from slipway.checkpoint.model import Checkpoint
from slipway.checkpoint.scheme import LAYER_CLASSES, LayerClass, dtype_scheme
from slipway.checkpoint.tables import table
from slipway.finding import Finding


def stored_as_declared(checkpoint: Checkpoint, headers: Mapping[str, Header]) -> list[Finding]:
    """Per layer class, whether any weight is stored as the quantization says.

    Classes of which only some layers are quantized pass when one tensor fits, so this finds a wrong config, not
    one odd layer.
    """
    wanted = {name: _allowed(checkpoint, name) for name in LAYER_CLASSES}
    stored: dict[LayerClass, Counter[str]] = {name: Counter() for name in LAYER_CLASSES}
    settled: set[LayerClass | None] = {None}
    for header in headers.values():
        for name, dtype, shape in zip(header.names, header.dtypes, header.shapes, strict=True):
            if ".experts." in name and "experts" in settled:
                continue  # most tensors of a large model; looked at only until one fits
            layer_class = class_of(name, len(shape))
            if layer_class is None or layer_class in settled:
                continue
            stored[layer_class][dtype] += 1
            settled |= {layer_class} if not wanted[layer_class] or dtype in wanted[layer_class] else set()
    return [
        _dtype_finding(name, str(checkpoint.quantization.of(name)), counts)
        for name, counts in stored.items()
        if counts and name not in settled
    ]


def _allowed(checkpoint: Checkpoint, layer_class: LayerClass) -> set[str]:
    """Dtypes that a class may be stored in; empty means any."""
    scheme = checkpoint.quantization.of(layer_class)
    plain = scheme == dtype_scheme(checkpoint.dtype)
    stored: set[str] = set(table("quantization")["schemes"][scheme.name]["storage"])
    return stored | {"BF16", "F16", "F32"} if plain else stored


def _dtype_finding(layer_class: LayerClass, scheme: str, counts: Counter[str]) -> Finding:
    listed = ", ".join(f"{dtype} x {count}" for dtype, count in counts.most_common(3))
    message = f"{layer_class.replace('_', ' ')} should be {scheme} by the config, but the files hold {listed}"
    fix = "fetch config.json and hf_quant_config.json of the weights' own revision"
    return Finding("checkpoint-dtype-disagrees", "error", "config.json", message, fix, "issue 6 item 4")


_WEIGHTS = (".weight", "_packed", ".qweight", "_blocks", "_proj")


def class_of(name: str, dimensions: int) -> LayerClass | None:
    """The layer class of a weight matrix; None for scales, norms, biases, routers and the extra layers."""
    if not name.endswith(_WEIGHTS) or dimensions < 2 or name.startswith("mtp.") or "norm" in name:
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
