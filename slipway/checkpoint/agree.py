"""Disagreements between the files of one checkpoint: config.json, hf_quant_config.json, the index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slipway.checkpoint.declaration import Declaration
from slipway.checkpoint.index import Index
from slipway.finding import Finding

# The number of a layer in a tensor name.
_LAYER = re.compile(r"layers\.([0-9]{1,5})\.")
_COMPARED = ("quant_algo", "moe_quant_algo", "kv_cache", "group_size")


def agreement(
    declared: tuple[Declaration, ...],
    documents: Mapping[str, dict[str, Any]],
    index: Index | None,
) -> list[Finding]:
    """Every disagreement. SGLang reads the first declaration only, so the others are silently ignored."""
    found = [_two_files(declared[0], other) for other in declared[1:]]
    found.append(_layers_against(documents, index))
    return [item for item in found if item is not None]


def _two_files(first: Declaration, other: Declaration) -> Finding | None:
    """Only settings that both files give can disagree.

    A method and an algorithm are compared by their meaning.
    """
    pairs = [(name, getattr(first, name), getattr(other, name)) for name in _COMPARED]
    differ = [f"{name} {mine} against {theirs}" for name, mine, theirs in pairs if mine and theirs and mine != theirs]
    if other.quant_algo and not first.quant_algo and not _compatible(first.quant_method, other.quant_algo):
        differ.insert(0, f"quant_method {first.quant_method or 'none'} against quant_algo {other.quant_algo}")
    if not differ:
        return None
    message = f"{first.place} and {other.place} disagree: {', '.join(differ)}; SGLang reads only {first.place}"
    fix = "use a revision in which both files agree, or ask the publisher which one is right"
    source = "sglang.md B1 step 3, H (a repository carried a wrong quantization config until 2026-06-11)"
    return Finding("quant-files-disagree", "error", first.place.split()[0], message, fix, source)


def _compatible(method: str, algo: str) -> bool:
    """Whether a bare method and a modelopt algorithm can mean the same weights."""
    if method in ("modelopt", ""):
        return True
    return method.removeprefix("modelopt_").upper() in algo or (method, algo) == ("w4afp8", "MIXED_PRECISION")


def _layers_against(documents: Mapping[str, dict[str, Any]], index: Index | None) -> Finding | None:
    """The index must hold as many layers as config.json counts."""
    config = documents.get("config.json", {})
    text = config.get("text_config")
    layers = (text if isinstance(text, dict) else config).get("num_hidden_layers")
    if index is None or isinstance(layers, bool) or not isinstance(layers, int):
        return None
    highest = max(map(int, set(_LAYER.findall("\n".join(index.weight_map)))), default=-1)
    if highest < 0 or highest + 1 >= layers:
        return None
    message = f"{index.file} ends at layer {highest}, but config.json has num_hidden_layers {layers}"
    fix = "fetch the index and every shard of the same revision again"
    return Finding("checkpoint-layers-missing", "error", index.file, message, fix, "reported_faults.md 54")
