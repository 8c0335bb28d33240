"""What is wrong with a host, told before anything is built on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from slipway.finding import Finding, Severity
from slipway.hardware import catalogue, reading
from slipway.hardware.model import Gpu, HostHardware, RdmaDevice

DRIVER_WORDS = re.compile(
    r"couldn't communicate with the NVIDIA driver|Driver/library version mismatch|Failed to initialize NVML",
    re.IGNORECASE,
)
LOST_WORDS = re.compile(r"Unable to determine the device handle|GPU is lost|requires reset", re.IGNORECASE)


def check(hardware: HostHardware, probe: Any, host: str, deployment: str = "") -> Iterator[Finding]:
    """Every finding about one probed host. deployment: the one that is planned."""
    yield from check_probe(probe, host)
    yield from check_driver(hardware, probe, host)
    for gpu in hardware.gpus:
        yield from check_gpu(gpu, host)
        yield from check_processes(gpu, host, deployment)
    yield from check_alike(hardware, host)
    yield from check_links(hardware, probe, host)
    for device in hardware.rdma:
        yield from check_rdma(device, host)
    yield from check_toolkit(hardware, host)


def check_probe(probe: Any, host: str) -> Iterator[Finding]:
    """The probe itself, and readings it could not make that a plan would want."""
    if not isinstance(probe, dict) or probe.get("format") != 1:
        found = probe.get("format") if isinstance(probe, dict) else type(probe).__name__
        yield Finding(
            "hardware.probe-format",
            "error",
            host,
            f"the probe answered in format {found!r}; this release reads format 1",
            "run the probe that ships with this release",
        )
        return
    for name in ("memory", "cpu", "system", "network", "disks"):
        why = reading.complaint(probe, name)
        if why:
            yield Finding("hardware.reading-failed", "warning", host, f"{name} could not be read: {why}")


def check_driver(hardware: HostHardware, probe: Any, host: str) -> Iterator[Finding]:
    """nvidia-smi absent, hanging, without a driver, or without GPUs that are on the bus."""
    why = reading.complaint(probe, "nvidia_smi") or reading.complaint(probe, "nvidia_smi", "gpus")
    on_bus = len(reading.rows(probe, "pci_gpus"))
    absent = why.endswith("nvidia-smi: not found")
    if not on_bus and (absent or "No devices were found" in why):
        return  # a host without GPUs needs no driver
    printed = why or reading.output(probe, "nvidia_smi", "gpus")
    lost = LOST_WORDS.search(printed)
    if why and "no answer" in why:
        yield hanging(host, why)
    elif absent:
        yield no_tool(host, on_bus)
    elif why and not lost:
        yield broken(host, why)
    if lost:
        yield lost_gpu(host, printed)
    elif not why and on_bus > len(hardware.gpus):
        yield fewer(host, len(hardware.gpus), on_bus)


def hanging(host: str, why: str) -> Finding:
    """A driver that does not answer."""
    return Finding(
        "hardware.driver-hangs",
        "error",
        host,
        f"{why}: the driver or a GPU hangs",
        "look for Xid errors in dmesg, then reset the GPU or reboot the host",
    )


def no_tool(host: str, on_bus: int) -> Finding:
    """GPUs without a driver."""
    return Finding(
        "hardware.driver-absent",
        "error",
        host,
        f"{on_bus} NVIDIA GPU(s) on the PCI bus but no nvidia-smi",
        "install the NVIDIA driver, or put nvidia-smi on PATH of a non-login shell",
    )


def broken(host: str, why: str) -> Finding:
    """nvidia-smi runs and fails."""
    mismatch = "mismatch" in why
    fix = "load the kernel module (modprobe nvidia) or reinstall the driver for the running kernel"
    return Finding(
        "hardware.driver-broken",
        "error",
        host,
        f"nvidia-smi fails: {' '.join(why.split())[:300]}",
        "reboot, or unload and load the kernel module: the driver was updated while in use" if mismatch else fix,
    )


def lost_gpu(host: str, printed: str) -> Finding:
    """A GPU that fell off the bus."""
    line = next((line for line in printed.splitlines() if LOST_WORDS.search(line)), printed)
    return Finding(
        "hardware.gpu-lost",
        "error",
        host,
        f"a GPU does not answer: {line.strip()[:200]}",
        "look for Xid errors in dmesg, reset the GPU or reboot the host",
    )


def fewer(host: str, seen: int, on_bus: int) -> Finding:
    """The driver sees fewer GPUs than the bus."""
    return Finding(
        "hardware.gpus-missing",
        "warning",
        host,
        f"the driver shows {seen} GPU(s), the PCI bus has {on_bus} NVIDIA display devices",
        "look for Xid errors in dmesg; a display adapter of another kind is harmless",
    )


def check_gpu(gpu: Gpu, host: str) -> Iterator[Finding]:
    """MIG, ECC, unknown memory."""
    name = f"{host}: GPU {gpu.index}"
    if gpu.mig:
        fix = f"nvidia-smi -i {gpu.index} -mig 0, or leave this GPU out with `gpus:`"
        yield Finding("hardware.mig-on", "error", name, "MIG is on: an engine cannot take the whole GPU", fix)
    if gpu.ecc is False:
        card = catalogue.card(gpu.name)
        fix = f"nvidia-smi -i {gpu.index} -e 1, then reset the GPU"
        level: Severity = "warning" if card is None or card.ecc else "note"
        yield Finding("hardware.ecc-off", level, name, "ECC is off: bit errors go unnoticed", fix)
    if gpu.memory_mib == 0:
        yield Finding("hardware.memory-unknown", "warning", name, f"{gpu.name} does not tell its memory")


def check_processes(gpu: Gpu, host: str, deployment: str) -> Iterator[Finding]:
    """Processes that hold the GPU's memory, but for those of the deployment that is planned."""
    for process in gpu.processes:
        if process.deployment and process.deployment == deployment:
            continue
        whose = f" of deployment {process.deployment}" if process.deployment else ""
        message = f"process {process.pid} ({process.name}){whose} holds {process.memory_mib} MiB"
        fix = "destroy that deployment, or name other GPUs with `gpus:`" if whose else "end it"
        yield Finding("hardware.gpu-in-use", "warning", f"{host}: GPU {gpu.index}", message, fix)


