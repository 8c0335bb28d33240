"""The samplers of the GPUs: one job on each host whose GPUs the deployment uses, for as long as a sweep runs."""

from __future__ import annotations

from typing import Any

from pyinfra import logger

from roles.bench.place import OnHost
from roles.remote import RemoteError
from roles.run import Run
from slipway.bench.power import Sample, read_samples

FILE = "gpu.csv"


class Samplers:
    """Of one label. The simulator uses no GPU, so there is nothing to sample then."""

    def __init__(self, run: Run, label: str, deadline_s: float) -> None:
        self.gpus = {} if run.plan.simulated else _gpus(run)
        self._label, self._deadline_s = label, deadline_s
        self._places = {name: OnHost(run.hosts[name], run.plan.host(name), run.plan.deployment) for name in self.gpus}

    def start(self) -> None:
        """Begin on every host; one that runs already goes on. A host that cannot is said, and its figures are null."""
        for name, place in self._places.items():
            command = place.command("bench_gpu", self._path(place), str(int(self._deadline_s)))
            try:
                place.ask("job", "start", self._job(place), self._label, *command)
            except RemoteError as error:
                logger.warning(f"    the GPUs of {name} are not sampled: {error}")

    def stop(self) -> None:
        """End them all."""
        for name, place in self._places.items():
            try:
                place.ask("job", "stop", self._job(place))
            except RemoteError as error:
                logger.warning(f"    the sampler on {name} could not be stopped ({error}); it ends at the deadline")

    def samples(self) -> list[Sample]:
        """What all of them took."""
        found: list[Sample] = []
        for name, place in self._places.items():
            try:
                found += read_samples(name, place.read(self._path(place)).decode("ascii", "replace"))
            except (RemoteError, OSError) as error:
                logger.warning(f"    the GPUs of {name} have no figures: {error}")
        return found

    def _path(self, place: OnHost) -> str:
        return f"{place.folder(self._label)}/{FILE}"

    def _job(self, place: OnHost) -> str:
        return f"{place.jobs}-gpu"


def _gpus(run: Run) -> dict[str, list[int]]:
    found: dict[str, set[Any]] = {}
    for instance in run.plan.instances:
        if instance.gpus:
            found.setdefault(instance.host, set()).update(instance.gpus)
    return {host: sorted(indices) for host, indices in found.items()}
