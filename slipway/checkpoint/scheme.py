"""How the weights of one layer class are stored: the vocabulary of quantization in a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slipway.checkpoint.tables import table

LayerClass = Literal["attention", "mlp", "experts", "shared_experts", "lm_head"]
LAYER_CLASSES: tuple[LayerClass, ...] = ("attention", "mlp", "experts", "shared_experts", "lm_head")

_DTYPES = {
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "float32": "float32",
    "float": "float32",
}


@dataclass(frozen=True)
class Scheme:
    """One storage scheme. bits: of one weight. group: weights that share one scale of `scale_bits` bits.

    0 = none.
    """

    name: str
    bits: int
    group: int = 0
    scale_bits: int = 0

    @property
    def bytes_per_weight(self) -> float:
        """Bytes of one weight with its share of the scales."""
        return (self.bits + (self.scale_bits / self.group if self.group > 0 else 0)) / 8

    def __str__(self) -> str:
        return f"{self.name} (group {self.group})" if self.name in ("nvfp4", "int4") else self.name


@dataclass(frozen=True)
class Quantization:
    """Scheme per layer class, and the KV cache's dtype ("auto" = the model's own).

    method: what the whole is called, e.g. `fp8+nvfp4`. partial: classes of which some layers differ.
    """

    method: str
    attention: Scheme
    mlp: Scheme
    experts: Scheme
    shared_experts: Scheme
    lm_head: Scheme
    kv_cache: str = "auto"
    partial: tuple[str, ...] = ()

    def of(self, layer_class: LayerClass) -> Scheme:
        """The scheme of a layer class."""
        scheme: Scheme = getattr(self, layer_class)
        return scheme


def scheme(name: str, group: int = 0) -> Scheme:
    """A scheme of quantization.yml, with the checkpoint's own group size when it names one.

    -1 is a whole row.
    """
    row = table("quantization")["schemes"][name]
    size = group if group > 0 else 0 if group < 0 else int(row["group"])
    return Scheme(name, int(row["bits"]), size, int(row["scale_bits"]))


def dtype_scheme(dtype: str) -> Scheme:
    """The scheme of unquantized weights. An unknown or missing dtype counts as bfloat16."""
    return scheme(_DTYPES.get(dtype.removeprefix("torch."), "bfloat16"))


def integer_scheme(bits: int, group: int) -> Scheme:
    """Packed integer weights (awq, gptq, auto-round): four bits when the checkpoint does not say."""
    return scheme(f"int{bits}" if bits in (2, 3, 4, 8) else "int4", group)