def check_alike(hardware: HostHardware, host: str) -> Iterator[Finding]:
    """GPUs of two kinds in one host: an instance must not mix them."""
    kinds = {(gpu.name, gpu.memory_mib): gpu.index for gpu in reversed(hardware.gpus)}
    if len(kinds) > 1:
        names = ", ".join(f"GPU {index}: {name}" for (name, _), index in sorted(kinds.items(), key=lambda k: k[1]))
        fix = "name the GPUs of each role with `gpus:`"
        yield Finding("hardware.gpus-differ", "warning", host, f"GPUs of several kinds: {names}", fix)


def check_links(hardware: HostHardware, probe: Any, host: str) -> Iterator[Finding]:
    """A topology that could not be read, and a switched host whose fabric is not up."""
    if len(hardware.gpus) > 1 and not reading.output(probe, "nvidia_smi", "topo"):
        why = reading.complaint(probe, "nvidia_smi", "topo") or "no output"
        message = f"GPU topology unknown ({why}): placement goes by NUMA node only"
        yield Finding("hardware.topology-unknown", "warning", host, message)
    for row in reading.table(reading.output(probe, "nvidia_smi", "fabric")):
        state = reading.word(row.get("fabric.state"))
        if state and state.lower() != "completed":
            message = f"GPU {row.get('index')}: NVLink fabric is {state}, must be Completed"
            fix = "start nvidia-fabricmanager at the driver's version"
            yield Finding("hardware.fabric-down", "error", host, message, fix)


def check_rdma(device: RdmaDevice, host: str) -> Iterator[Finding]:
    """Ports that are down, and Ethernet ports with link-local addresses only."""
    subject = f"{host}: {device.name} port {device.port}"
    if not device.active:
        message = f"RDMA port is {device.state or 'in an unknown state'}, must be ACTIVE to carry KV"
        yield Finding("hardware.rdma-down", "warning", subject, message, "check cable and link, or leave it out")
    elif not device.routable:
        source = "sgl-project/sglang#10560: local protection error with a link-local GID"
        message = f"only link-local GIDs ({', '.join(device.gids[:2])}): peers cannot reach it"
        yield Finding("hardware.rdma-link-local", "warning", subject, message, "give its interface an address", source)


def version(text: str) -> tuple[int, ...]:
    """580.65.06 as numbers to compare."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:4])


def check_cuda(hardware: HostHardware, needs: str, host: str) -> list[Finding]:
    """Whether the driver serves the CUDA version that an engine build was made for."""
    least = catalogue.least_driver(needs)
    if not hardware.gpus or not hardware.driver or not least or version(hardware.driver) >= version(least):
        return []
    message = f"driver {hardware.driver} is older than CUDA {needs} needs ({least} or newer)"
    fix = f"install driver {least} or newer, or an engine build for an older CUDA"
    return [Finding("hardware.driver-old", "error", host, message, fix, "NVIDIA CUDA compatibility guide")]


def check_toolkit(hardware: HostHardware, host: str) -> Iterator[Finding]:
    """A compiler newer than the driver builds kernels that the driver refuses."""
    served, built = version(hardware.cuda)[:1], version(hardware.nvcc)[:1]
    if hardware.gpus and served and built and built > served:
        message = f"nvcc {hardware.nvcc} ({hardware.nvcc_path}) is newer than the driver's CUDA {hardware.cuda}"
        fix = "point CUDA_HOME at a toolkit of the driver's major version, or update the driver"
        yield Finding("hardware.toolkit-newer", "warning", host, message, fix, "sgl-project/sglang PR #22833")
