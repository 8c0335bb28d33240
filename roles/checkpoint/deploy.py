"""Role checkpoint: puts the checkpoint's files on the host and checks every one against the manifest."""

from __future__ import annotations

from pyinfra import logger
from pyinfra.api import deploy
from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, execute, upload
from roles.run import Run, current
from roles.steps import converge
from slipway.converge.change import Change
from slipway.parts import archive_parts
from slipway.plan.model import Files, HostPlan


@deploy("Checkpoint")
def checkpoint(run: Run) -> None:
    """Upload what is missing or damaged."""
    converge(name="Place the checkpoint", changes=run.here("checkpoint"), make=_place)


def _place(host: Host, change: Change) -> None:
    plan = current().plan.host(host.name)
    files = change.data.files
    digest: list[str] = []
    parts = _upload(host, plan, files, digest)
    entries = {name: list(entry) for name, entry in files.entries.items()}
    request = {"parts": parts, "sha256": digest[0], "dest": change.data.path, "files": entries}
    output = ask_agent(host, plan, "place", request=request)
    if not output.ok:
        raise RemoteError(f"{output.said}; compare {files.source} with its manifest.json")


def _upload(host: Host, plan: HostPlan, files: Files, digest: list[str]) -> list[str]:
    """Send the parts that are not there yet; a part is whole or absent, so a broken upload goes on."""
    total, sent, paths = sum(size for size, _ in files.entries.values()), 0, []
    for part in archive_parts(files, digest):
        path = f"{plan.paths['uploads']}/{part.name}"
        if not execute(host, ["test", "-f", path]).ok:
            upload(host, part.data, path)
        sent += len(part.data)
        logger.info(f"{host.print_prefix}checkpoint: {sent / 1e6:.1f} of about {total / 1e6:.1f} MB")
        paths.append(path)
    return paths
