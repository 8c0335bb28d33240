"""Role checkpoint: the checkpoint's files on the host, sent or fetched there, each one checked."""

from __future__ import annotations

from pyinfra import logger
from pyinfra.api import deploy
from pyinfra.api.host import Host

from roles.artefact import send
from roles.checkpoint.fetch import fetch, take
from roles.checkpoint.share import sharing
from roles.remote import RemoteError
from roles.run import Run, current
from roles.steps import converge
from slipway.converge.change import Change
from slipway.plan.hub import HubFiles
from slipway.plan.model import CheckpointPlan


@deploy("Checkpoint")
def checkpoint(run: Run) -> None:
    """Upload or fetch what is missing or damaged."""
    converge(name="Place the checkpoint", changes=run.here("checkpoint"), make=_place)


def _place(host: Host, change: Change) -> None:
    files, run = change.data.files, current()
    if isinstance(files, HubFiles):
        fetch(host, run, change.data, files)
    elif sharing(run, change.data).worth_it:
        _upload_once(host, run, change.data)
    else:
        _upload(host, run, change.data)


def _upload_once(host: Host, run: Run, checkpoint: CheckpointPlan) -> None:
    """One upload for all hosts: the others wait for it and take it from there, or from who has it already."""
    share = sharing(run, checkpoint)
    if not share.to_upload(host.name):
        share.wait_uploaded()
        _take_or_upload(host, run, checkpoint)
        return
    try:
        share.failed = True
        _upload(host, run, checkpoint)
        share.failed = False
    finally:
        share.uploaded.set()


def _take_or_upload(host: Host, run: Run, checkpoint: CheckpointPlan) -> None:
    """A firewall between the hosts costs time, not the deploy."""
    try:
        take(host, run, checkpoint)
    except RemoteError as error:
        logger.warning(f"{host.print_prefix}{error}; uploading it from here")
        _upload(host, run, checkpoint)


def _upload(host: Host, run: Run, checkpoint: CheckpointPlan) -> None:
    try:
        send(host, run.plan.host(host.name), checkpoint.files, checkpoint.path, "checkpoint")
    except RemoteError as error:
        source = checkpoint.files.source if checkpoint.files else ""
        raise RemoteError(f"{error}; compare {source} with its manifest.json") from None
