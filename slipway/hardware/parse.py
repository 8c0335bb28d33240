"""The probe's JSON to `HostHardware`: total, so that half an answer still makes a plan or a clear finding."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from slipway.hardware import catalogue, reading, topology
from slipway.hardware.checks import check
from slipway.hardware.model import (
    Disk,
    Gpu,
    GpuProcess,
    HostHardware,
    Interface,
    Limit,
    Listener,
    NumaNode,
    PythonInstall,
    RdmaDevice,
)

KIB_PER_MIB = 1024


def parse(probe: Any, host: str = "", deployment: str = "") -> HostHardware:
    """What the probe found, with findings about it; `host` is the name that findings carry.

    deployment: the one that is planned, whose own processes may hold GPUs.
    """
    matrix = topology.read_matrix(reading.output(probe, "nvidia_smi", "topo"))
    gpus = read_gpus(probe, matrix)
    hardware = HostHardware(
        origin="probe",
        gpus=gpus,
        links=read_links(gpus, matrix),
        numa=read_numa(probe),
        rdma=read_rdma(probe),
        disks=read_disks(probe),
        pythons=read_pythons(probe),
        interfaces=read_interfaces(probe),
        limits=read_limits(probe),
        listeners=read_listeners(probe),
        **read_driver(probe),
        **read_machine(probe),
        **read_software(probe),
    )
    return replace(hardware, findings=tuple(check(hardware, probe, host or hardware.hostname or "host", deployment)))


# --- GPUs ---------------------------------------------------------------------------------------------------


def bus(address: str) -> str:
    """A PCI address in one spelling: nvidia-smi writes an eight-digit domain in capitals, the kernel four."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


def read_gpus(probe: Any, matrix: topology.Topology) -> tuple[Gpu, ...]:
    """The GPUs by index; a row without an index or a name is no GPU that can be used."""
    nodes = {bus(reading.word(row.get("bus_id"))): row for row in reading.rows(probe, "pci_gpus")}
    system = reading.count(reading.section(probe, "memory").get("total_kib")) // KIB_PER_MIB
    held = read_processes(probe)
    found: dict[int, Gpu] = {}
    for row in reading.table(reading.output(probe, "nvidia_smi", "gpus")):
        index, name = reading.whole(row.get("index")), reading.word(row.get("name"))
        if index is None or index < 0 or not name or index in found:
            continue
        node = numa_of(index, nodes.get(bus(row.get("pci.bus_id", "")), {}), matrix)
        card = read_card(index, name, row, system)
        found[index] = replace(card, numa_node=node, processes=held.get(card.uuid, ()))
    return tuple(found[index] for index in sorted(found))


def read_card(index: int, name: str, row: dict[str, str], system_mib: int) -> Gpu:
    """One row of the GPU table; what an old driver does not tell comes from the catalogue's card."""
    known = catalogue.card(name)
    reported = reading.count(row.get("memory.total"))
    unified = reported == 0 and known is not None and known.unified_memory
    capability = reading.word(row.get("compute_cap"))
    return Gpu(
        index=index,
        name=name,
        memory_mib=system_mib if unified else reported,
        compute_capability=capability or (known.compute_capability if known else ""),
        uuid=reading.word(row.get("uuid")),
        unified_memory=unified,
        mig=row.get("mig.mode.current", "").lower() == "enabled",
        ecc={"enabled": True, "disabled": False}.get(row.get("ecc.mode.current", "").lower()),
        pci_bus_id=reading.word(row.get("pci.bus_id")),
        power_limit_w=reading.fraction(reading.word(row.get("power.limit"))),
    )


def numa_of(index: int, pci: dict[str, Any], matrix: topology.Topology) -> int | None:
    """A GPU's NUMA node: the driver's word, else the kernel's, which says -1 inside many virtual machines."""
    if index in matrix.indices:
        node = matrix.numa[matrix.indices.index(index)]
        if node is not None:
            return node
    node = reading.whole(pci.get("numa_node"))
    return node if node is not None and node >= 0 else None


