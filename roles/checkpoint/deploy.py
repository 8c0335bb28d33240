"""Role checkpoint: the checkpoint's files on the host, sent or fetched there, each one checked."""

from __future__ import annotations

from pyinfra.api import deploy
from pyinfra.api.host import Host

from roles.artefact import send
from roles.checkpoint.fetch import fetch
from roles.remote import RemoteError
from roles.run import Run, current
from roles.steps import converge
from slipway.converge.change import Change
from slipway.plan.hub import HubFiles


@deploy("Checkpoint")
def checkpoint(run: Run) -> None:
    """Upload or fetch what is missing or damaged."""
    converge(name="Place the checkpoint", changes=run.here("checkpoint"), make=_place)


def _place(host: Host, change: Change) -> None:
    files = change.data.files
    if isinstance(files, HubFiles):
        fetch(host, current(), change.data, files)
        return
    try:
        send(host, current().plan.host(host.name), files, change.data.path, "checkpoint")
    except RemoteError as error:
        raise RemoteError(f"{error}; compare {files.source} with its manifest.json") from None
