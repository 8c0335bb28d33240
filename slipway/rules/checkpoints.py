"""What a checkpoint asks of the engine that serves it."""

from __future__ import annotations

from collections.abc import Iterator

from .facts import Worker
from .registry import worker_rule


@worker_rule(
    "draft-layers-missing",
    "error",
    title="A draft without a model of its own has layers in the checkpoint",
    fix="set speculative_draft_model_path, or take speculative_algorithm out",
    source="sglang.md C8, H (MTP layers)",
    confidence="inferred",
)
def draft_layers_missing(worker: Worker) -> Iterator[str]:
    """EAGLE or NEXTN without speculative_draft_model_path drafts with MTP layers, which the checkpoint has."""
    checkpoint = worker.entry.checkpoint
    drafts = worker.get("speculative") in ("eagle", "nextn")
    if checkpoint and drafts and checkpoint.mtp_layers < 1 and not worker.get("given.speculative_draft_model_path"):
        algorithm = worker.text("given.speculative_algorithm")
        yield f"speculative_algorithm {algorithm} without a draft model, and the checkpoint has no MTP layers"
