"""Runs commands and agent programs on hosts from coordinated steps, outside pyinfra's own operations."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paramiko import SSHException
from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.host import Host

from slipway.bundle import agent_bundle
from slipway.converge.request import agent_path
from slipway.plan.model import HostPlan

DYING_S = 2.0  # how long a transport may take to notice what its channel has noticed
# What paramiko raises when the other end is gone.
BROKEN = (OSError, EOFError, SSHException)


class RemoteError(Exception):
    """A command on a host failed: what it said."""


@dataclass(frozen=True)
class Output:
    """What a command printed, line by line."""

    ok: bool
    stdout: list[str]
    stderr: list[str]

    @property
    def said(self) -> str:
        """Its last words, for an error message."""
        lines = [line for line in [*self.stdout, *self.stderr] if line.strip()]
        return lines[-1].strip() if lines else "nothing"


def privileges(host: Host) -> dict[str, Any]:
    """The sudo arguments of a host, which pyinfra applies to operations and facts but not to plain commands."""
    config = host.state.config
    return {
        "_sudo": host.data.get("_sudo", config.SUDO),
        "_sudo_user": host.data.get("_sudo_user", config.SUDO_USER),
        "_use_sudo_login": host.data.get("_use_sudo_login", config.USE_SUDO_LOGIN),
    }


def execute(host: Host, words: Sequence[str], stdin: str | None = None) -> Output:
    """Run a command; never raises: a command that fails and a connection that breaks both show in the output."""
    command = StringCommand(*(QuoteString(word) for word in words))
    arguments = privileges(host) | ({"_stdin": stdin} if stdin is not None else {})
    try:
        ok, output = host.run_shell_command(command, **arguments)
    except BROKEN as error:
        return Output(False, [], [broken(host, error)])
    silent = not ok and not list(output.stdout_lines) and not list(output.stderr_lines)
    if not ok and is_dead(host, DYING_S if silent else 0.0):
        return Output(False, [], [broken(host, "no sign of life")])  # pyinfra takes a closed channel for a failure
    return Output(bool(ok), list(output.stdout_lines), list(output.stderr_lines))


def broken(host: Host, error: BaseException | str) -> str:
    """What to say of a connection that broke."""
    reason = str(error) or type(error).__name__
    return f"the connection to {host.name} broke ({reason}); the next run goes on from here"


def is_dead(host: Host, patience_s: float = 0.0) -> bool:
    """Whether the connection is gone; a channel may be seen closed a moment before its transport."""
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    end = time.monotonic() + patience_s
    while transport is not None and transport.is_active() and time.monotonic() < end:
        time.sleep(0.1)
    return transport is not None and not transport.is_active()


def check(host: Host, words: Sequence[str], stdin: str | None = None) -> Output:
    """Run a command that must succeed. Raises RemoteError."""
    output = execute(host, words, stdin)
    if not output.ok:
        raise RemoteError(f"{' '.join(words)[:160]} failed: {output.said}")
    return output


def agent_command(plan: HostPlan, program: str, *arguments: str) -> list[str]:
    """The command line of an agent program that is installed on the host."""
    return [plan.python, agent_path(plan), program, *arguments]


def ask_agent(host: Host, plan: HostPlan, program: str, *arguments: str, request: Any = None) -> Output:
    """Run an agent program; `request` goes to it as JSON on standard input."""
    stdin = json.dumps(request) if request is not None else None
    return execute(host, agent_command(plan, program, *arguments), stdin)


def ensure_agent(host: Host, plan: HostPlan) -> None:
    """The agent lies on the host, for playbooks that run without a deploy before them. Raises RemoteError."""
    path = agent_path(plan)
    if not execute(host, ["test", "-f", path]).ok:
        check(host, ["mkdir", "-p", path.rpartition("/")[0]])
        upload(host, agent_bundle(), path)


def upload(host: Host, data: bytes, path: str) -> None:
    """Put bytes at `path`, whole or not at all. Raises RemoteError."""
    try:
        done = host.put_file(io.BytesIO(data), f"{path}.part", **privileges(host))
    except BROKEN as error:
        raise RemoteError(broken(host, error)) from None
    if not done:
        raise RemoteError(f"{path} could not be uploaded")
    check(host, ["mv", "-f", f"{path}.part", path])
