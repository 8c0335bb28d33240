"""Whether a host is what the plan was told: differences that would change the plan are errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slipway.finding import Finding
from slipway.hardware.model import HostHardware

MEMORY_TOLERANCE = 0.03  # firmware and driver reserve a little more or less
FIX = "correct `hardware:` of this host, or leave it out so that the probe decides"


def compare(declared: HostHardware, probed: HostHardware, host: str = "") -> list[Finding]:
    """What differs between the declared and the probed host; only what was declared is compared."""
    findings = list(compare_gpus(declared, probed, host))
    if not findings:
        findings += compare_links(declared, probed, host)
    findings += compare_rdma(declared, probed, host)
    findings += compare_host(declared, probed, host)
    return findings


def differs(host: str, what: str, declared: str, probed: str) -> Finding:
    """A difference that changes the plan."""
    return Finding("hardware.differs", "error", host, f"{what}: declared {declared}, found {probed}", FIX)


def compare_gpus(declared: HostHardware, probed: HostHardware, host: str) -> Iterator[Finding]:
    """Count, architecture and memory decide placement, backends and what fits."""
    if len(declared.gpus) != len(probed.gpus):
        yield differs(host, "GPUs", declared.describe(), probed.describe())
        return
    if declared.sm and probed.gpus and declared.sm != probed.sm:
        yield differs(host, "architecture", f"sm_{declared.sm}", f"sm_{probed.sm} ({probed.gpu_name})")
    wanted, found = Counter(g.name for g in declared.gpus), Counter(g.name for g in probed.gpus)
    if wanted != found and declared.sm == probed.sm:
        message = f"GPU model: declared {declared.gpu_name}, found {probed.gpu_name}"
        yield Finding("hardware.model-differs", "warning", host, message, FIX)
    for want, have in zip(declared.gpus, probed.gpus, strict=True):
        if have.memory_mib < want.memory_mib * (1 - MEMORY_TOLERANCE):
            found_memory = f"{have.memory_mib} MiB"
            yield differs(f"{host}: GPU {have.index}", "memory", f"{want.memory_mib} MiB", found_memory)


def compare_links(declared: HostHardware, probed: HostHardware, host: str) -> Iterator[Finding]:
    """NVLink decides placement and transfers; other paths only how fast they are."""
    if not declared.links or not probed.links:
        return
    wanted, found = declared.nvlink_islands, probed.nvlink_islands
    if len(wanted) != len(found) or max(map(len, wanted)) != max(map(len, found)):
        yield differs(host, "NVLink islands", islands(wanted), islands(found))
    elif declared.numa_islands != probed.numa_islands:
        message = f"NUMA: declared {islands(declared.numa_islands)}, found {islands(probed.numa_islands)}"
        yield Finding("hardware.numa-differs", "warning", host, message, FIX)


def islands(groups: tuple[tuple[int, ...], ...]) -> str:
    """Groups of GPUs in words."""
    if not groups or all(len(group) == 1 for group in groups):
        return "none"
    return " | ".join(",".join(map(str, group)) for group in groups)


def compare_rdma(declared: HostHardware, probed: HostHardware, host: str) -> Iterator[Finding]:
    """Declared RDMA devices must be there and up."""
    active = {device.name for device in probed.active_rdma}
    present = {device.name for device in probed.rdma}
    for device in declared.rdma:
        if device.name not in active:
            state = "down" if device.name in present else f"absent (found: {', '.join(sorted(present)) or 'none'})"
            yield differs(host, f"RDMA device {device.name}", "active", state)


def compare_host(declared: HostHardware, probed: HostHardware, host: str) -> Iterator[Finding]:
    """Memory of the host and its processor kind."""
    if declared.memory_mib and probed.memory_mib < declared.memory_mib * 0.9:
        message = f"memory: declared {declared.memory_mib} MiB, found {probed.memory_mib} MiB"
        yield Finding("hardware.memory-differs", "warning", host, message, FIX)
    if declared.machine and probed.machine and declared.machine != probed.machine:
        yield differs(host, "processor", declared.machine, probed.machine)
