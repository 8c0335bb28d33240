"""Sends a folder of files to a host as one archive in parts, each named by its content; a broken upload goes on."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import logger
from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, execute, upload
from slipway.parts import archive_parts
from slipway.plan.model import Files, HostPlan

SAY_EVERY_BYTES = 256 * 1024 * 1024


def send(host: Host, plan: HostPlan, files: Files, dest: str, name: str) -> None:
    """Have exactly `files` at `dest`, whole or not at all. Raises RemoteError."""
    digest: list[str] = []
    parts = list(_parts(host, plan, files, digest, name))
    entries = {name: list(entry) for name, entry in files.entries.items()}
    request = {"parts": parts, "sha256": digest[0], "dest": dest, "files": entries}
    output = ask_agent(host, plan, "place", request=request)
    if not output.ok:
        raise RemoteError(output.said)


def _parts(host: Host, plan: HostPlan, files: Files, digest: list[str], name: str) -> Iterator[str]:
    """Paths of the parts on the host, those that were not there yet being sent; a part is whole or absent."""
    folder, said, seen = plan.paths["uploads"], 0, 0
    total = sum(size for size, _ in files.entries.values())
    there = set(execute(host, ["ls", folder]).stdout)
    for part in archive_parts(files, digest):
        if part.name not in there:
            upload(host, part.data, f"{folder}/{part.name}")
        seen += len(part.data)
        if seen >= total or seen - said >= SAY_EVERY_BYTES:
            said = seen
            logger.info(f"{host.print_prefix}{name}: {seen / 1e6:.1f} of about {total / 1e6:.1f} MB")
        yield f"{folder}/{part.name}"