def read_processes(probe: Any) -> dict[str, tuple[GpuProcess, ...]]:
    """Processes by the GPU that they hold."""
    held: dict[str, tuple[GpuProcess, ...]] = {}
    for row in reading.table(reading.output(probe, "nvidia_smi", "apps")):
        pid = reading.whole(row.get("pid"))
        if pid is not None:
            used = reading.count(row.get("used_gpu_memory") or row.get("used_memory"))
            owner = reading.word(reading.section(probe, "nvidia_smi", "owners").get(str(pid)))
            process = GpuProcess(pid, reading.word(row.get("process_name")) or "?", used, owner)
            held[row.get("gpu_uuid", "")] = (*held.get(row.get("gpu_uuid", ""), ()), process)
    return held


def read_links(gpus: tuple[Gpu, ...], matrix: topology.Topology) -> topology.Matrix:
    """Relations in the order of the GPUs; where the tool told none, what NUMA nodes imply."""
    at = {index: row for row, index in enumerate(matrix.indices)}
    if gpus and all(gpu.index in at for gpu in gpus):
        order = [at[gpu.index] for gpu in gpus]
        return tuple(tuple(topology.link_at(matrix.links, row, column) for column in order) for row in order)
    return topology.guess_matrix(tuple(gpu.numa_node for gpu in gpus))


def read_driver(probe: Any) -> dict[str, Any]:
    """Driver and CUDA versions."""
    table = reading.table(reading.output(probe, "nvidia_smi", "gpus"))
    kernel = re.search(
        r"\s(\d{3}\.\d+(?:\.\d+)?)\s", reading.word(reading.section(probe, "driver").get("version")) + " "
    )
    served = re.search(r"CUDA Version:\s*(\d+\.\d+)", reading.output(probe, "nvidia_smi", "summary"))
    nvcc = re.search(r"release (\d+\.\d+)", reading.output(probe, "cuda", "nvcc"))
    named = next((reading.word(row.get("driver_version")) for row in table), "")
    return {
        "driver": named or (kernel.group(1) if kernel else ""),
        "cuda": served.group(1) if served else "",
        "nvcc": nvcc.group(1) if nvcc else "",
        "nvcc_path": reading.word(reading.section(probe, "cuda").get("nvcc_path")),
        "modules": reading.words(reading.section(probe, "driver").get("modules")),
    }


# --- the machine --------------------------------------------------------------------------------------------


