"""A checkpoint as its small files describe it: architecture, sizes and quantization. Reading never raises."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.checkpoint.agree import agreement
from slipway.checkpoint.as_read import AsRead, read_as
from slipway.checkpoint.attention import Attention, read_attention
from slipway.checkpoint.declaration import Declaration, read_declarations
from slipway.checkpoint.experts import Experts, read_experts
from slipway.checkpoint.fields import Fields, parse_json
from slipway.checkpoint.generation import Generation, context_length, has_chat_template, read_generation
from slipway.checkpoint.index import Index, count_shards, expert_hint, index_name, read_index, total_bytes
from slipway.checkpoint.layers import Model
from slipway.checkpoint.real import real_quantization
from slipway.checkpoint.scheme import Quantization
from slipway.checkpoint.tables import family_row
from slipway.checkpoint.versions import gates_of
from slipway.finding import Finding

Texts = Mapping[str, str | bytes]


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint. Bytes, tokens and elements; 0 or "" where the files do not say.

    model_family: a row of families.yml. mtp_layers: extra layers for multi-token prediction. swiglu_limit:
    the clamp that some MoE runners ignore, 0 for none. total_bytes: of all weights. quantization: as it
    really is; `as_read` gives it as a release reads it. findings: what is wrong with the files, for every
    release alike.
    """

    name: str
    architectures: tuple[str, ...]
    model_type: str
    model_family: str
    attention: Attention
    experts: Experts
    hidden_size: int
    vocab_size: int
    tied_embeddings: bool
    context_length: int
    dtype: str
    swiglu_limit: float
    mtp_layers: int
    generation: Generation
    chat_template: str
    total_bytes: int
    shards: int
    quantization: Quantization
    findings: tuple[Finding, ...]
    swa_ratio: float = 0.0
    declared: tuple[Declaration, ...] = field(default=(), repr=False)
    model: Model = field(default=Model("bfloat16", 0, {}, (), "", ""), repr=False)

    @property
    def usable(self) -> bool:
        """Whether the files are sound enough to plan with."""
        return not any(item.severity == "error" for item in self.findings)

    def as_read(self, release: str, patches: Collection[str] = ()) -> AsRead:
        """The quantization as SGLang of this release, with these patches of the series, reads it."""
        gates = gates_of(release, patches)
        return read_as(self.name, self.declared, self.model, self.quantization, gates)


@dataclass(frozen=True)
class _Source:
    """What there is to read, and the list that collects findings."""

    files: Texts
    sizes: Mapping[str, int]
    documents: Mapping[str, dict[str, Any]]
    index: Index | None
    found: list[Finding]


def read_checkpoint(files: Texts, sizes: Mapping[str, int] | None = None, name: str = "checkpoint") -> Checkpoint:
    """The checkpoint that the files describe.

    files: file name -> text or bytes, of the small files (`small_files` names them). sizes: file name ->
    bytes, of all files of the folder or repository; used when the index gives no total. name: for findings.
    """
    return read_with_index(files, sizes, name)[0]


def read_with_index(files: Texts, sizes: Mapping[str, int] | None, name: str) -> tuple[Checkpoint, Index | None]:
    """As `read_checkpoint`, and the index, which is large and read once."""
    found: list[Finding] = []
    documents = {file: parse_json(file, text, found) for file, text in files.items() if _is_json(file)}
    _require_config(documents, found)
    file = index_name(documents)
    index = read_index(file, documents[file], found) if file else None
    return _assemble(name, _Source(files, sizes or {}, documents, index, found)), index


def _is_json(file: str) -> bool:
    """tokenizer.json is large and not needed; only that it is there matters."""
    return file.endswith(".json") and file not in ("tokenizer.json", "vocab.json")


def _require_config(documents: Mapping[str, dict[str, Any]], found: list[Finding]) -> None:
    if "config.json" in documents:
        return
    message = "there is no config.json; without it neither the model nor its quantization is known"
    fix = "fetch config.json of the same revision from the model's repository"
    found.append(Finding("checkpoint-config-missing", "error", "config.json", message, fix, "issue 6 item 4"))


