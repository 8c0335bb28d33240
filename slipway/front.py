"""Opens an inventory: what `inventory.py`, `deploy.py` and the CLI share before any host is asked.

Reads files only. The configuration and the folders of `model.path` are loaded here; the plan follows from them.
"""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway.builds.locks import KEPT, Locks
from slipway.checkpoint import Inspection, inspect, read_checkpoint, read_folder, small_files
from slipway.config.deployment import ROLES, Deployment, HostSettings, ModelSettings
from slipway.config.errors import ConfigError, InvalidConfigError
from slipway.config.load import load
from slipway.knowledge.flags import FlagList
from slipway.patching.series import Series, load_series
from slipway.patching.trying import Tried, find_wheel, tree_of, try_series
from slipway.plan.facts import HostFacts
from slipway.plan.hub import RECORD, HubFiles, facts_folder, hub_key, read_record
from slipway.plan.make import Known, Made, make
from slipway.plan.model import Files, Plan
from slipway.plan.secrets import with_secrets
from slipway.plan.wheelhouse import with_wheels

Hosts = Sequence[str | tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Opened:
    """An inventory with its configuration.

    inventory: the file. files: the folders that are copied to hosts, by `model.path` or `engine.wheelhouse`.
    checkpoints: what was read of each checkpoint, by `model.facts` or `model.path`. connection: per host, what
    pyinfra needs. learnt: flag lists of engines that were built, by release. series: of patches. locks: of packages.
    tried: how patches stand to the wheel in the wheelhouse, by host.
    """

    inventory: Path
    deployment: Deployment
    files: Mapping[str, Files | str]
    checkpoints: Mapping[str, Inspection | str]
    connection: Mapping[str, Mapping[str, Any]]
    learnt: Mapping[str, FlagList]
    series: Series
    locks: Locks
    tried: Mapping[str, Sequence[Tried]]

    def plan(self, facts: Mapping[str, HostFacts]) -> Plan:
        """The plan, given what is known of the hosts."""
        return self.make(facts).plan

    def make(self, facts: Mapping[str, HostFacts]) -> Made:
        """The plan with all that led to it."""
        made = make(
            self.deployment,
            Known(facts, self.files, self.checkpoints, self.learnt, self.series, self.locks, self.tried),
        )
        plan = with_secrets(with_wheels(made.plan, self.deployment, self.files), self.deployment)
        return replace(made, plan=plan)


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
    folder = inventory.parent
    deployment = load(folder, names, overrides, project_root())
    files = _model_files(folder, deployment) | _wheelhouses(folder, deployment) | _hub_files(folder, deployment)
    checkpoints = _checkpoints(folder, deployment) | _hub_checkpoints(folder, deployment)
    series = load_series(series_folder(folder))
    locks = Locks(_named_locks(folder, deployment), kept_locks(folder))
    tried = {host.name: found for host in deployment.hosts if (found := _tried(host, files, series))}
    learnt = _learnt(folder)
    return Opened(inventory, deployment, files, checkpoints, _connection(groups), learnt, series, locks, tried)


def series_folder(folder: Path) -> Path:
    """patches/ beside the inventory, else that of the checkout."""
    beside = folder / "patches"
    return beside if (beside / "series.yml").is_file() else project_root() / "patches"


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


def _hub_files(folder: Path, deployment: Deployment) -> dict[str, Files | str]:
    """What `slipway checkpoint facts` recorded of each repository that workers serve."""
    models = [host.model for host in deployment.hosts if host.workers and host.model.repo]
    return {hub_key(model): _read_hub(folder, model) for model in models}


def _read_hub(folder: Path, model: ModelSettings) -> HubFiles | str:
    """The record of a repository, unless a small file beside it is not the recorded one; what is wrong, else."""
    from slipway.agent.state import listed_as

    facts = facts_folder(model)
    place = _model_folder(folder, facts)
    if isinstance(place, str) or not (place / RECORD).is_file():
        return f"model.repo {model.repo}: {facts} has no record of it"
    found = read_record((place / RECORD).read_text(encoding="utf-8"), model)
    if isinstance(found, str):
        return f"model.repo {model.repo}: {facts}: {found}"
    for name in small_files({name: size for name, (size, _) in found.entries.items()}):
        if not (place / name).is_file() or not listed_as((place / name).read_bytes(), found.entries[name][1]):
            return f"model.repo {model.repo}: {facts}/{name} is not the file of the recorded commit"
    return found


def _hub_checkpoints(folder: Path, deployment: Deployment) -> dict[str, Inspection | str]:
    """Each checkpoint of the Hub, read from its small files and the sizes of the others."""
    models = [host.model for host in deployment.hosts if host.workers and host.model.repo]
    return {facts_folder(model): _hub_checkpoint(folder, model) for model in models}


def _hub_checkpoint(folder: Path, model: ModelSettings) -> Inspection | str:
    found = _read_hub(folder, model)
    if isinstance(found, str):
        return found
    place = _model_folder(folder, facts_folder(model))
    sizes = {name: size for name, (size, _) in found.entries.items() if "/" not in name}
    files = {name: (Path(place) / name).read_bytes() for name in small_files(sizes)}
    checkpoint = read_checkpoint(files, sizes, found.repo)
    return Inspection(checkpoint, {}, checkpoint.findings)


def _wheelhouses(folder: Path, deployment: Deployment) -> dict[str, Files | str]:
    """The wheelhouses that hosts name, each listed once, beside the inventory or in the checkout."""
    paths = {host.engine.wheelhouse for host in deployment.hosts if host.engine.wheelhouse}
    return {path: _read_wheelhouse(folder, path) for path in sorted(paths)}


def files_of(place: Path) -> Files:
    """The files of a folder, by its manifest."""
    return Files(str(place), _manifest(place))


def _read_wheelhouse(folder: Path, path: str) -> Files | str:
    place = next((base / path for base in (folder, project_root()) if (base / path).is_dir()), None)
    return Files(str(place), _manifest(place)) if place else f"engine.wheelhouse {path}: no such folder"


def _read_model(folder: Path, path: str) -> Files | str:
    """The file list of a model folder, beside the inventory or in the checkout; what is wrong with it, else."""
    place = _model_folder(folder, path)
    return f"model.path {path}: {place}" if isinstance(place, str) else Files(str(place), _manifest(place))


def _model_folder(folder: Path, path: str) -> Path | str:
    place = next((base / path for base in (folder, project_root()) if (base / path).is_dir()), None)
    if place is None:
        return "no such folder"
    if not (place / "config.json").is_file():
        return "the folder has no config.json, so it is no checkpoint"
    return place


def _checkpoints(folder: Path, deployment: Deployment) -> dict[str, Inspection | str]:
    """Each checkpoint that workers serve, read from its small files."""
    models = [host.model for host in deployment.hosts if host.workers]
    whole = {model.path for model in models if model.path and not model.facts}
    small = {model.facts for model in models if model.facts and not model.repo}
    found = {path: _inspected(folder, path, whole=True) for path in sorted(whole)}
    return {**found, **{path: _inspected(folder, path, whole=False) for path in sorted(small)}}


def _inspected(folder: Path, path: str, whole: bool) -> Inspection | str:
    """whole: the weights lie there as well, so that they are checked against the index."""
    place = _model_folder(folder, path)
    if isinstance(place, str):
        return place
    read = read_folder(place)
    if whole:
        return inspect(read, place.name)
    checkpoint = read_checkpoint(read.files, read.sizes, place.name)
    return Inspection(checkpoint, {}, checkpoint.findings)


def _tried(host: HostSettings, files: Mapping[str, Files | str], series: Series) -> list[Tried]:
    """The host's patches on the wheel of its release, where the wheelhouse has it; nothing on git."""
    engine, wheelhouse = host.engine, files.get(host.engine.wheelhouse or "")
    if not host.workers or not engine.patches or engine.git or not isinstance(wheelhouse, Files):
        return []
    wheel = find_wheel([Path(wheelhouse.source)], "sglang", engine.version)
    patches = [patch for patch in series.patches if patch.id in engine.patches]
    return try_series(patches, tree_of(wheel, "sglang"), engine.version) if wheel else []


def _named_locks(folder: Path, deployment: Deployment) -> dict[str, str | None]:
    """The files that `engine.lock` names, beside the inventory or in the checkout; None where there is none."""
    paths = {host.engine.lock for host in deployment.hosts if host.engine.lock}
    return {path: _text(folder, path) for path in sorted(paths)}


def _text(folder: Path, path: str) -> str | None:
    place = next((base / path for base in (folder, project_root()) if (base / path).is_file()), None)
    return place.read_text(encoding="utf-8") if place else None


def kept_locks(folder: Path) -> dict[str, str]:
    """Locks that were resolved before, by key."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((folder / KEPT).glob("*.txt"))}


def _learnt(folder: Path) -> dict[str, FlagList]:
    """Flag lists that were learnt from built engines, kept beside the inventory."""
    lists = [_flag_list(path) for path in sorted((folder / ".slipway" / "flags").glob("*.json"))]
    return {known.release: known for known in lists}


def _flag_list(path: Path) -> FlagList:
    try:
        return FlagList.from_json(path.read_text(encoding="utf-8"), path.name)
    except (OSError, ValueError) as error:
        allowed, hint = "a flag list learnt from an engine", "remove the file; it is learnt again at the next build"
        name = f".slipway/flags/{path.name}"
        raise InvalidConfigError([ConfigError(name, 0, "", str(error), allowed, hint)]) from error


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
