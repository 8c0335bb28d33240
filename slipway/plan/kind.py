"""Workers that are alike: what everything but names, addresses and ports is decided by, once for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from slipway.builds.recipe import Recipe
from slipway.checkpoint import Checkpoint
from slipway.config.deployment import EngineSettings, HostSettings, WorkerSettings
from slipway.hardware import Gpu
from slipway.placement import Instance as Placed

from .hub import facts_folder
from .machines import Machine, wants_gpus


@dataclass(frozen=True)
class Kind:
    """One kind of worker. key: equal for workers that are alike.

    arch: 'sm_120', 'cpu' or '' for unknown. gpu: as nvidia-smi prints it, '' for none. memory: MiB of its smallest
    GPU, 0 for unknown. source: what its checkpoint goes by in the configuration.
    """

    key: Hashable
    role: str
    settings: WorkerSettings
    engine: EngineSettings
    recipe: Recipe | None
    source: str
    checkpoint: Checkpoint | None
    arch: str
    gpu: str
    capability: str
    memory: int
    driver: str

    @property
    def attention_groups(self) -> int:
        """Groups of GPUs that each keep a KV pool of their own."""
        return self.settings.dp if self.settings.dp_attention else 1


def source_of(host: HostSettings) -> str:
    """By which path the checkpoint is known: the folder of its small files, else the checkpoint itself."""
    model = host.model
    return model.facts or model.path or model.host_path or (facts_folder(model) if model.repo else "")


def kind_of(
    placed: Placed,
    host: HostSettings,
    machines: Mapping[str, Machine],
    recipe: Recipe | None,
    checkpoint: Checkpoint | None,
) -> Kind:
    """The kind of a placed instance, by what its rank 0 is configured as, and the weakest GPU of all its ranks."""
    settings, source = host.workers[placed.role], source_of(host)
    gpus = _gpus(placed, machines)
    arch = _arch(host, gpus)
    first = min(gpus, key=lambda gpu: gpu.sm) if gpus else None
    memory = min((gpu.memory_mib for gpu in gpus), default=0)
    hardware = machines[placed.host].hardware
    driver = hardware.driver if hardware else ""
    what = (arch, first.name if first else "", first.compute_capability if first else "", memory, driver)
    key = (placed.role, repr(settings), repr(host.engine), source, *what)
    return Kind(key, placed.role, settings, host.engine, recipe, source, checkpoint, *what)


def _gpus(placed: Placed, machines: Mapping[str, Machine]) -> tuple[Gpu, ...]:
    """Its GPUs on all its hosts, in rank order."""
    found = ((machines[node.host].hardware, node.gpus) for node in placed.nodes)
    return tuple(gpu for hardware, gpus in found if hardware for gpu in hardware.gpus if gpu.index in gpus)


def _arch(host: HostSettings, gpus: tuple[Gpu, ...]) -> str:
    """The oldest architecture among its GPUs."""
    if not wants_gpus(host):
        return "cpu"
    known = [gpu for gpu in gpus if gpu.sm]
    return min(known, key=lambda gpu: gpu.sm).architecture if known else ""
