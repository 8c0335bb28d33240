"""RDMA devices, packages and limits that moving KV needs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from slipway.hardware.model import RdmaDevice

from .conditions import word
from .constants import constant, words_of
from .facts import Worker
from .registry import worker_rule

PAIRED = ("prefill", "decode")


def real(worker: Worker) -> bool:
    """Whether the worker is the real engine on GPUs."""
    return bool(worker.get("device") == "cuda")


def over_rdma(worker: Worker) -> bool:
    """Whether the worker's backend may use RDMA."""
    return real(worker) and worker.get("transfer_over_tcp") is not True and bool(needed_packages(worker))


def needed_packages(worker: Worker) -> tuple[str, ...]:
    """Packages of which one brings the worker's transfer backend; none where that is not known."""
    return tuple(constant("transfer_packages").get(worker.get("transfer_family"), ()))


@worker_rule(
    "transfer-package-missing",
    "error",
    title="The build has the package of its transfer backend",
    fix="add mooncake-transfer-engine-cuda13==VERSION or nixl==VERSION to engine.extra_packages",
    source="sglang.md G (not a dependency of sglang); reported_faults.md 28, 56",
    confidence="observed",
    roles=PAIRED,
)
def transfer_package_missing(worker: Worker) -> Iterator[str]:
    """The engine build of a GPU worker names the package of its transfer backend."""
    needed = needed_packages(worker)
    if real(worker) and needed and not worker.packages.keys() & set(needed):
        yield f"the transfer backend is {worker.text('transfer')} and no package of the build brings it ({needed[0]})"


@worker_rule(
    "transfer-package-unpinned",
    "warning",
    title="The transfer package is pinned with the engine",
    fix="write NAME==VERSION under engine.extra_packages",
    source="sgl-project/sglang#6320; kvcache-ai/Mooncake#2177; reported_faults.md 27, 28",
    confidence="issue",
    roles=PAIRED,
)
def transfer_package_unpinned(worker: Worker) -> Iterator[str]:
    """The package of the transfer backend has a version."""
    known = worker.packages
    for name in needed_packages(worker):
        if known.get(name) == "any":
            yield f"{name} has no version: the next build takes another one, and releases were incompatible before"


def named_devices(worker: Worker) -> tuple[str, ...]:
    """RDMA devices that disaggregation_ib_device lists: words with commas, or JSON by GPU; none from a file."""
    text = str(worker.get("given.disaggregation_ib_device") or "").strip()
    if text.startswith("{"):
        try:
            listed = [str(item) for item in json.loads(text).values()]
        except (ValueError, AttributeError, RecursionError):
            return ()
    else:
        listed = [] if "/" in text else [text]
    return tuple(item.strip() for entry in listed for item in entry.split(",") if item.strip())


def devices(worker: Worker) -> dict[str, RdmaDevice]:
    """RDMA devices of the worker's host by name, as far as they are known."""
    return {device.name: device for device in worker.hardware.rdma} if worker.hardware else {}


@worker_rule(
    "ib-device-absent",
    "error",
    title="The RDMA devices that are named exist",
    fix="name devices of the host, or leave disaggregation_ib_device out",
    source="sglang.md D1 (each name must exist in /sys/class/infiniband); vllm#44919; reported_faults.md 32",
    confidence="source",
    roles=PAIRED,
)
def ib_device_absent(worker: Worker) -> Iterator[str]:
    """Every device of disaggregation_ib_device is one of the host, where its devices are known."""
    known = devices(worker)
    if not known and worker.probed is None:
        return
    absent = [name for name in named_devices(worker) if name not in known]
    if absent:
        yield f"disaggregation_ib_device names {', '.join(absent)}; the host has {', '.join(sorted(known)) or 'none'}"


@worker_rule(
    "ib-device-down",
    "error",
    title="The RDMA devices that are named carry traffic",
    fix="name active devices with a routable address",
    source="sgl-project/sglang#10560; reported_faults.md 31",
    confidence="issue",
    roles=PAIRED,
)
def ib_device_down(worker: Worker) -> Iterator[str]:
    """Every device of disaggregation_ib_device is active and has an address beyond its own link."""
    known = devices(worker)
    for name in named_devices(worker):
        if name in known and not known[name].routable:
            state = "has link-local addresses only" if known[name].active else known[name].state or "is not active"
            yield f"disaggregation_ib_device names {name}, which {state}"


