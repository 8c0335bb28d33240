"""One line a label: what there is, from when, on what."""

from __future__ import annotations

from pathlib import Path

from slipway.bench.errors import BenchError
from slipway.bench.folder import Result, labels, read_result
from slipway.bench.provenance import date, facets

HEAD = ("LABEL", "LOADS", "RUNS", "VOID", "STATE", "MODEL", "GPUS", "DATE")


def listed(results: Path) -> list[tuple[str, ...]]:
    """Rows for HEAD; a folder that cannot be read has its reason as its state."""
    return [_row(results, label) for label in labels(results)]


def _row(results: Path, label: str) -> tuple[str, ...]:
    try:
        return _of(read_result(results, label))
    except BenchError as error:
        return (label, "", "", "", f"unreadable: {error}", "", "", "")


def _of(result: Result) -> tuple[str, ...]:
    known = facets(result.provenance)
    void = sum(not cell.valid for cell in result.cells)
    state = "complete" if result.complete else "not ended"
    gpus = known.get("GPUs", "none") + (" (SIMULATED)" if result.provenance.get("simulated") else "")
    counts = (str(len(result.shapes)), str(len(result.cells)), str(void))
    return (
        result.label,
        *counts,
        state,
        str((result.provenance.get("checkpoint") or {}).get("name", "")),
        gpus,
        date(result.provenance),
    )
