"""Asks the tables for the backends of workers that are alike, and turns what they object to into findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.checkpoint import AsRead, Checkpoint
from slipway.finding import Finding
from slipway.knowledge import gpus
from slipway.knowledge.backends import UNKNOWN, Request
from slipway.knowledge.problems import Problem

from .kind import Kind

# Problems that the reading of the checkpoint states as well, with the layers concerned.
SAID_BY_READING = frozenset({"checkpoint-misread"})


def request_of(kind: Kind, read: AsRead | None, explicit: Mapping[str, Any]) -> Request:
    """The question to the tables. explicit: what the user wrote, by flag name."""
    return Request(
        release=kind.engine.version,
        arch=kind.arch,
        patches=frozenset(kind.engine.patches),
        role=kind.role,
        tp=kind.settings.tp,
        ep=kind.settings.ep,
        speculative=_text(explicit.get("speculative_algorithm")),
        speculative_topk=_number(explicit.get("speculative_eagle_topk")),
        gpu=_gpu(kind.gpu),
        driver=kind.driver,
        explicit=dict(explicit),
        **_model(kind.checkpoint, read),
    )


def _model(checkpoint: Checkpoint | None, read: AsRead | None) -> dict[str, Any]:
    """The checkpoint in the words of the tables; 'unknown' where there is none to read."""
    if checkpoint is None or read is None:
        return {"quantization": UNKNOWN, "attention": UNKNOWN}
    real = checkpoint.quantization
    return {
        "model_class": next(iter(checkpoint.architectures), checkpoint.model_type),
        "attention": checkpoint.attention.kind,
        "quantization": read.method,
        "hybrid_nvfp4": real.method == "fp8+nvfp4",
        "experts": real.experts.name if checkpoint.experts.routed else "none",
        "swiglu_limit": checkpoint.swiglu_limit or None,
        "kv_cache_quant": next((entry.kv_cache for entry in checkpoint.declared if entry.kv_cache), None),
    }


def _gpu(printed: str) -> str:
    found = gpus.find(printed)
    return found.id if found else ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def as_finding(problem: Problem, subject: str) -> Finding:
    """A problem of the tables as a finding about `subject`."""
    return Finding(problem.kind, problem.severity, subject, problem.message, problem.fix, problem.source)


def choice_findings(problems: tuple[Problem, ...], read: AsRead | None, subject: str) -> list[Finding]:
    """What the tables object to, without what the reading of the checkpoint has said."""
    said = SAID_BY_READING if read is not None and not read.right else frozenset()
    return [as_finding(problem, subject) for problem in problems if problem.kind not in said]
