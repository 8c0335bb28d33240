"""Role router: service definition and environment of this host's router; the rollout starts it."""

from __future__ import annotations

from pyinfra.api import deploy

from roles.run import Run
from roles.steps import converge
from roles.write import write_file


@deploy("Router")
def router(run: Run) -> None:
    """Write what the router's service is made of."""
    converge(name="Write the router's service files", changes=run.here("router"), make=write_file)
