"""Opens an inventory: what `inventory.py`, `deploy.py` and the CLI share before any host is asked.

Reads files only. The configuration and the folders of `model.path` are loaded here; the plan follows from them.
"""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.config.deployment import ROLES, Deployment
from slipway.config.errors import ConfigError, InvalidConfigError
from slipway.config.load import load
from slipway.plan.facts import HostFacts
from slipway.plan.make import make_plan
from slipway.plan.model import Files, Plan
from slipway.plan.wheelhouse import with_wheels

Hosts = Sequence[str | tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Opened:
    """An inventory with its configuration. inventory: the file. connection: per host, what pyinfra needs."""

    inventory: Path
    deployment: Deployment
    files: Mapping[str, Files | str]
    connection: Mapping[str, Mapping[str, Any]]

    def plan(self, facts: Mapping[str, HostFacts]) -> Plan:
        """The plan, given what is known of the hosts."""
        return with_wheels(make_plan(self.deployment, facts, self.files), self.deployment, self.files)


def project_root() -> Path:
    """The checkout: the folder that holds deploy.py, templates/ and roles/."""
    return Path(__file__).resolve().parent.parent


def open_inventory(inventory: Path, overrides: Mapping[str, Any]) -> Opened:
    """Run the inventory file for its groups and load what group_vars/ and host_vars/ say.

    Raises InvalidConfigError with everything that is wrong.
    """
    return open_groups(inventory, _groups_of(inventory), overrides)


def open_groups(inventory: Path, groups: Mapping[str, Hosts], overrides: Mapping[str, Any]) -> Opened:
    """As open_inventory, with the groups given. A host is a name or (name, connection data)."""
    names = {group: [_name(host) for host in hosts] for group, hosts in groups.items()}
    _check_groups(inventory, names)
    deployment = load(inventory.parent, names, overrides, project_root())
    files = _model_files(inventory.parent, deployment) | _wheelhouses(inventory.parent, deployment)
    return Opened(inventory, deployment, files, _connection(groups))


def _name(host: str | tuple[str, Mapping[str, Any]]) -> str:
    return host if isinstance(host, str) else host[0]


def _connection(groups: Mapping[str, Hosts]) -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = {}
    for host in (host for hosts in groups.values() for host in hosts):
        data.setdefault(_name(host), {}).update({} if isinstance(host, str) else host[1])
    return data


def _check_groups(inventory: Path, names: Mapping[str, list[str]]) -> None:
    if not any(names.get(role) for role in ROLES):
        found = f"groups {', '.join(names) or 'none'} without a host in any role"
        allowed = f"at least one host in {', '.join(ROLES)}"
        raise InvalidConfigError([ConfigError(inventory.name, 0, "", found, allowed, "list hosts in inventory.py")])


def _groups_of(inventory: Path) -> dict[str, Hosts]:
    if not inventory.is_file():
        error = ConfigError(str(inventory), 0, "", "no such file", "an inventory such as inventory.py")
        raise InvalidConfigError([error])
    try:
        variables = runpy.run_path(str(inventory))
    except InvalidConfigError:
        raise
    except Exception as error:
        line = _line_in(error, inventory)
        raise InvalidConfigError(
            [ConfigError(inventory.name, line, "", f"{type(error).__name__}: {error}", "Python that runs")]
        ) from error
    return {key: value for key, value in variables.items() if _is_group(key, value)}


def _is_group(key: str, value: Any) -> bool:
    if key.startswith("_") or key == "all" or not isinstance(value, list):
        return False
    return all(isinstance(host, str) or (isinstance(host, tuple) and len(host) == 2) for host in value)


def _line_in(error: BaseException, file: Path) -> int:
    line, frame = getattr(error, "lineno", None) or 0, error.__traceback__
    while frame:
        if frame.tb_frame.f_code.co_filename == str(file):
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def _model_files(folder: Path, deployment: Deployment) -> dict[str, Files | str]:
    paths = {host.model.path for host in deployment.hosts if host.workers and host.model.path}
    return {path: _read_model(folder, path) for path in sorted(paths)}


def _wheelhouses(folder: Path, deployment: Deployment) -> dict[str, Files | str]:
    """The wheelhouses that hosts name, each listed once, beside the inventory or in the checkout."""
    paths = {host.engine.wheelhouse for host in deployment.hosts if host.engine.wheelhouse}
    return {path: _read_wheelhouse(folder, path) for path in sorted(paths)}


def _read_wheelhouse(folder: Path, path: str) -> Files | str:
    place = next((base / path for base in (folder, project_root()) if (base / path).is_dir()), None)
    return Files(str(place), _manifest(place)) if place else f"engine.wheelhouse {path}: no such folder"


def _read_model(folder: Path, path: str) -> Files | str:
    """The file list of a model folder, beside the inventory or in the checkout; what is wrong with it, else."""
    place = next((base / path for base in (folder, project_root()) if (base / path).is_dir()), None)
    if place is None:
        return f"model.path {path}: no such folder"
    if not (place / "config.json").is_file():
        return f"model.path {path}: the folder has no config.json, so it is no checkpoint"
    return Files(str(place), _manifest(place))


def _manifest(place: Path) -> dict[str, tuple[int, str]]:
    """The folder's own manifest, which it carries along; made now when it has none."""
    recorded = place / "manifest.json"
    rows = json.loads(recorded.read_text(encoding="utf-8"))["files"] if recorded.is_file() else _made(place)
    entries = {row["path"]: (row["size"], row["sha256"]) for row in rows}
    if recorded.is_file():
        data = recorded.read_bytes()
        entries[recorded.name] = (len(data), hashlib.sha256(data).hexdigest())
    return entries


def _made(place: Path) -> list[dict[str, Any]]:
    from slipway.agent.manifest import build

    rows: list[dict[str, Any]] = build(str(place))["files"]
    return rows
