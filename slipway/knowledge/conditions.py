"""The small language in which table rows say when they hold.

`when: {arch: [sm_120], family: deepseek_v4, span: "0.5.14..0.5.21", not_patch: pr-25820}` holds when every key does.
A key names a fact of the request; it holds when the fact has one of the words listed. `not_KEY` holds when it has
none of them. `span` is a range of releases. No key means always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.knowledge.tables import TableError
from slipway.knowledge.versions import Span, Version

Facts = Mapping[str, frozenset[str]]
# What a row may ask about. Settings that were resolved before the row is read count as facts as well.
KEYS = frozenset(
    {
        "arch", "gpu", "family", "attention", "attention_class", "quantization", "class", "experts", "hybrid_nvfp4",
        "clamp", "sinks", "patch", "role", "tp", "ep", "speculative", "kv_cache_quant", "driver",
        "quantization_argument", "moe_runner_backend", "moe_a2a_backend", "attention_backend",
        "prefill_attention_backend", "decode_attention_backend", "kv_cache_dtype", "page_size",
        "disaggregation_transfer_backend", "fp4_gemm_backend", "fp8_gemm_backend", "dsv4_attn_backend",
        "speculative_moe_runner_backend", "device",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class When:
    """A parsed condition."""

    wants: tuple[tuple[str, bool, frozenset[str]], ...]
    span: Span

    @classmethod
    def parse(cls, file: str, row: str, value: Any) -> When:
        """Read a `when` mapping; names file and row when it is malformed."""
        if not isinstance(value, dict):
            raise TableError(file, row, f"when is {type(value).__name__}; must be a mapping")
        try:
            span = Span.parse(str(value.get("span", "all")))
        except ValueError as err:
            raise TableError(file, row, f"span: {err}") from err
        return cls(tuple(_want(file, row, key, value[key]) for key in value if key != "span"), span)

    def holds(self, facts: Facts, release: Version) -> bool:
        """Tell whether the condition holds for these facts in that release."""
        if not self.span.holds(release):
            return False
        return all(bool(facts.get(key, frozenset()) & words) == wanted for key, wanted, words in self.wants)

    def __str__(self) -> str:
        """Say the condition in words, for `slipway explain`."""
        parts = [
            f"{key.replace('_', ' ')} {'is' if wanted else 'is not'} {' or '.join(sorted(words))}"
            for key, wanted, words in self.wants
        ]
        if self.span != Span():
            parts.append(f"release {self.span}")
        return ", ".join(parts) or "always"


def _want(file: str, row: str, key: str, value: Any) -> tuple[str, bool, frozenset[str]]:
    """Read one key of a condition."""
    name, wanted = (key[4:], False) if key.startswith("not_") else (key, True)
    if name not in KEYS:
        raise TableError(file, row, f"when asks about {name!r}; must be one of {', '.join(sorted(KEYS))}")
    words = value if isinstance(value, list) else [value]
    if not words or any(isinstance(word, (bool, dict, list, type(None))) for word in words):
        raise TableError(file, row, f"when {key} is {value!r}; must be a word or a list of words")
    return name, wanted, frozenset(str(word) for word in words)
