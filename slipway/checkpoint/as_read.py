"""A checkpoint as one SGLang release reads it, and what is wrong with that reading."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.checkpoint.declaration import Declaration
from slipway.checkpoint.layers import Model, group_row
from slipway.checkpoint.reading import NOTHING, Method, read_method
from slipway.checkpoint.scheme import LAYER_CLASSES, Quantization
from slipway.checkpoint.tables import table
from slipway.checkpoint.versions import Gates, describe_gate, version_key
from slipway.finding import Finding


@dataclass(frozen=True)
class AsRead:
    """The reading of one release.

    method: SGLang's name of it, "" for unquantized. place: the file and section that decided. hybrid: FP8
    whose experts are NVFP4. min_compute_capability: ten times the number, 0 for any. patches: those given.
    """

    release: str
    patches: tuple[str, ...]
    method: str
    hybrid: bool
    place: str
    min_compute_capability: int
    quantization: Quantization
    findings: tuple[Finding, ...]

    @property
    def right(self) -> bool:
        """Whether the release reads the checkpoint as it is and can load it."""
        return not any(item.severity == "error" for item in self.findings)


def read_as(name: str, declared: tuple[Declaration, ...], model: Model, real: Quantization, gates: Gates) -> AsRead:
    """The reading of a release with patches (`gates_of`). name: of the checkpoint, for findings."""
    method, read = read_method(declared, model, gates)
    first = declared[0] if declared else NOTHING
    found = [
        _release_unread(gates.release),
        _unregistered(name, method, gates.release),
        _algorithm_unknown(name, first, method, gates),
        _misread(name, real, read, method, gates),
        _mixed_empty(name, first, method),
        *_unknown_parts(name, first, method, gates),
        _kv_declared(name, read, first),
    ]
    return AsRead(
        release=gates.release,
        patches=tuple(sorted(gates.patches)),
        method=method.name,
        hybrid=method.hybrid,
        place=method.place,
        min_compute_capability=method.min_compute_capability,
        quantization=read,
        findings=tuple(item for item in [*found, *_doubtful(name, gates)] if item is not None),
    )


def _misread(name: str, real: Quantization, read: Quantization, method: Method, gates: Gates) -> Finding | None:
    """The heart of the matter: a server that starts, is healthy, and computes with the wrong numbers."""
    differ = [kind for kind in LAYER_CLASSES if real.of(kind) != read.of(kind)]
    if not differ:
        return None
    parts = "; ".join(f"{kind.replace('_', ' ')}: really {real.of(kind)}, read as {read.of(kind)}" for kind in differ)
    message = f"SGLang {gates.release} reads this checkpoint as {method.name or 'unquantized'} ({parts})"
    told = [describe_gate(gate) for gate in gates.shut]
    if told:
        message += "; it lacks what " + " and what ".join(what for what, _, _ in told)
    fix = (
        "; ".join(dict.fromkeys(fix for _, fix, _ in told))
        or "correct the checkpoint's config; no release reads it right"
    )
    source = "; ".join(dict.fromkeys(source for _, _, source in told)) or "sglang.md B"
    return Finding("quant-misread", "error", name, message, fix, source)


def _unregistered(name: str, method: Method, release: str) -> Finding | None:
    if method.registered:
        return None
    shown = ascii(method.name)[:60]
    message = f"SGLang {release} has no quantization method {shown}, which {method.place} asks for"
    fix = "use a release that registers it, or a checkpoint in another format"
    return Finding("quant-method-unregistered", "error", name, message, fix, "sglang.md B3")


def _algorithm_unknown(name: str, first: Declaration, method: Method, gates: Gates) -> Finding | None:
    """A modelopt section that names an algorithm nobody maps.

    SGLang then takes the weights for unquantized.
    """
    if method.name or first is NOTHING or gates.shut:
        return None
    algo = ascii(first.quant_algo)[:60]
    message = f"{first.place}: quant_algo {algo} maps to no method, so nothing is dequantized"
    fix = "use a checkpoint whose quant_algo is FP8, NVFP4, MXFP8 or MIXED_PRECISION"
    return Finding("quant-algorithm-unknown", "error", name, message, fix, "sglang.md B2")


def _mixed_empty(name: str, first: Declaration, method: Method) -> Finding | None:
    if method.name != "modelopt_mixed" or first.layer_algos:
        return None
    message = f"{first.place}: quantized_layers is empty or null, and modelopt_mixed needs it"
    fix = "use a revision that lists its layers; a bare MIXED_PRECISION of another model would be w4afp8"
    return Finding("quant-mixed-empty", "error", name, message, fix, "sglang.md B2; reported_faults.md 49")


def _unknown_parts(name: str, first: Declaration, method: Method, gates: Gates) -> list[Finding]:
    """Layer algorithms and config groups that this release does not run."""
    parts: list[str] = []
    if method.name == "modelopt_mixed":
        known = table("quantization")["mixed_algos"]
        algos = dict.fromkeys(algo for _, algo in first.layer_algos)
        parts = [ascii(algo)[:60] for algo in algos if algo not in known or not _runs(known[algo], gates)]
    if method.name == "compressed-tensors":
        parts = [_group_words(group.bits, group.kind) for group in first.groups if group_row(group, gates) is None]
    message = "SGLang {} does not run {} weights, which {} lists"
    fix = "use a newer release or a checkpoint without such layers"
    return [
        Finding(
            "quant-part-unknown",
            "error",
            name,
            message.format(gates.release, part, first.place),
            fix,
            "sglang.md B2",
        )
        for part in dict.fromkeys(parts)
    ]


def _runs(row: dict[str, str], gates: Gates) -> bool:
    return "gate" not in row or gates.has(row["gate"])


def _group_words(bits: int, kind: str) -> str:
    return f"{bits}-bit {ascii(kind)[:40]}"


def _kv_declared(name: str, read: Quantization, first: Declaration) -> Finding | None:
    """`auto` follows the checkpoint; prefill and decode must end with one dtype."""
    if not first.kv_cache or read.kv_cache == "auto":
        return None
    message = f"{first.place} declares a {read.kv_cache} KV cache, so --kv-cache-dtype auto becomes {read.kv_cache}"
    fix = f"set kv_cache_dtype: {read.kv_cache} for prefill and decode alike, not auto"
    return Finding("quant-kv-cache-declared", "note", name, message, fix, "sglang.md D2, H; reported_faults.md 16")


def _release_unread(release: str) -> Finding | None:
    """Releases outside the range whose source was read: the nearest known behaviour is assumed."""
    known = [version_key(text) or (0, 0, 0, 0) for text in table("quantization")["releases_read"]]
    key = version_key(release)
    if key is not None and known[0] <= key <= known[-1]:
        return None
    message = f"SGLang {ascii(release)[:60]} is outside 0.5.13 to 0.5.23; the nearest known reading is assumed"
    fix = "verify the engine's own log line about quantization after the first start"
    return Finding("quant-release-unread", "note", "sglang", message, fix, "sglang.md 0")


def _doubtful(name: str, gates: Gates) -> list[Finding]:
    """Gates that opened somewhere between two releases that were read."""
    rows = table("quantization")["gates"]
    return [
        Finding(
            "quant-release-doubtful",
            "note",
            name,
            f"whether SGLang {gates.release} already {rows[gate]['what']} is not known "
            f"({rows[gate]['last_without']} does not, {rows[gate]['since']} does); assumed that it does not",
            f"use SGLang {rows[gate]['since']} or newer",
            str(rows[gate]["source"]),
        )
        for gate in gates.doubtful
    ]