def _assemble(name: str, source: _Source) -> Checkpoint:
    outer, config = _configs(source)
    architectures = outer.strings("architectures") or config.strings("architectures")
    row = _family(outer.text("model_type"), config.text("model_type"), architectures, source.found)
    attention = read_attention(config, row)
    experts = read_experts(config, row, attention.layers)
    dtype = config.text("dtype", "torch_dtype") or outer.text("dtype", "torch_dtype", default="bfloat16")
    counts = _counts(attention, experts)
    model = Model(dtype, attention.layers, counts, architectures, row["expert_dtype"], row["kv_cache"])
    return Checkpoint(
        name=name,
        architectures=architectures,
        model_type=outer.text("model_type"),
        model_family=row["family"],
        attention=attention,
        experts=experts,
        dtype=dtype,
        model=model,
        swa_ratio=float(row["swa_ratio"]) if row["swa_pool"] else 0.0,
        **_shape(outer, config),
        **_requests(source, outer, config, row),
        **_weights(source, model),
    )


def _requests(source: _Source, outer: Fields, config: Fields, row: dict[str, Any]) -> dict[str, Any]:
    template = has_chat_template(source.files, source.documents, source.found)
    return {
        "generation": read_generation(source.documents, outer, config, source.found),
        "chat_template": "file" if template else "engine" if row["chat_template"] == "engine" else "",
    }


def _weights(source: _Source, model: Model) -> dict[str, Any]:
    """Sizes, quantization and, since everything has been read by then, the findings."""
    declared = read_declarations(source.documents, source.found)
    hint = expert_hint(source.index.weight_map) if source.index else ""
    quantization = real_quantization(declared, model, hint, source.found)
    extra = agreement(declared, source.documents, source.index)
    return {
        "total_bytes": total_bytes(source.index, source.sizes),
        "shards": count_shards(source.index, source.sizes),
        "declared": declared,
        "quantization": quantization,
        "findings": tuple(dict.fromkeys([*source.found, *extra])),
    }


def _configs(source: _Source) -> tuple[Fields, Fields]:
    """config.json, and its part about the language model: the same unless the model is multimodal."""
    outer = Fields(source.documents.get("config.json", {}), "config.json", source.found)
    inner = outer.section("text_config", "language_config", "llm_config")
    return outer, inner if inner.has("hidden_size") or inner.has("num_hidden_layers") else outer


def _shape(outer: Fields, config: Fields) -> dict[str, Any]:
    return {
        "hidden_size": config.integer("hidden_size", "n_embd"),
        "vocab_size": config.integer("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings") or outer.flag("tie_word_embeddings"),
        "context_length": context_length(config),
        "swiglu_limit": config.number("swiglu_limit", "gemm1_clamp_limit"),
        "mtp_layers": config.integer("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"),
    }


def _counts(attention: Attention, experts: Experts) -> dict[Any, int]:
    """How many layers have each class; 0 where it does not depend on layers."""
    return {
        "attention": attention.full_layers + attention.swa_layers,
        "mlp": experts.dense_layers,
        "experts": experts.moe_layers,
        "shared_experts": experts.moe_layers if experts.shared else 0,
    }


def _family(model_type: str, inner_type: str, architectures: tuple[str, ...], found: list[Finding]) -> dict[str, Any]:
    row = family_row(model_type, architectures)
    if row["family"] == "unknown" and inner_type:
        row = family_row(inner_type, ())
    if row["family"] == "unknown":
        message = f"model_type {ascii(model_type)[:60]} is in no known family; its sizes are read by common keys"
        fix = "check the plan's memory figures, or add a row to slipway/checkpoint/families.yml"
        found.append(Finding("checkpoint-family-unknown", "warning", "config.json", message, fix))
    return row
