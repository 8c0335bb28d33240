"""The quantization as it really is.

Every known reading fault fixed, and tensor names believed before the config.
"""

from __future__ import annotations

from dataclasses import replace

from slipway.checkpoint.declaration import Declaration
from slipway.checkpoint.layers import Model, layers_of
from slipway.checkpoint.reading import read_method
from slipway.checkpoint.scheme import Quantization, scheme
from slipway.checkpoint.tables import table
from slipway.checkpoint.versions import every_gate
from slipway.finding import Finding


def real_quantization(declared: tuple[Declaration, ...], model: Model, hint: str, found: list[Finding]) -> Quantization:
    """The real schemes. hint: the scheme that the names of the expert tensors give away, "" for none."""
    method, read = read_method(declared, model, every_gate())
    if declared and method.name == "fp8" and not method.hybrid and declared[0].moe_quant_algo == "NVFP4":
        found.append(_no_group_size(declared[0]))
        read = layers_of("fp8", True, declared[0], model, every_gate())
    if contradicts(hint, read):
        experts = scheme(hint)
        found.append(_names_disagree(declared, read, hint))
        return replace(read, experts=experts, method=f"{read.method.split('+')[0]}+{experts.name}")
    return read


def contradicts(hint: str, read: Quantization) -> bool:
    """Whether the tensor names say that the experts are kept otherwise than the config says."""
    return bool(hint) and read.experts.name not in table("quantization")["hint_agrees"].get(hint, [hint])


def _names_disagree(declared: tuple[Declaration, ...], read: Quantization, hint: str) -> Finding:
    place = declared[0].place if declared else "config.json, which declares no quantization"
    message = f"expert tensors are named as in {hint}, but they would be {read.experts.name} by {place}"
    fix = "fetch config.json again at the pinned revision; if it is the same, the publisher's config is wrong"
    return Finding("quant-index-disagrees", "error", "config.json", message, fix, "sglang.md H")


def _no_group_size(first: Declaration) -> Finding:
    message = (
        f"{first.place}: moe_quant_algo is NVFP4 but quant_algo or group_size is missing; "
        "SGLang knows a hybrid checkpoint by all three (MIXED_PRECISION, NVFP4, group_size)"
    )
    fix = "fetch config.json of a revision with the corrected quantization_config (group_size 16 for NVFP4)"
    return Finding("quant-hybrid-incomplete", "error", first.place.split()[0], message, fix, "sglang.md A, H")
