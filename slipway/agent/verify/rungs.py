"""The rungs by name: one table, so that a name in a report, a configuration or a fault table leads to its code."""

from __future__ import annotations

from typing import Any

from slipway.agent.verify.answers import accurate, completes, known_answers, repeats_itself, samples, shaped, streams
from slipway.agent.verify.climbing import Rung, climb, settled
from slipway.agent.verify.lengths import long_prompt, near_limit, over_limit
from slipway.agent.verify.load import burst, mixed
from slipway.agent.verify.process import environment_right, health_ok, limits_granted, ports_open, process_runs
from slipway.agent.verify.reference import equals_reference
from slipway.agent.verify.settings import metrics_there, model_named, settings_equal
from slipway.agent.verify.wiring import bootstrap_found, pairs_work, reached, router_ready, worker_counts

RUNGS: dict[str, Rung] = {
    "process": process_runs,
    "ports": ports_open,
    "health": health_ok,
    "limits": limits_granted,
    "environment": environment_right,
    "settings": settings_equal,
    "model": model_named,
    "metrics": metrics_there,
    "bootstrap": settled(bootstrap_found),
    "readiness": settled(router_ready),
    "workers": settled(worker_counts),
    "completion": settled(completes),
    "shape": shaped,
    "known-answers": known_answers,
    "streaming": streams,
    "samples": samples,
    "pairs": pairs_work,
    "long-prompt": long_prompt,
    "near-limit": near_limit,
    "over-limit": over_limit,
    "repeats": repeats_itself,
    "mixed": mixed,
    "burst": burst,
    "reference": equals_reference,
    "accuracy": accurate,
    "still-there": process_runs,
    "reached": reached,
}
# What a start is watched by: until these hold, nothing else is worth asking.
STARTED = ("process", "ports", "health")


def rungs_of(subject: dict[str, Any]) -> list[str]:
    """Which rungs; ranks above 0 answer /health 200 whatever they do, so that one would prove nothing there."""
    names = subject.get("rungs") or STARTED
    return [name for name in names if name != "health" or subject.get("serves", True)]


def started(subject: dict[str, Any]) -> list[dict[str, Any]]:
    """Results of the rungs of a start."""
    return list(climb(subject, rungs_of(subject), RUNGS))
