"""How pyinfra reaches hosts over SSH: quick, alive or known to be dead, and to the right host only.

pyinfra 3.10 leaves five things to be put right, all through host data (read in its connectors/ssh.py and
connectors/sshuserclient/client.py):

- paramiko never sets TCP_NODELAY, so each command waits for the peer's delayed ACK: 46 instead of 3.4 ms.
- nothing notices a dead connection: without a keepalive a run hangs until the kernel gives up, 15 minutes.
- host keys default to accept-new, which also makes it ignore StrictHostKeyChecking of the user's ssh_config
  (ssh.py:83, client.py:308); it cannot be unset, as None is refused as a bad type.
- its CONNECT_TIMEOUT wins over ConnectTimeout of ssh_config (ssh.py:190, client.py:339).
- an ssh_config_file that is not there, or begins with ~, is ignored without a word (client.py:157).

What cannot be put right from here: a jump host gets none of a host's data, only ssh_config (client.py:371).
So its host key is looked up in UserKnownHostsFile, and an unknown one is asked about on the terminal unless
ssh_config says `StrictHostKeyChecking yes` for it. /etc/ssh/ssh_config and GlobalKnownHostsFile are not read.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paramiko
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.sshuserclient.client import get_ssh_config

KEEPALIVE_S = 30
DEAD_AFTER_S = 90  # three keepalives that nobody acknowledged
SSH = "@ssh/"
# What pyinfra takes, by what people write; YAML turns an unquoted yes or no into a boolean. `ask` is strict
# here: a run over many hosts has nobody to answer.
STRICTNESS = {
    "yes": "yes", "true": "yes", "ask": "yes", "accept-new": "accept-new",
    "no": "no", "false": "no", "off": "no",
}  # fmt: skip


def connect_kwargs(keepalive: int = KEEPALIVE_S, dead_after: int = DEAD_AFTER_S) -> dict[str, Any]:
    """For `ssh_paramiko_connect_kwargs`: what paramiko's connect() gets besides pyinfra's own arguments."""

    # A plain function, as `pyinfra INVENTORY debug-inventory` can print those and no other callable.
    def transport_factory(sock: Any, **options: Any) -> paramiko.Transport:
        _tune(sock, keepalive, dead_after)
        transport = paramiko.Transport(sock, **options)
        transport.set_keepalive(keepalive)
        return transport

    return {"transport_factory": transport_factory}


def _tune(sock: Any, keepalive: int, dead_after: int) -> None:
    """Set up the TCP connection under the socket: through a jump host, that is the jump host's."""
    while isinstance(sock, paramiko.Channel):
        jump = sock.get_transport()
        jump.set_keepalive(keepalive)
        sock = jump.sock
    with contextlib.suppress(AttributeError, OSError):  # a ProxyCommand is a pair of pipes
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_after * 1000)  # Linux only


def ssh_data(host_data: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """A host's data with the SSH settings filled in; what the user set stays.

    `name` is the host's name in the inventory: ssh_config is looked up by it unless `ssh_hostname` is set.
    """
    data = dict(host_data)
    if name.startswith("@") and not name.startswith(SSH):
        return data  # @local and the like
    config = _ssh_config(data, name.removeprefix(SSH))
    data["ssh_strict_host_key_checking"] = _strictness(name, data, config)
    if data["ssh_strict_host_key_checking"] == "accept-new":
        _known_hosts(data, config).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = data.get("ssh_paramiko_connect_kwargs") or {}
    data["ssh_paramiko_connect_kwargs"] = connect_kwargs() | _timeout(config) | own
    return data


def _timeout(config: Mapping[str, Any]) -> dict[str, int]:
    """ConnectTimeout of ssh_config, past pyinfra's own."""
    seconds = str(config.get("connecttimeout", ""))
    return {"timeout": int(seconds)} if seconds.isdigit() else {}


def _ssh_config(data: dict[str, Any], name: str) -> Mapping[str, Any]:
    """What the user's ssh_config says of this host; pyinfra would ignore a file that is not there."""
    if file := data.get("ssh_config_file"):
        path = Path(file).expanduser()
        if not path.exists():
            raise PyinfraError(f"{name}: ssh_config_file: {file} does not exist; name one that does")
        data["ssh_config_file"] = str(path)
    config = get_ssh_config(data.get("ssh_config_file"))
    found: Mapping[str, Any] = config.lookup(data.get("ssh_hostname") or name) if config else {}
    return found


def _strictness(name: str, data: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The user's word in host data, else in ssh_config, else strict."""
    default = config.get("stricthostkeychecking", "yes")
    said = str(data.get("ssh_strict_host_key_checking", default))
    if said.lower() not in STRICTNESS:
        allowed = ", ".join(STRICTNESS)
        raise PyinfraError(f"{name}: ssh_strict_host_key_checking: got {said!r}; must be one of {allowed}")
    return STRICTNESS[said.lower()]


def _known_hosts(data: Mapping[str, Any], config: Mapping[str, Any]) -> Path:
    """The file that pyinfra adds an accepted key to; it does not make the folder, and then cannot connect."""
    configured = config.get("userknownhostsfile", "~/.ssh/known_hosts").split()[0]
    return Path(data.get("ssh_known_hosts_file") or configured).expanduser()
