"""How SGLang of a given release reads a checkpoint's quantization.

The parse order and the mapping of sglang.md B.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipway.checkpoint.declaration import Declaration
from slipway.checkpoint.layers import Model, group_row, layers_of
from slipway.checkpoint.scheme import Quantization
from slipway.checkpoint.tables import table
from slipway.checkpoint.versions import Gates

NOTHING = Declaration("no file")


@dataclass(frozen=True)
class Method:
    """The method a release arrives at. name: "" means unquantized. place: the section that decided.

    hybrid: FP8 with NVFP4 experts. registered: whether the release has the method at all.
    min_compute_capability: ten times the number, e.g. 89.
    """

    name: str
    place: str
    hybrid: bool = False
    registered: bool = True
    min_compute_capability: int = 0


def read_method(declared: tuple[Declaration, ...], model: Model, gates: Gates) -> tuple[Method, Quantization]:
    """The method and the schemes per layer class, as the gates let them be read.

    The first declaration counts.
    """
    first = declared[0] if declared else NOTHING
    name = _after_overrides(_detected(first, model, gates), first)
    hybrid = name == "fp8" and _is_hybrid(first) and gates.is_open("hybrid_fp8_nvfp4")
    method = Method(
        name=name,
        place=first.place,
        hybrid=hybrid,
        registered=_registered(name, gates),
        min_compute_capability=_min_sm(name, first, gates),
    )
    return method, layers_of(name, hybrid, first, model, gates)


def _detected(first: Declaration, model: Model, gates: Gates) -> str:
    """B1 steps 1 to 4: a section without a method, or with `modelopt`, goes through the modelopt parser."""
    if first is NOTHING:
        return ""
    if first.quant_method in ("", "modelopt"):
        return _modelopt(first, model, gates)
    if _is_minimax_m3(first) and gates.is_open("minimax_m3_nvfp4"):
        return "minimax_m3_nvfp4"
    return first.quant_method.replace("compressed_tensors", "compressed-tensors")


def _modelopt(first: Declaration, model: Model, gates: Gates) -> str:
    if first.nested and not gates.is_open("nested_unwrapped"):
        return ""
    for row in table("quantization")["modelopt"]:
        if _holds(row, first, model) and _gate_allows(row, gates):
            return str(row["method"])
    return ""


def _holds(row: dict[str, object], first: Declaration, model: Model) -> bool:
    algos = {algo for _, algo in first.layer_algos}
    wanted = row.get("layer_algos", ())
    part = row.get("architecture", "")
    return (
        row.get("algo", first.quant_algo) == first.quant_algo
        and str(row.get("algo_contains", "")) in first.quant_algo
        and (not isinstance(wanted, list) or bool(algos & set(wanted)))
        and (not part or any(str(part) in name for name in model.architectures))
    )


def _gate_allows(row: dict[str, object], gates: Gates) -> bool:
    """Asked last, so that only gates that decide something are remembered as shut."""
    if "gate" in row:
        return gates.is_open(str(row["gate"]))
    return "without" not in row or not gates.is_open(str(row["without"]))


def _is_minimax_m3(first: Declaration) -> bool:
    formats = {first.format, *(group.format for group in first.groups)}
    return first.quant_method == "mxfp8" and "nvfp4-pack-quantized" in formats


def _is_hybrid(first: Declaration) -> bool:
    """PR #25820 wants all three: MIXED_PRECISION, moe_quant_algo NVFP4 and a group size."""
    return first.quant_algo == "MIXED_PRECISION" and first.moe_quant_algo == "NVFP4" and first.group_size > 0


def _after_overrides(name: str, first: Declaration) -> str:
    """B1 step 5: awq and gptq become their Marlin forms where Marlin can run the layout."""
    row = table("quantization")["marlin"].get(name)
    if row is None:
        return name
    fits = (
        first.bits in row["bits"]
        and first.group_size in row["group_size"]
        and first.version in row.get("versions", [first.version])
        and (first.symmetric or "symmetric" not in row)
    )
    return str(row["method"]) if fits else name


def _registered(name: str, gates: Gates) -> bool:
    row = table("quantization")["methods"].get(name)
    if row is None:
        return False
    if "until" in row and gates.has(row["until"]) and not gates.everything:
        return False
    return "gate" not in row or gates.is_open(row["gate"])


def _min_sm(name: str, first: Declaration, gates: Gates) -> int:
    """The method's floor; compressed-tensors schemes have their own."""
    row = table("quantization")["methods"].get(name, {"min_sm": 0})
    rows = [group_row(group, gates) for group in first.groups] if name == "compressed-tensors" else []
    return max([int(row["min_sm"]), *(int(item["min_sm"]) for item in rows if item)])
