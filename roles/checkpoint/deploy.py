"""Role checkpoint: puts the checkpoint's files on the host and checks every one against the manifest."""

from __future__ import annotations

from pyinfra.api import deploy
from pyinfra.api.host import Host

from roles.artefact import send
from roles.remote import RemoteError
from roles.run import Run, current
from roles.steps import converge
from slipway.converge.change import Change


@deploy("Checkpoint")
def checkpoint(run: Run) -> None:
    """Upload what is missing or damaged."""
    converge(name="Place the checkpoint", changes=run.here("checkpoint"), make=_place)


def _place(host: Host, change: Change) -> None:
    files = change.data.files
    try:
        send(host, current().plan.host(host.name), files, change.data.path, "checkpoint")
    except RemoteError as error:
        raise RemoteError(f"{error}; compare {files.source} with its manifest.json") from None
