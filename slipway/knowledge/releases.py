"""SGLang releases: what each needs, how it stops, where it listens, what it answers; behaviour by release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from slipway.knowledge import tables
from slipway.knowledge.versions import Span, Version, version

_FILE = "releases.yml"
_Row = TypeVar("_Row")
_RELEASE_KEYS = frozenset(
    {"version", "date", "python_min", "cuda_majors", "pins", "cpu_engine", "confidence", "source"}
)


@dataclass(frozen=True, slots=True)
class Shutdown:
    """How the engine ends after its stop signal; `systemd` is the unit line that a clean stop needs."""

    signal: str
    exit_status: int | None
    exit_signal: int | None
    systemd: str
    says: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An HTTP path that the release answers; `auth` is open, normal (api key) or admin."""

    path: str
    auth: str
    says: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket of an engine process; port None is chosen at run time, `condition` '' means always."""

    name: str
    roles: tuple[str, ...]
    flag: str
    env: str
    port: int | None
    width: int
    condition: str
    says: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Release:
    """One published release; None stands for unknown, never for no."""

    version: Version
    date: str | None
    python_min: str | None
    cuda_majors: tuple[int, ...]
    pins: Mapping[str, str]
    driver_min: str | None
    glibc_min: str | None
    cpu_roles: tuple[str, ...] | None
    shutdown: Shutdown | None
    endpoints: tuple[Endpoint, ...]
    listeners: tuple[Listener, ...]
    source: str
    confidence: str

    def answers(self, path: str) -> bool:
        """Tell whether the release has this HTTP endpoint."""
        return any(endpoint.path == path for endpoint in self.endpoints)

    @property
    def ready_path(self) -> str:
        """Name the cheapest endpoint that says ready: /ready where it exists, else /health."""
        return next((point.path for point in self.endpoints if point.path == "/ready"), "/health")

    def runs_on_cpu(self, role: str) -> bool | None:
        """Tell whether a role was seen to run on the CPU engine; None when nobody tried this release."""
        return None if self.cpu_roles is None else role in self.cpu_roles

    def listeners_of(self, role: str) -> tuple[Listener, ...]:
        """List the sockets that a worker of this role may open."""
        return tuple(listener for listener in self.listeners if role in listener.roles)


@dataclass(frozen=True, slots=True)
class Gate:
    """A behaviour and the releases that have it; a named patch brings it to the others."""

    name: str
    span: Span
    says: str
    source: str
    confidence: str
    patch: str | None = None


def get(release: str) -> Release | None:
    """Return a release of the table, or None when the table does not have it (see nearest)."""
    wanted = Version.parse(release)
    return None if wanted is None else _table().get(wanted)


def known() -> tuple[Release, ...]:
    """List every release of the table, oldest first."""
    return tuple(_table()[key] for key in sorted(_table()))


def nearest(release: str) -> Release:
    """Return the release whose facts stand in for an unknown one: the newest not newer, else the oldest.

    Text that is no release number (a commit, a branch) gets the newest, as commits are usually newer.
    """
    wanted = Version.parse(release)
    older = [item for item in known() if wanted is None or item.version <= wanted]
    return older[-1] if older else known()[0]


def gate(name: str) -> Gate:
    """Return one gate; KeyError for a name that the table lacks, with the names it has."""
    found = _gates().get(name)
    if found is None:
        raise KeyError(f"no gate {name!r} in gates.yml; it has {', '.join(sorted(_gates()))}")
    return found


def gate_names() -> tuple[str, ...]:
    """List every gate of the table."""
    return tuple(_gates())


def patched_gates() -> tuple[Gate, ...]:
    """Gates whose behaviour a patch brings to earlier releases."""
    return tuple(found for found in _gates().values() if found.patch)


def holds(name: str, release: str, patches: frozenset[str] = frozenset()) -> bool | None:
    """Tell whether a behaviour holds in a release; None when the release is no number (a commit)."""
    found = gate(name)
    if found.patch is not None and found.patch in patches:
        return True
    wanted = Version.parse(release)
    return None if wanted is None else found.span.holds(wanted)


@cache
def _table() -> dict[Version, Release]:
    """Read every release."""
    found = [_release(row) for row in tables.rows(_FILE, "releases")]
    return {release.version: release for release in found}


def _release(row: Mapping[str, Any]) -> Release:
    """Join one row with the sections that hold for its release."""
    tables.check_keys(_FILE, str(row.get("version")), row, _RELEASE_KEYS)
    number = version(str(row["version"]))
    hosts = {item["name"]: item["value"] for item in _during("hosts", number)}
    roles = row["cpu_engine"]
    shutdowns = _during("shutdown", number)
    return Release(
        version=number,
        date=row["date"],
        python_min=row["python_min"],
        cuda_majors=tuple(row["cuda_majors"]),
        pins={name: str(value) for name, value in row["pins"].items()},
        driver_min=hosts.get("driver_min"),
        glibc_min=hosts.get("glibc_min"),
        cpu_roles=None if roles is None else tuple(roles),
        shutdown=_read(Shutdown, shutdowns[0]) if shutdowns else None,
        endpoints=tuple(_read(Endpoint, item) for item in _during("endpoints", number)),
        listeners=tuple(_listener(item) for item in _during("listeners", number)),
        source=row["source"],
        confidence=row["confidence"],
    )


def _during(section: str, number: Version) -> list[dict[str, Any]]:
    """Select the rows of a section that hold for a release."""
    return [row for row in tables.rows(_FILE, section) if _span(_FILE, section, row).holds(number)]


def _span(file: str, section: str, row: Mapping[str, Any]) -> Span:
    """Read a row's span; names the row when it is malformed."""
    try:
        return Span.parse(str(row["span"]))
    except (KeyError, ValueError) as err:
        raise tables.TableError(file, f"{section}: {row}", f"span: {err}") from err


def _read(shape: type[_Row], row: Mapping[str, Any]) -> _Row:
    """Build a dataclass from a row, leaving its span out."""
    try:
        return shape(**{key: value for key, value in row.items() if key != "span"})
    except TypeError as err:
        raise tables.TableError(_FILE, dict(row), str(err)) from err


def _listener(row: Mapping[str, Any]) -> Listener:
    """Read a socket; `with` is a keyword in Python, so the field is `condition`."""
    renamed = {"env": "", **row, "roles": tuple(row["roles"]), "condition": row["with"]}
    return _read(Listener, {key: value for key, value in renamed.items() if key != "with"})


@cache
def _gates() -> dict[str, Gate]:
    """Read every gate."""
    return {
        row["name"]: Gate(
            row["name"],
            _span("gates.yml", "gates", row),
            row["says"],
            row["source"],
            row["confidence"],
            row.get("patch"),
        )
        for row in tables.rows("gates.yml", "gates")
    }
