"""Workers over several GPUs and hosts, and several workers on one host."""

from __future__ import annotations

from collections.abc import Iterator

from .constants import constant
from .facts import Whole, Worker
from .registry import together, whole_rule, worker_rule
from .transfer import real

STORE = "SGLANG_TCP_STORE_PORT"


@worker_rule(
    "ranks-of-several-kinds",
    "error",
    title="All GPUs of a worker are alike",
    fix="give the worker GPUs of one kind with gpus:, or hosts of one kind",
    source="reported_faults.md 36 (kernels follow the first GPU's capability); sglang.md C1",
    confidence="inferred",
)
def ranks_of_several_kinds(worker: Worker) -> Iterator[str]:
    """The GPUs of a worker, on all its hosts, have one name and memory."""
    entry = worker.entry
    first = [gpu for gpu in entry.hardware[0].gpus if gpu.index in entry.instance.gpus] if entry.hardware else []
    others = [gpu for hardware in entry.hardware[1:] for gpu in hardware.gpus]
    kinds = dict.fromkeys(f"{gpu.name} ({gpu.memory_mib} MiB)" for gpu in [*first, *others])
    if len(kinds) > 1:
        yield f"its ranks are on {', '.join(kinds)}: kernels are chosen by one, and the slowest sets the pace"


@worker_rule(
    "ranks-over-tcp",
    "warning",
    title="Ranks on several hosts talk by RDMA",
    fix="bring RDMA ports up, or keep the worker within one host",
    source="sglang.md D4; sgl-project/sglang#9787; reported_faults.md 31",
    confidence="inferred",
)
def ranks_over_tcp(worker: Worker) -> Iterator[str]:
    """Hosts of a worker over several hosts have an active RDMA port, where they were asked."""
    without = [item for item in worker.entry.hardware if item.origin == "probe" and not item.active_rdma]
    if worker.get("nnodes") > 1 and without and real(worker):
        hosts, nodes = len(without), worker.get("nnodes")
        yield f"{hosts} of its {nodes} hosts have no active RDMA port: every layer waits for TCP"


@whole_rule(
    "store-port-shared",
    "warning",
    title="NIXL workers on one host have their own TCP store",
    fix="set SGLANG_TCP_STORE_PORT to another port for one of the roles",
    source="sglang.md D3 (SGLANG_TCP_STORE_PORT 29600; used by NIXL buffers and elastic EP)",
    confidence="inferred",
)
def store_port_shared(whole: Whole) -> Iterator[tuple[str, str]]:
    """Workers of one host that exchange experts by NIXL do not share SGLANG_TCP_STORE_PORT."""
    sharing: dict[tuple[str, str], list[str]] = {}
    for worker in whole.workers:
        if worker.get("flag.moe_a2a_backend") == "nixl" and real(worker):
            port = str(worker.get(f"env.{STORE}") or constant("tcp_store_port"))
            sharing.setdefault((worker.entry.instance.host, port), []).append(worker.name)
    for (host, port), names in sharing.items():
        if len(names) > 1:
            yield host, f"{together(names)} share {STORE} {port}: the second cannot listen there"