@worker_rule(
    "ib-device-unsaid",
    "warning",
    title="Hosts with unequal RDMA devices name those that carry KV",
    fix="set disaggregation_ib_device under worker.server_args to the devices that reach the other hosts",
    source="vllm#44919; sgl-project/sglang#27730; reported_faults.md 32",
    confidence="issue",
    roles=PAIRED,
)
def ib_device_unsaid(worker: Worker) -> Iterator[str]:
    """Where some RDMA devices of a host carry traffic and others do not, disaggregation_ib_device says which."""
    known = devices(worker).values()
    bad = [device.name for device in known if not device.routable]
    if bad and len(bad) < len(known) and over_rdma(worker) and not worker.get("given.disaggregation_ib_device"):
        yield f"the engine chooses among {len(known)} RDMA devices, of which {', '.join(bad)} cannot carry KV"


@worker_rule(
    "memlock-limited",
    "error",
    title="RDMA may register as much memory as it needs",
    fix="raise the memlock limit of the login (limits.d: memlock unlimited), or use systemd",
    source="kvcache-ai/Mooncake#1382, #281, #351; sgl-project/sglang#6193, #6894; reported_faults.md 30",
    confidence="issue",
    roles=PAIRED,
)
def memlock_limited(worker: Worker) -> Iterator[str]:
    """Under supervisor, which inherits the login's limits, memlock is unlimited where KV goes by RDMA."""
    limits = worker.probed.limits if worker.probed else ()
    if worker.get("manager") == "systemd" or not over_rdma(worker) or worker.get("rdma") != "active":
        return
    for limit in limits:
        if limit.name.lower() == "memlock" and limit.hard is not None:
            yield f"memlock is limited to {limit.hard:,} bytes: GPU memory cannot be registered with the RDMA device"


@worker_rule(
    "peer-memory-missing",
    "warning",
    title="RDMA devices reach GPU memory",
    fix="load nvidia_peermem, or check that the driver exports dma-buf",
    source="kvcache-ai/Mooncake#1382; sgl-project/sglang#6193; sglang.md J; reported_faults.md 30",
    confidence="issue",
    roles=PAIRED,
)
def peer_memory_missing(worker: Worker) -> Iterator[str]:
    """A host that was asked, with RDMA in use, has a peer-memory module loaded."""
    modules = worker.probed.modules if worker.probed else ()
    known = words_of("peer_memory_modules")
    if modules and over_rdma(worker) and worker.get("rdma") == "active" and not set(known) & set(modules):
        yield f"none of {', '.join(known)} is loaded: KV goes through the host's memory, or registration fails"


@worker_rule(
    "rdma-library-missing",
    "error",
    title="The system has the libraries that Mooncake links",
    fix="apt-get install libibverbs1 ibverbs-providers libnuma1",
    source="sglang.md G (ldd of the Mooncake wheel)",
    confidence="observed",
    roles=PAIRED,
)
def rdma_library_missing(worker: Worker) -> Iterator[str]:
    """A host that was asked has libibverbs, libmlx5 and libnuma where Mooncake is used on GPUs."""
    missing = worker.probed.missing_libraries if worker.probed else ()
    lacking = [name for name in words_of("mooncake_libraries") if name in missing]
    if lacking and real(worker) and worker.get("transfer_family") == "mooncake":
        yield f"{', '.join(lacking)} is not on the host, and Mooncake does not import without"


@worker_rule(
    "interface-absent",
    "error",
    title="Network interfaces that are named exist",
    fix="name an interface of the host, or take the variable out",
    source="sglang.md D3 (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME)",
    confidence="source",
)
def interface_absent(worker: Worker) -> Iterator[str]:
    """Every interface of GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME starts the name of one of the host's."""
    known = [interface.name for interface in worker.probed.interfaces] if worker.probed else []
    for variable in words_of("interface_variables"):
        text = word(worker.get(f"env.{variable}") or "")
        wanted = [] if text.startswith("^") else [name.strip("= ") for name in text.split(",") if name.strip("= ")]
        absent = [name for name in wanted if not any(item.lower().startswith(name.split(":")[0]) for item in known)]
        if known and absent:
            yield f"{variable} names {', '.join(absent)}; the host has {', '.join(known)}"
