"""Network namespaces: one for the switch and the controller, one per host."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

from tests.staging.lab.commands import run

CLONE_NEWNET = 0x40000000


class Network:
    """A network namespace, pinned by a file of ours (`ip netns` would leave /run/netns mounted)."""

    def __init__(self, pin: Path) -> None:
        self.pin = pin

    def make(self) -> None:
        self.pin.touch()
        run("unshare", f"--net={self.pin}", "ip", "link", "set", "lo", "up")

    def remove(self) -> None:
        """Let go of it: it ends with its last process."""
        run("umount", "--lazy", self.pin, check=False)
        self.pin.unlink(missing_ok=True)

    def command(self, *words: object) -> list[str]:
        """The command line that runs a command in here; the process is the command itself."""
        return ["nsenter", f"--net={self.pin}", *map(str, words)]

    def ip(self, *words: object) -> None:
        run(*self.command("ip", *words))

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is in here: sockets that it makes reach the hosts."""
        with Path("/proc/thread-self/ns/net").open() as here, self.pin.open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(here.fileno())


class Switch(Network):
    """A bridge, with the controller's address on it."""

    def make(self, address: str = "10.77.0.1") -> None:
        super().make()
        self.ip("link", "add", "br0", "type", "bridge")
        self.ip("addr", "add", f"{address}/24", "dev", "br0")
        self.ip("link", "set", "br0", "up")

    def plug(self, host: Network, name: str, address: str) -> None:
        """Connect a host: eth0 there, a port here. No default route, so no way out."""
        self.ip("link", "add", _port(name), "type", "veth", "peer", "name", "eth0", "netns", host.pin)
        self.ip("link", "set", _port(name), "master", "br0", "up")
        host.ip("addr", "add", f"{address}/24", "dev", "eth0")
        host.ip("link", "set", "eth0", "up")

    def cable(self, name: str, *, plugged: bool) -> None:
        self.ip("link", "set", _port(name), "up" if plugged else "down")


def _port(host: str) -> str:
    return f"p-{host}"[:15]  # the kernel's limit for a name


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
