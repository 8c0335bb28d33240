"""Limits and devices of worker processes."""

from __future__ import annotations

from collections.abc import Iterator

from .constants import constant
from .facts import Worker
from .registry import worker_rule
from .transfer import real


@worker_rule(
    "gpus-chosen-twice",
    "error",
    title="The plan alone says which GPUs a worker sees",
    fix="use gpus: of the role",
    source="sglang.md D4; reported_faults.md 65",
    confidence="source",
)
def gpus_chosen_twice(worker: Worker) -> Iterator[str]:
    """CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES are not in env."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        value = worker.entry.settings.env.get(name)
        if value is not None:
            yield f"{name} is {value}: it wins over the GPUs that the plan chose, and two workers may meet on one"


@worker_rule(
    "open-files-limited",
    "warning",
    title="Workers may hold as many connections as clients open",
    fix="raise the nofile limit of the login (limits.d), or use systemd",
    source="sgl-project/sglang#7551; tenstorrent/tt-inference-server#2913; reported_faults.md 67",
    confidence="issue",
)
def open_files_limited(worker: Worker) -> Iterator[str]:
    """On GPU hosts under supervisor, which inherits the login's limits, a process may open 65536 files."""
    inherited = real(worker) and worker.get("manager") != "systemd"
    limits = worker.probed.limits if worker.probed and inherited else ()
    for limit in limits:
        if limit.name.lower() == "nofile" and limit.hard is not None and limit.hard < constant("least_open_files"):
            yield f"nofile is limited to {limit.hard}: connections fail from there on, at the latest near 32k"
