"""What a host is made of, as frozen values; they come from a probe, from the catalogue or from config."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from slipway.finding import Finding
from slipway.hardware import topology

Origin = Literal["probe", "catalogue", "declared"]


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a GPU. deployment: of Slipway's whose worker it is; empty for others."""

    pid: int
    name: str
    memory_mib: int = 0
    deployment: str = ""


@dataclass(frozen=True)
class Gpu:
    """One GPU. `memory_mib` is what an engine can use: on unified-memory parts, the system's memory."""

    index: int
    name: str
    memory_mib: int
    compute_capability: str = ""
    uuid: str = ""
    unified_memory: bool = False
    mig: bool = False
    ecc: bool | None = None
    pci_bus_id: str = ""
    power_limit_w: float | None = None
    numa_node: int | None = None
    processes: tuple[GpuProcess, ...] = ()

    @property
    def sm(self) -> int:
        """The architecture as rules name it: 12.0 is 120; 0 where unknown."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major) * 10 + int(minor) if major.isdecimal() and minor.isdecimal() else 0

    @property
    def architecture(self) -> str:
        """The architecture as the knowledge tables name it: `sm_120`; empty where unknown."""
        return f"sm_{self.sm}" if self.sm else ""

    @property
    def usable(self) -> bool:
        """Whether an engine can take the whole GPU: under MIG it is cut into slices."""
        return not self.mig


@dataclass(frozen=True)
class NumaNode:
    """CPUs and memory that are near each other."""

    node: int
    cpus: str = ""
    memory_mib: int = 0


@dataclass(frozen=True)
class RdmaDevice:
    """One port of an RDMA device; `routable` when it is up and has an address beyond its own link."""

    name: str
    port: int = 1
    active: bool = True
    state: str = ""
    link_layer: str = ""
    rate: str = ""
    netdevs: tuple[str, ...] = ()
    gids: tuple[str, ...] = ()
    numa_node: int | None = None

    @property
    def routable(self) -> bool:
        """InfiniBand routes by itself; Ethernet needs a GID that is not link-local (fe80)."""
        if self.link_layer != "Ethernet" or not self.gids:
            return self.active
        return self.active and any(not gid.lower().startswith("fe80") for gid in self.gids)


@dataclass(frozen=True)
class Disk:
    """Space at a path."""

    path: str
    total_bytes: int
    free_bytes: int
    writable: bool = True


@dataclass(frozen=True)
class PythonInstall:
    """A Python of the host; `headers` to compile extensions, `venv` to make environments."""

    path: str
    version: str
    headers: bool = False
    venv: bool = False

    @property
    def minor(self) -> tuple[int, int]:
        """(3, 12), to compare."""
        parts = [int(part) for part in self.version.split(".") if part.isdecimal()]
        return (parts[0], parts[1]) if len(parts) >= 2 else (0, 0)


@dataclass(frozen=True)
class Interface:
    """A network interface and its addresses, as (address, prefix length)."""

    name: str
    addresses: tuple[tuple[str, int], ...] = ()
    up: bool = True
    mtu: int = 0


@dataclass(frozen=True)
class Listener:
    """A TCP port that something listens on."""

    port: int
    address: str = ""
    pid: int | None = None
    command: str = ""


@dataclass(frozen=True)
class Limit:
    """A resource limit of the session that probed; None is unlimited."""

    name: str
    soft: int | None
    hard: int | None


@dataclass(frozen=True)
class HostHardware:
    """One host. Every field has a value that means 'unknown', so that a declared host needs only its GPUs."""

    gpus: tuple[Gpu, ...] = ()
    origin: Origin = "declared"
    model: str = ""  # the catalogue's name, where there is one
    links: tuple[tuple[str, ...], ...] = ()  # links[i][j]: X, NV#, PIX, PXB, PHB, NODE, SYS or ""
    driver: str = ""
    cuda: str = ""  # the newest CUDA that the driver serves
    nvcc: str = ""  # the version of the toolkit found
    nvcc_path: str = ""
    numa: tuple[NumaNode, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    cpus: int = 0
    cpu_model: str = ""
    cpu_flags: tuple[str, ...] = ()
    memory_mib: int = 0
    memory_free_mib: int = 0
    hugepages_free: int = 0
    disks: tuple[Disk, ...] = ()
    pythons: tuple[PythonInstall, ...] = ()
    hostname: str = ""
    machine: str = ""  # x86_64, aarch64
    kernel: str = ""
    glibc: str = ""
    os_id: str = ""
    os_name: str = ""
    user: str = ""
    uid: int | None = None
    home: str = ""
    systemd: bool | None = None
    pid1: str = ""
    interfaces: tuple[Interface, ...] = ()
    default_interface: str = ""
    default_address: str = ""
    libraries: tuple[str, ...] = ()
    missing_libraries: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    listeners: tuple[Listener, ...] = ()
    epoch: float | None = None
    findings: tuple[Finding, ...] = field(default=(), compare=False)

    @cached_property
    def nvlink_islands(self) -> tuple[tuple[int, ...], ...]:
        """GPU indices joined by NVLink, each island in order; a GPU without NVLink is its own island."""
        return topology.islands(self.indices, self.links, topology.is_nvlink)

    @cached_property
    def numa_islands(self) -> tuple[tuple[int, ...], ...]:
        """GPU indices by NUMA node; GPUs whose node is unknown are one island."""
        return topology.by_node(tuple((gpu.index, gpu.numa_node) for gpu in self.gpus))

    @property
    def indices(self) -> tuple[int, ...]:
        """GPU indices, as the driver counts them."""
        return tuple(gpu.index for gpu in self.gpus)

    @property
    def sm(self) -> int:
        """The architecture of the GPUs (the lowest, should they differ); 0 without a GPU."""
        return min((gpu.sm for gpu in self.gpus), default=0)

    @property
    def gpu_name(self) -> str:
        """What the GPUs are called; empty without a GPU."""
        return self.gpus[0].name if self.gpus else ""

    @property
    def active_rdma(self) -> tuple[RdmaDevice, ...]:
        """RDMA ports that can carry traffic."""
        return tuple(device for device in self.rdma if device.active)

    def gpu(self, index: int) -> Gpu | None:
        """The GPU of that index."""
        return next((gpu for gpu in self.gpus if gpu.index == index), None)

    def relation(self, one: int, other: int) -> str:
        """How two GPUs reach each other: NV18, PIX, PXB, PHB, NODE, SYS; empty where unknown."""
        try:
            return self.links[self.indices.index(one)][self.indices.index(other)]
        except (ValueError, IndexError):
            return ""

    def describe(self) -> str:
        """The host in a few words: `8 x NVIDIA H200 (139.8 GiB, sm_90)`."""
        if not self.gpus:
            return f"no GPU, {self.cpus or '?'} CPUs, {self.memory_mib / 1024:.0f} GiB"
        first = self.gpus[0]
        size = f"{first.memory_mib / 1024:.1f} GiB"
        return f"{len(self.gpus)} x {first.name} ({size}, {first.architecture or '?'})"
