"""What the memory arithmetic returns: figures, the steps that lead to them, and findings."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.finding import Finding
from slipway.memory.assumed import gib


@dataclass(frozen=True)
class Line:
    """One step of the arithmetic: bytes (of one GPU) and how they came about."""

    label: str
    bytes: float
    expression: str

    def __str__(self) -> str:
        return f"{self.label:<28} {gib(self.bytes):>12}  {self.expression}"


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of one GPU of an instance, in bytes; tokens of one KV pool (one per attention-DP group).

    weights, state, kv: within the static fraction. per_token: bytes of KV a token costs. fraction:
    mem_fraction_static, given or automatic. usable: of the GPU, without the CUDA context. reserve_needed,
    reserve_left: outside the static fraction, as the engine's own formula counts it.
    """

    weights: float = 0.0
    state: float = 0.0
    kv: float = 0.0
    per_token: float = 0.0
    tokens: int = 0
    fraction: float = 0.0
    kv_dtype: str = ""
    usable: float = 0.0
    reserve_needed: float = 0.0
    reserve_left: float = 0.0
    lines: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether nothing stands against starting it."""
        return bool(self.lines) and not any(item.severity == "error" for item in self.findings)