def read_numa(probe: Any) -> tuple[NumaNode, ...]:
    """NUMA nodes in order."""
    nodes = [
        NumaNode(node, reading.word(row.get("cpus")), reading.count(row.get("memory_kib")) // KIB_PER_MIB)
        for row in reading.rows(probe, "numa")
        if (node := reading.whole(row.get("node"))) is not None
    ]
    return tuple(sorted(nodes, key=lambda node: node.node))


def read_rdma(probe: Any) -> tuple[RdmaDevice, ...]:
    """Every port of every RDMA device."""
    return tuple(
        read_rdma_port(device, port)
        for device in reading.rows(probe, "rdma")
        if reading.word(device.get("name"))
        for port in reading.rows(device, "ports")
    )


def read_rdma_port(device: dict[str, Any], port: dict[str, Any]) -> RdmaDevice:
    """One port: the kernel writes its state as `4: ACTIVE`."""
    state = reading.word(port.get("state"))
    gids = tuple(reading.word(row.get("gid")) for row in reading.rows(port, "gids"))
    own = {reading.word(row.get("netdev")) for row in reading.rows(port, "gids")} - {""}
    return RdmaDevice(
        name=reading.word(device.get("name")),
        port=reading.count(port.get("port")) or 1,
        active="ACTIVE" in state.upper(),
        state=state,
        link_layer=reading.word(port.get("link_layer")),
        rate=reading.word(port.get("rate")),
        netdevs=tuple(sorted(own)) or reading.words(device.get("netdevs")),
        gids=tuple(gid for gid in gids if gid),
        numa_node=reading.whole(device.get("numa_node")),
    )


def read_disks(probe: Any) -> tuple[Disk, ...]:
    """Space by the path that was asked for."""
    found = []
    for asked, row in reading.section(probe, "disks").items():
        if isinstance(row, dict) and reading.whole(row.get("total")) is not None:
            total, free = reading.count(row.get("total")), reading.count(row.get("free"))
            found.append(Disk(reading.word(row.get("path")) or asked, total, free, row.get("writable") is not False))
    return tuple(found)


def read_machine(probe: Any) -> dict[str, Any]:
    """CPUs, memory, kernel and who we are there."""
    memory, cpu = reading.section(probe, "memory"), reading.section(probe, "cpu")
    system, who = reading.section(probe, "system"), reading.section(probe, "identity")
    release = reading.section(probe, "system", "os_release")
    return {
        "cpus": reading.count(cpu.get("usable")) or reading.count(cpu.get("count")),
        "cpu_model": reading.word(cpu.get("model")),
        "cpu_flags": reading.words(cpu.get("flags")),
        "memory_mib": reading.count(memory.get("total_kib")) // KIB_PER_MIB,
        "memory_free_mib": reading.count(memory.get("available_kib")) // KIB_PER_MIB,
        "hugepages_free": reading.count(memory.get("hugepages_free")),
        "hostname": reading.word(system.get("hostname")),
        "machine": reading.word(system.get("machine")),
        "kernel": reading.word(system.get("kernel")),
        "glibc": reading.word(system.get("glibc")).removeprefix("glibc "),
        "os_id": reading.word(release.get("ID")),
        "os_name": reading.word(release.get("PRETTY_NAME")),
        "user": reading.word(who.get("user")),
        "uid": reading.whole(who.get("uid")),
        "home": reading.word(who.get("home")),
        "epoch": reading.fraction(reading.section(probe, "clock").get("epoch")),
    }


def read_software(probe: Any) -> dict[str, Any]:
    """Service manager, libraries, tools and the default route."""
    system = reading.section(probe, "system")
    libraries = reading.section(probe, "libraries")
    told = {name: path for name, path in libraries.items() if name.startswith("lib")}
    tools = reading.section(probe, "system", "tools")
    route = reading.section(probe, "network", "default_route")
    booted = system.get("systemd")
    return {
        "systemd": booted if isinstance(booted, bool) else None,
        "pid1": reading.word(system.get("pid1")),
        "libraries": tuple(sorted(name for name, path in told.items() if path)),
        "missing_libraries": tuple(sorted(name for name, path in told.items() if not path)),
        "tools": tuple(sorted(name for name, path in tools.items() if path)),
        "default_interface": reading.word(route.get("interface")),
        "default_address": reading.word(route.get("source")),
    }


def read_pythons(probe: Any) -> tuple[PythonInstall, ...]:
    """Interpreters that answered."""
    return tuple(
        PythonInstall(path, version, row.get("headers") is True, row.get("venv") is True)
        for row in reading.rows(probe, "pythons")
        if (path := reading.word(row.get("path"))) and (version := reading.word(row.get("version")))
    )


def read_interfaces(probe: Any) -> tuple[Interface, ...]:
    """Network interfaces; one without a state counts as up, as the loopback reports `unknown`."""
    return tuple(
        Interface(
            name=name,
            addresses=tuple(
                (address, reading.count(entry.get("prefix")))
                for entry in reading.rows(row, "addresses")
                if (address := reading.word(entry.get("address")))
            ),
            up=reading.word(row.get("state")) != "down",
            mtu=reading.count(row.get("mtu")),
        )
        for row in reading.rows(probe, "network", "interfaces")
        if (name := reading.word(row.get("name")))
    )


def read_limits(probe: Any) -> tuple[Limit, ...]:
    """Resource limits; the probe writes null for unlimited."""
    return tuple(
        Limit(name, reading.whole(pair[0]), reading.whole(pair[1]))
        for name, pair in sorted(reading.section(probe, "limits").items())
        if isinstance(pair, list) and len(pair) == 2
    )


def read_listeners(probe: Any) -> tuple[Listener, ...]:
    """Ports that are taken."""
    return tuple(
        Listener(
            port,
            reading.word(row.get("address")),
            reading.whole(row.get("pid")),
            reading.word(row.get("command")),
        )
        for row in reading.rows(probe, "listeners")
        if (port := reading.whole(row.get("port"))) is not None and 0 < port < 65536
    )
