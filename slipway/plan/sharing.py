"""GPUs that several workers share, where the user says so: the memory they claim must fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slipway.finding import Finding

from .model import Instance

MOST = 0.9  # of a GPU's memory, for the static pools of all: each engine needs some beside its pool
SOURCE = "mem_fraction_static is a share of the whole GPU; measured on one H200 with two workers (hardware.md)"


def sharing_findings(instances: Iterable[Instance]) -> Iterator[Finding]:
    """An error for each GPU whose workers claim more than there is, and a warning for each that is shared at all."""
    holders: dict[tuple[str, int], list[Instance]] = {}
    for instance in instances:
        for gpu in instance.gpus:
            holders.setdefault((instance.host, gpu), []).append(instance)
    for (host, gpu), sharing in sorted(holders.items()):
        if len(sharing) > 1:
            yield _judged(host, gpu, sharing)


def _judged(host: str, gpu: int, sharing: list[Instance]) -> Finding:
    names = " and ".join(one.name for one in sharing)
    silent = [one.name for one in sharing if not one.settings.get("mem_fraction_static")]
    if silent:
        text = f"GPU {gpu} is shared by {names}; {', '.join(silent)} would take nearly all of its memory"
        return Finding("gpu-shared-memory", "error", host, text, "set mem_fraction_static for each of them", SOURCE)
    total = sum(float(one.settings["mem_fraction_static"]) for one in sharing)
    if total > MOST:
        claim = f"whose mem_fraction_static add up to {total:.2f}; must be at most {MOST}"
        text = f"GPU {gpu} is shared by {names}, {claim}"
        return Finding("gpu-shared-memory", "error", host, text, "lower mem_fraction_static", SOURCE)
    text = f"GPU {gpu} is shared by {names}: they slow each other down, and what is measured is both"
    return Finding("gpu-shared", "warning", host, text, "give each GPUs of its own, where there are any")
