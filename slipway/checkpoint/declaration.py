"""What a checkpoint's files say about its quantization, in one shape whatever the format.

Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.checkpoint.fields import Fields, printable
from slipway.finding import Finding


@dataclass(frozen=True)
class Group:
    """One compressed-tensors config group: which modules, and how their weights and inputs are kept."""

    targets: tuple[str, ...]
    bits: int
    kind: str
    strategy: str
    group_size: int
    acts: str
    format: str


@dataclass(frozen=True)
class Declaration:
    """One quantization section. Empty texts, zeros and empty tuples mean that the section does not say.

    place: file and section, as a person would name it. kv_cache: the algorithm or dtype declared for the KV
    cache. layer_algos: module pattern and algorithm of a mixed checkpoint. ignore: modules left alone, as
    modelopt and compressed-tensors name them; not_converted: as the other formats do.
    weight_block: fp8 block shape. nested: the section sat inside a second `quantization`.
    """

    place: str
    quant_method: str = ""
    quant_algo: str = ""
    moe_quant_algo: str = ""
    routed_experts_method: str = ""
    store_dtype: str = ""
    expert_dtype: str = ""
    kv_cache: str = ""
    format: str = ""
    version: str = ""
    bits: int = 0
    group_size: int = 0
    weight_block: tuple[int, ...] = ()
    symmetric: bool = True
    lm_head: bool = False
    nested: bool = False
    ignore: tuple[str, ...] = ()
    not_converted: tuple[str, ...] = ()
    layer_algos: tuple[tuple[str, str], ...] = ()
    groups: tuple[Group, ...] = ()


def read_declarations(documents: Mapping[str, dict[str, Any]], found: list[Finding]) -> tuple[Declaration, ...]:
    """Every quantization section, in the order in which SGLang looks (sglang.md B1): the first one counts."""
    config = Fields(documents.get("config.json", {}), "config.json", found)
    text = config.section("text_config", "language_config", "llm_config")
    expert_dtype = text.text("expert_dtype") or config.text("expert_dtype")
    sections = [
        (fields, name)
        for name in ("quantization_config", "compression_config")
        for fields in (config, text)
        if fields.has(name)
    ]
    declared = [_declare(fields.section(name), f"config.json {name}", expert_dtype) for fields, name in sections[:2]]
    for file in ("hf_quant_config.json", "quant_model_description.json"):
        if documents.get(file):
            declared.append(_declare(Fields(documents[file], file, found), file, expert_dtype))
    return tuple(declared)


def _declare(outer: Fields, place: str, expert_dtype: str) -> Declaration:
    inner, nested = _inner(outer)
    method = outer.text("quant_method") or inner.text("quant_method")
    if place == "quant_model_description.json":
        # the file names no method; SGLang adds it (sglang.md B1 step 4)
        method = "modelslim"
    return Declaration(
        place=place,
        quant_method=method.lower(),
        quant_algo=inner.text("quant_algo").upper(),
        moe_quant_algo=inner.text("moe_quant_algo").upper(),
        routed_experts_method=inner.text("routed_experts_quant_method").lower(),
        store_dtype=inner.text("store_dtype").lower(),
        expert_dtype=(inner.text("expert_dtype") or expert_dtype).lower(),
        kv_cache=_kv_cache(inner),
        format=inner.text("format"),
        version=inner.text("version").lower(),
        nested=nested,
        ignore=inner.strings("ignore", "exclude_modules"),
        not_converted=inner.strings("modules_to_not_convert", "ignored_layers"),
        layer_algos=_layer_algos(inner.section("quantized_layers")),
        groups=_groups(inner.section("config_groups")),
        **_numbers(inner),
    )


def _numbers(inner: Fields) -> dict[str, Any]:
    return {
        "bits": inner.integer("bits", "w_bit", "num_bits"),
        "group_size": inner.integer("group_size", "q_group_size"),
        "weight_block": inner.integers("weight_block_size"),
        "symmetric": inner.flag("sym", default=True),
        "lm_head": inner.flag("lm_head"),
    }


def _inner(outer: Fields) -> tuple[Fields, bool]:
    """The section that holds the settings: modelopt keeps them one level down, and some exports two."""
    if not isinstance(outer.raw("quantization"), dict):
        return outer, False
    first = outer.section("quantization")
    if not isinstance(first.raw("quantization"), dict):
        return first, False
    return first.section("quantization"), True


def _kv_cache(inner: Fields) -> str:
    """The KV cache's own algorithm: modelopt names it, compressed-tensors describes it."""
    named = inner.text("kv_cache_quant_algo")
    if named:
        return named.upper()
    if not inner.has("kv_cache_scheme") or isinstance(inner.raw("kv_cache_scheme"), str):
        return inner.text("kv_cache_scheme").upper()
    scheme = inner.section("kv_cache_scheme")
    names = {(8, "float"): "FP8", (8, "int"): "INT8", (4, "float"): "NVFP4"}
    bits, kind = scheme.integer("num_bits"), scheme.text("type", default="float")
    return names.get((bits, kind), f"{kind}{bits}".upper()) if bits > 0 else ""


def _layer_algos(layers: Fields) -> tuple[tuple[str, str], ...]:
    return tuple((printable(name), layers.section(name).text("quant_algo").upper()) for name in layers.keys())  # noqa: SIM118


def _groups(section: Fields) -> tuple[Group, ...]:
    return tuple(_group(section.section(name)) for name in section.keys())  # noqa: SIM118


def _group(fields: Fields) -> Group:
    weights, acts = fields.section("weights"), fields.section("input_activations")
    has_acts = fields.has("input_activations")
    return Group(
        targets=fields.strings("targets"),
        bits=weights.integer("num_bits"),
        kind=weights.text("type", default="int"),
        strategy=weights.text("strategy"),
        group_size=weights.integer("group_size"),
        acts=acts.text("type", default="float") if has_acts else "none",
        format=fields.text("format"),
    )
