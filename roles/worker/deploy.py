"""Role worker: service definitions, environments and start scripts of this host's workers.

Writing them touches nothing that runs; the rollout starts and restarts.
"""

from __future__ import annotations

from pyinfra.api import deploy

from roles.run import Run
from roles.steps import converge
from roles.write import write_file


@deploy("Worker")
def worker(run: Run) -> None:
    """Write what the workers' services are made of."""
    converge(name="Write the workers' service files", changes=run.here("worker"), make=write_file)
