"""From a quantization method and a declaration to a scheme per layer class.

The same code serves the checkpoint as it is and as a release reads it: only the open gates differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.checkpoint.declaration import Declaration, Group
from slipway.checkpoint.patterns import coverage, within
from slipway.checkpoint.scheme import (
    LAYER_CLASSES,
    LayerClass,
    Quantization,
    Scheme,
    dtype_scheme,
    integer_scheme,
    scheme,
)
from slipway.checkpoint.tables import table
from slipway.checkpoint.versions import Gates

Schemes = dict[LayerClass, Scheme]
Counts = Mapping[LayerClass, int]


@dataclass(frozen=True)
class Model:
    """What the reading of quantization needs to know of the model.

    layers: all of them. counts: those that have each class. expert_dtype, kv_cache: the family's habits
    (families.yml).
    """

    dtype: str
    layers: int
    counts: Counts
    architectures: tuple[str, ...]
    expert_dtype: str
    kv_cache: str


def layers_of(method: str, hybrid: bool, declared: Declaration, model: Model, gates: Gates) -> Quantization:
    """The scheme of each layer class under a method. hybrid: FP8 with NVFP4 experts."""
    plain = dtype_scheme(model.dtype)
    row = table("quantization")["methods"].get(method, {"reads": "none"})
    schemes: Schemes = dict.fromkeys(LAYER_CLASSES, plain)
    schemes.update(_READERS[str(row["reads"])](declared, model, gates, row))
    partial = _leave_ignored(schemes, declared, model, row)
    if hybrid:
        schemes["experts"] = scheme("nvfp4", declared.group_size)
    return Quantization(
        method=_name(method, schemes),
        kv_cache=_kv_cache(declared, model),
        partial=partial,
        **schemes,
    )


def _name(method: str, schemes: Schemes) -> str:
    """The method, with the experts' scheme where it is another: `fp8+nvfp4`."""
    experts, attention = schemes["experts"], schemes["attention"]
    mixed = experts.name != attention.name and method == "fp8"
    return f"{method}+{experts.name}" if mixed else method or "none"


def _kv_cache(declared: Declaration, model: Model) -> str:
    """The KV dtype that `auto` becomes.

    The family's own, else the checkpoint's, else the model's ("auto").
    """
    named = {"FP8": "fp8_e4m3", "NVFP4": "nvfp4", "INT8": "int8"}
    return model.kv_cache or named.get(declared.kv_cache, declared.kv_cache.lower()) or "auto"


def _leave_ignored(schemes: Schemes, declared: Declaration, model: Model, row: dict[str, Any]) -> tuple[str, ...]:
    """Put ignored classes back to the model's dtype; names the classes of which only some layers are ignored.

    The fp8 reader looks at its own list only: the `ignore` of a hybrid checkpoint says what is not NVFP4, and
    those modules stay FP8 (sglang.md A).
    """
    own_list = row.get("ignores") == "not_converted"
    patterns = declared.not_converted if own_list else declared.ignore + declared.not_converted
    shares = coverage(within(patterns, model.layers), model.counts)
    for layer_class, share in shares.items():
        if share >= 0.5:
            schemes[layer_class] = dtype_scheme(model.dtype)
    return tuple(name for name, share in shares.items() if 0 < share < 1 and schemes[name].bits < 16)


def _body(value: Scheme) -> Schemes:
    """One scheme for everything but the output head, which no format quantizes unless it says so."""
    return {name: value for name in LAYER_CLASSES if name != "lm_head"}


def _none(_declared: Declaration, _model: Model, _gates: Gates, _row: dict[str, Any]) -> Schemes:
    return {}


def _uniform(declared: Declaration, _model: Model, _gates: Gates, row: dict[str, Any]) -> Schemes:
    return _body(scheme(row["scheme"], declared.group_size if row["scheme"] == "nvfp4" else 0))


def _split(_declared: Declaration, _model: Model, _gates: Gates, row: dict[str, Any]) -> Schemes:
    return {**_body(scheme(row["scheme"])), "experts": scheme(row["experts"])}


def _experts_only(_declared: Declaration, _model: Model, _gates: Gates, row: dict[str, Any]) -> Schemes:
    return {"experts": scheme(row["scheme"])}


def _fp8(declared: Declaration, model: Model, gates: Gates, _row: dict[str, Any]) -> Schemes:
    """FP8, whose experts may be MXFP4: by the family's habit, or declared (only newer releases look)."""
    body = _body(scheme("fp8_block" if declared.weight_block else "fp8"))
    by_family = bool(model.expert_dtype) and (declared.expert_dtype or model.expert_dtype) == "fp4"
    named = "mxfp4" in (declared.routed_experts_method, declared.store_dtype)
    if declared.moe_quant_algo == "NVFP4":
        return body  # a release that does not know the hybrid takes its experts for FP8
    if by_family or (named and gates.is_open("routed_experts_method")):
        body["experts"] = scheme("mxfp4")
    return body


def _bits(declared: Declaration, _model: Model, _gates: Gates, _row: dict[str, Any]) -> Schemes:
    packed = integer_scheme(declared.bits, declared.group_size)
    return {**_body(packed), **({"lm_head": packed} if declared.lm_head else {})}


def _mixed(declared: Declaration, model: Model, gates: Gates, _row: dict[str, Any]) -> Schemes:
    """A class takes the algorithm that covers most of its layers."""
    known = table("quantization")["mixed_algos"]
    best: dict[LayerClass, tuple[float, Scheme]] = {}
    for algo in dict.fromkeys(algo for _, algo in declared.layer_algos if algo in known):
        row = known[algo]
        if "gate" in row and not gates.is_open(row["gate"]):
            continue
        value = scheme(row["scheme"], declared.group_size if row["scheme"] == "nvfp4" else 0)
        names = [name for name, of in declared.layer_algos if of == algo]
        for layer_class, share in coverage(names, model.counts).items():
            if share > best.get(layer_class, (0.0, value))[0]:
                best[layer_class] = (share, value)
    return {layer_class: value for layer_class, (_, value) in best.items()}


def _by_groups(declared: Declaration, _model: Model, gates: Gates, _row: dict[str, Any]) -> Schemes:
    """compressed-tensors: a group whose targets are module kinds covers all; later, narrower groups win."""
    schemes: Schemes = {}
    for group in sorted(declared.groups, key=lambda item: "Linear" not in item.targets):
        row = group_row(group, gates)
        if row is None:
            continue
        value = scheme(row["scheme"], group.group_size if group.strategy != "block" else 0)
        schemes.update(dict.fromkeys(_targets(group), value))
    return schemes


def _targets(group: Group) -> list[LayerClass]:
    if "Linear" in group.targets or not group.targets:
        return list(_body(scheme("unknown")))
    return [name for name, share in coverage(group.targets, {}).items() if share >= 0.5]


def group_row(group: Group, gates: Gates) -> dict[str, Any] | None:
    """The row of quantization.yml that a config group falls under.

    None when this release has no such scheme.
    """
    for row in table("quantization")["groups"]:
        wanted = {"bits": group.bits, "type": group.kind, "acts": group.acts, "strategy": group.strategy}
        if all(row[key] == value for key, value in wanted.items() if key in row):
            return row if "gate" not in row or gates.is_open(row["gate"]) else None
    return None


_READERS: dict[str, Callable[[Declaration, Model, Gates, dict[str, Any]], Schemes]] = {
    "none": _none,
    "uniform": _uniform,
    "split": _split,
    "experts": _experts_only,
    "fp8": _fp8,
    "bits": _bits,
    "map": _mixed,
    "groups": _by_groups,
}
