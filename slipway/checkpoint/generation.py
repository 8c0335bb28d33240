"""What concerns requests rather than weights.

Context length, end tokens, sampling defaults, the chat template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.checkpoint.fields import LARGEST, Fields
from slipway.finding import Finding

_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
# In SGLang's order (hf_transformers_utils.get_context_length); the first one present counts.
_LENGTH_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass(frozen=True)
class Generation:
    """eos_ids: token ids that end an answer. defaults.

    Sampling settings of generation_config.json, as name, value.
    """

    eos_ids: tuple[int, ...] = ()
    defaults: tuple[tuple[str, float], ...] = ()


def read_generation(
    documents: Mapping[str, dict[str, Any]], outer: Fields, config: Fields, found: list[Finding]
) -> Generation:
    """generation_config.json where there is one; its end tokens win over config.json's."""
    own = Fields(documents.get("generation_config.json", {}), "generation_config.json", found)
    ids = own.integers("eos_token_id") or outer.integers("eos_token_id") or config.integers("eos_token_id")
    return Generation(ids, tuple((name, own.number(name)) for name in _SAMPLING if own.has(name)))


def context_length(config: Fields) -> int:
    """Tokens of context as SGLang derives them.

    A rope factor multiplies only when the scaling names no original length and is not llama3's, since then
    max_position_embeddings already holds the scaled length (SGLang hf_transformers_utils.get_context_length).
    """
    scaling = config.section("rope_scaling", "rope_parameters")
    factor = scaling.number("factor", default=1.0) if _is_flat(scaling) else 1.0
    kind = scaling.text("rope_type") if scaling.has("rope_type") else scaling.text("type")
    if scaling.has("original_max_position_embeddings") or kind == "llama3":
        factor = 1.0
    return min(int(config.integer(*_LENGTH_KEYS) * max(factor, 0.0)), LARGEST)


def _is_flat(scaling: Fields) -> bool:
    """transformers 5 may keep one rope section per layer type; then no single factor applies."""
    return not any(isinstance(scaling.raw(key), dict) for key in scaling.keys())  # noqa: SIM118


def has_chat_template(
    files: Mapping[str, str | bytes], documents: Mapping[str, dict[str, Any]], found: list[Finding]
) -> bool:
    """Whether a template comes with the checkpoint, as a file of its own or inside tokenizer_config.json."""
    if any(files.get(name) for name in _TEMPLATE_FILES):
        return True
    fields = Fields(documents.get("tokenizer_config.json", {}), "tokenizer_config.json", found)
    return isinstance(fields.raw("chat_template"), str | list) and bool(fields.raw("chat_template"))
