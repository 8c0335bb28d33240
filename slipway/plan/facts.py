"""What the plan must know of a host, taken from the hardware probe's JSON, or assumed and said to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Interpreter:
    """A Python on the host. version: X.Y."""

    path: str
    version: str
    headers: bool
    venv: bool


@dataclass(frozen=True)
class HostFacts:
    """Facts of one host. known: whether they were read there rather than assumed."""

    known: bool
    superuser: bool
    login: str
    home: str
    systemd: bool
    addresses: tuple[str, ...]
    default_python: str
    pythons: tuple[Interpreter, ...]
    libraries: Mapping[str, str | None]
    probe: Mapping[str, Any]

    @property
    def machine(self) -> str:
        """Architecture as the kernel names it: x86_64, aarch64; the former where nobody asked."""
        return str(_part(self.probe, "system").get("machine") or "x86_64")

    @property
    def glibc(self) -> str:
        """Version of the C library, '' when unknown."""
        return str(_part(self.probe, "system").get("glibc") or "").rpartition(" ")[2]

    def interpreter(self, version: str | None) -> Interpreter | None:
        """The host's Python X.Y; its own default for None; None when it has no such Python."""
        wanted = version or self.default_python
        fitting = [python for python in self.pythons if python.version == wanted]
        return max(fitting, key=lambda python: (python.headers, python.venv), default=None)


def oldest_glibc(facts: Iterable[HostFacts]) -> str:
    """The oldest C library of some hosts, such as 2.36; '' where none is known."""
    known = {one.glibc for one in facts} - {""}
    return min(known, key=lambda text: [int(part) for part in text.split(".")], default="")


ASSUMED = HostFacts(
    known=False,
    superuser=True,
    login="root",
    home="/root",
    systemd=True,
    addresses=(),
    default_python="3.11",
    pythons=(Interpreter("/usr/bin/python3", "3.11", True, True),),
    libraries={},
    probe={},
)


def read_facts(probe: Mapping[str, Any]) -> HostFacts:
    """Facts from one run of the hardware probe; a reading that failed there counts as not known."""
    identity, system = _part(probe, "identity"), _part(probe, "system")
    return HostFacts(
        known=True,
        superuser=identity.get("uid") == 0,
        login=str(identity.get("user", "")),
        home=str(identity.get("home", "/")),
        systemd=system.get("systemd") is True,
        addresses=_addresses(_part(probe, "network")),
        default_python=_minor(str(system.get("probe_python", ""))),
        pythons=_pythons(probe.get("pythons")),
        libraries=_part(probe, "libraries"),
        probe=probe,
    )


def _part(probe: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = probe.get(key)
    return value if isinstance(value, Mapping) and "error" not in value else {}


def _addresses(network: Mapping[str, Any]) -> tuple[str, ...]:
    """IPv4 addresses that other hosts may reach, the default route's first."""
    route = _part(network, "default_route").get("source")
    found = [
        entry["address"]
        for interface in network.get("interfaces", [])
        for entry in interface.get("addresses", [])
        if ":" not in entry["address"] and not entry["address"].startswith("127.")
    ]
    return tuple(sorted(found, key=lambda address: address != route))


def _pythons(rows: Any) -> tuple[Interpreter, ...]:
    if not isinstance(rows, list):
        return ()
    return tuple(
        Interpreter(row["path"], _minor(row["version"]), bool(row.get("headers")), bool(row.get("venv")))
        for row in rows
        if isinstance(row, Mapping) and row.get("path") and row.get("version")
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
