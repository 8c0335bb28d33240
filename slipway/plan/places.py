"""Gives each worker its name, address and ports; no two listeners of a plan collide on a host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slipway.config.deployment import WORKER_ROLES, Deployment, HostSettings, RouterSettings, WorkerSettings
from slipway.finding import Finding

from .facts import HostFacts

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Place:
    """Where one worker goes: `prefill-0` on host h1, its ports by use."""

    name: str
    role: str
    host: str
    settings: WorkerSettings
    ports: dict[str, int]


class PortBook:
    """Hands out ports of one host; remembers who has which."""

    def __init__(self) -> None:
        self.taken: dict[int, str] = {}
        self.clashes: list[tuple[int, str, str]] = []

    def claim(self, port: int, owner: str) -> int:
        """Take exactly `port`; a clash is remembered with both owners."""
        if port in self.taken:
            self.clashes.append((port, self.taken[port], owner))
        self.taken.setdefault(port, owner)
        return port

    def next_free(self, first: int, owner: str) -> int:
        """Take the first free port from `first` on."""
        port = next(port for port in range(first, 65536) if port not in self.taken)
        return self.claim(port, owner)


def place_workers(deployment: Deployment, books: dict[str, PortBook]) -> list[Place]:
    """All workers in start order: prefill before the decodes that will talk to it."""
    places: list[Place] = []
    for role in WORKER_ROLES:
        hosts = [host for host in deployment.hosts if role in host.workers]
        names = (f"{role}-{index}" for index in range(10**6))
        places += [place for host in hosts for place in _on_host(host, role, names, books[host.name])]
    return places


def _on_host(host: HostSettings, role: str, names: Iterator[str], book: PortBook) -> Iterator[Place]:
    settings = host.workers[role]
    for _ in range(settings.instances):
        name = next(names)
        ports = {"http": book.next_free(settings.port, f"{name} http")}
        if role == "prefill":
            ports["bootstrap"] = book.next_free(settings.bootstrap_port, f"{name} bootstrap")
        yield Place(name, role, host.name, settings, ports)


def claim_router(router: RouterSettings, book: PortBook) -> dict[str, int]:
    """The router's ports are exact: clients know them."""
    return {
        "http": book.claim(router.port, "router http"),
        "metrics": book.claim(router.metrics_port, "router metrics"),
    }


def port_findings(books: dict[str, PortBook]) -> list[Finding]:
    """One finding a clash, naming both that want the port."""
    return [
        Finding(
            "port-clash", "error", host,
            f"port {port} is wanted by {first} and by {second}",
            f"give one of them another port in group_vars or host_vars of {host}",
        )
        for host, book in books.items()
        for port, first, second in book.clashes
    ]  # fmt: skip


def host_address(host: HostSettings, facts: HostFacts, alone: bool) -> str:
    """Address under which other hosts reach this one; '' when nothing says it."""
    if host.address:
        return host.address
    if alone:
        return LOOPBACK
    if facts.addresses:
        return facts.addresses[0]
    return "" if host.name.startswith("@") else host.name
