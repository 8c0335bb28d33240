"""Writes rendered files on hosts, for every role that has some."""

from __future__ import annotations

from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, check
from roles.run import current
from slipway.converge.change import Change


def write_file(host: Host, change: Change) -> None:
    """Put the rendered file of `change` in its place, or remove one that is not wanted. Raises RemoteError."""
    if change.action == "remove":
        check(host, ["rm", "-f", change.subject])
        return
    file = change.data
    row = {"path": file.path, "text": file.text, "mode": file.mode, "user": file.user}
    write_rows(host, {"files": [row]})


def write_rows(host: Host, request: object) -> None:
    """Hand a request to the agent that writes files. Raises RemoteError."""
    output = ask_agent(host, current().plan.host(host.name), "files", request=request)
    if not output.ok:
        raise RemoteError(output.said)
