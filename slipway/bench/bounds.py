"""The roofline of a result, from the plan it was measured on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.bench.folder import Result
from slipway.bench.record import Shape
from slipway.memory.roofline import Roofline, read_roofline


@dataclass(frozen=True)
class Bound:
    """What a deployment's decode can do at most. instances: that share the requests. gpus: of the whole deployment."""

    roofline: Roofline
    instances: int
    gpus: int

    def user_speed(self, concurrency: float) -> float:
        """Output tok/s of one of so many users at most."""
        return self.roofline.user_speed(concurrency / self.instances)

    def throughput(self, concurrency: float) -> float:
        """Output tok/s of all users together at most."""
        return concurrency * self.user_speed(concurrency)

    def latency_s(self, shape: Shape, concurrency: float) -> float:
        """Seconds that the output tokens of one request take at least."""
        return shape.output_len / self.user_speed(concurrency)


def bound_of(result: Result) -> Bound | str:
    """The bound; why there is none, else."""
    record = result.provenance
    if record.get("simulated"):
        return "no roofline: the simulated engine reads no weights"
    kinds = {role: row for role, row in (record.get("roofline") or {}).items() if role in ("decode", "unified")}
    known = [found for found in map(read_roofline, kinds.values()) if found]
    if len(known) != 1:
        return f"no roofline: {_why_not(record, len(known))}"
    role = next(role for role, row in kinds.items() if row)
    instances = len((record.get("topology") or {}).get(role) or [""])
    return Bound(known[0], instances, int((record.get("gpus") or {}).get("all") or 0))


def _why_not(record: Mapping[str, Any], known: int) -> str:
    if known:
        return "its decode workers are of several kinds"
    if (record.get("engine") or {}).get("device") == "cpu":
        return "the memory bandwidth of a CPU is not in the catalogue"
    return "the checkpoint's shapes or the GPU's bandwidth were not known to the plan"


def bound_lines(bound: Bound | str) -> tuple[str, ...]:
    """The arithmetic in lines."""
    if isinstance(bound, str):
        return (bound,)
    line = bound.roofline
    size, speed = line.bytes_read(), line.user_speed()
    tokens = "" if line.tokens_a_step == 1 else f"{line.tokens_a_step} tokens x "
    return (
        f"roofline, an upper bound: one user gets at most {tokens}{line.bandwidth / 1e9:,.0f} GB/s / "
        f"{size / 1e9:.3f} GB = {speed:,.0f} output tok/s ({bound.instances} decode instance(s) share the requests).",
        "Only the weights that a step reads on one GPU count: reads of the KV cache, communication, and kernels below "
        "the full bandwidth make it slower." + _experts(line),
        *line.lines,
    )


def _experts(line: Roofline) -> str:
    if not line.routed:
        return ""
    return f" A batch reads more experts: as if each token chose {line.active} of {line.routed} evenly and by itself."
