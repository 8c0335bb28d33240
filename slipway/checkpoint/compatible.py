"""Whether a reading fits what the user asks for and what the GPU can do (sglang.md B1 steps 6 and 7)."""

from __future__ import annotations

from slipway.checkpoint.as_read import AsRead
from slipway.checkpoint.tables import table
from slipway.checkpoint.versions import gates_of
from slipway.finding import Finding


def check_quantization_flag(read: AsRead, given: str) -> tuple[Finding, ...]:
    """`--quantization` against the checkpoint: SGLang refuses one that is neither the same nor compatible.

    An unquantized checkpoint takes any method that quantizes while loading.
    """
    if not given or given == read.method or not read.method:
        return ()
    gates = gates_of(read.release, read.patches)
    rows = [row for row in table("quantization")["cli"] if row["given"] == given and read.method in row["over"]]
    if any("gate" not in row or gates.has(row["gate"]) for row in rows):
        return ()
    allowed = ", ".join(_allowed(read)) or "no other"
    message = f"--quantization {ascii(given)[:60]}: SGLang {read.release} reads the checkpoint as {read.method}"
    fix = f"leave the flag out, or use {read.method} ({allowed} is also accepted)"
    return (Finding("quant-flag-mismatch", "error", "--quantization", message, fix, "sglang.md B1 step 6, B2"),)


def _allowed(read: AsRead) -> list[str]:
    gates = gates_of(read.release, read.patches)
    rows = [row for row in table("quantization")["cli"] if read.method in row["over"]]
    return [str(row["given"]) for row in rows if "gate" not in row or gates.has(row["gate"])]


def check_capability(read: AsRead, compute_capability: float, subject: str) -> tuple[Finding, ...]:
    """The method's floor against a GPU. compute_capability: as nvidia-smi prints it, e.g. 8.9."""
    have = round(compute_capability * 10)
    if have >= read.min_compute_capability:
        return ()
    need = f"{read.min_compute_capability // 10}.{read.min_compute_capability % 10}"
    message = f"{read.method} needs compute capability {need}; this GPU has {have // 10}.{have % 10}"
    fix = "use a GPU of that capability or a checkpoint in another format"
    return (Finding("quant-capability", "error", subject, message, fix, "sglang.md B3; reported_faults.md 51"),)
