"""Loads group_vars/ and host_vars/ of an inventory into a `Deployment`; all errors come at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .deployment import (
    ROLES,
    WORKER_ROLES,
    Deployment,
    EngineSettings,
    HostSettings,
    ModelSettings,
    RouterSettings,
    ServiceSettings,
    VerifySettings,
    WorkerSettings,
    typed,
)
from .errors import ConfigError, InvalidConfigError, nearest
from .merge import Merged, merge
from .source import Origin, Source, read_yaml
from .validate import errors_of, schema, with_defaults

Groups = Mapping[str, Sequence[str]]


def load(folder: Path, groups: Groups, overrides: Mapping[str, Any], project: Path) -> Deployment:
    """Read and check everything that is said about the hosts of `groups`.

    folder: where group_vars/ and host_vars/ lie. overrides: dotted key path -> value, as from --data;
    they win over every file. project: folder that relative paths in the configuration start from.
    Raises InvalidConfigError with every error found.
    """
    reader = _Reader(folder, groups, overrides)
    merged = {host: reader.merged(host) for host in reader.host_names()}
    errors = [*reader.errors, *(error for one in merged.values() for error in errors_of(one))]
    if not errors:
        errors = _unequal(merged)
    if errors:
        raise InvalidConfigError(errors)
    hosts = tuple(_host(name, one.data, reader.groups_of(name)) for name, one in merged.items())
    return Deployment(str(project), hosts)


class _Reader:
    """Reads each file once and collects what is wrong with files, groups and overrides."""

    def __init__(self, folder: Path, groups: Groups, overrides: Mapping[str, Any]) -> None:
        self.folder = folder
        self.groups = groups
        self.override = _override_source(overrides)
        self.errors: list[ConfigError] = list(self.override.errors)
        self.sources = {path: self._read(path) for path in self._paths()}
        self._check_names()

    def host_names(self) -> list[str]:
        return list(dict.fromkeys(host for hosts in self.groups.values() for host in hosts))

    def groups_of(self, host: str) -> list[str]:
        return [group for group, hosts in self.groups.items() if host in hosts]

    def merged(self, host: str) -> Merged:
        """all < group < host < overrides."""
        names = [("group_vars", "all"), *(("group_vars", g) for g in self.groups_of(host)), ("host_vars", host)]
        layers = [self.sources.get(path) for kind, name in names for path in self._files(kind, name)]
        return merge([*(layer for layer in layers if layer), self.override])

    def _files(self, kind: str, name: str) -> list[Path]:
        return [self.folder / kind / f"{name}{suffix}" for suffix in (".yml", ".yaml")]

    def _paths(self) -> list[Path]:
        kinds = ("group_vars", "host_vars")
        return [p for kind in kinds for p in sorted((self.folder / kind).glob("*")) if not p.name.startswith(".")]

    def _read(self, path: Path) -> Source:
        name = f"{path.parent.name}/{path.name}"
        if path.suffix not in (".yml", ".yaml"):
            self._wrong_file(name, f"a file ending in {path.suffix or 'nothing'}", "a .yml file")
            return Source(name)
        try:
            source = read_yaml(path.read_text(encoding="utf-8"), name)
        except (OSError, UnicodeDecodeError) as error:
            self._wrong_file(name, f"a file that cannot be read ({error})", "UTF-8 text")
            return Source(name)
        self.errors.extend(source.errors)
        return source

    def _wrong_file(self, name: str, found: str, allowed: str, hint: str = "") -> None:
        self.errors.append(ConfigError(name, 0, "", found, allowed, hint))

    def _check_names(self) -> None:
        """A file for a group or host that does not exist would be ignored in silence: refuse it."""
        known = {"group_vars": {"all", *self.groups}, "host_vars": set(self.host_names())}
        for path in self.sources:
            kind, name = path.parent.name, path.stem
            if name not in known[kind]:
                close = nearest(name, known[kind])
                what = "group" if kind == "group_vars" else "host"
                hint = f"did you mean {close}?" if close else f"add the {what} to the inventory, or remove the file"
                allowed = f"one of {', '.join(sorted(known[kind]))}"
                self._wrong_file(f"{kind}/{path.name}", f"unknown {what} {name}", allowed, hint)


def _override_source(overrides: Mapping[str, Any]) -> Source:
    source = Source("--data")
    for dotted_path, value in overrides.items():
        path = tuple(dotted_path.split("."))
        target = source.data
        for part in path[:-1]:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                break
        if not isinstance(target, dict):
            source.errors.append(ConfigError("--data", 0, dotted_path, "a key inside a value", "a key path"))
            continue
        target[path[-1]] = value
        source.origins[path] = Origin("--data", 0)
    return source


_EQUAL_ON_ALL_HOSTS = ("deployment", "verify", "waive")


def _unequal(merged: Mapping[str, Merged]) -> list[ConfigError]:
    """Keys that describe the deployment as a whole must not differ between hosts."""
    errors = []
    for key in _EQUAL_ON_ALL_HOSTS:
        values = {json.dumps(one.data.get(key), sort_keys=True): (host, one) for host, one in merged.items()}
        if len(values) > 1:
            host, one = list(values.values())[-1]
            origin = one.origin((key,))
            found = f"another value on {host} than on the other hosts"
            errors.append(
                ConfigError(origin.file, origin.line, key, found, "equal on all hosts", "set it in group_vars/all.yml")
            )
    return errors


def _host(name: str, data: Mapping[str, Any], groups: Sequence[str]) -> HostSettings:
    full = with_defaults(dict(data), schema())
    return HostSettings(
        name=name,
        roles=tuple(role for role in ROLES if role in groups),
        deployment=full["deployment"],
        root=full["root"],
        address=full["address"],
        hardware=full["hardware"],
        packages=full["host"]["packages"],
        service=typed(ServiceSettings, full["service"]),
        engine=typed(EngineSettings, full["engine"]),
        model=typed(ModelSettings, full["model"]),
        workers={role: _worker(data, role) for role in WORKER_ROLES if role in groups},
        router=typed(RouterSettings, _texts(full["router"])),
        verify=typed(VerifySettings, full["verify"]),
        waive=full["waive"],
    )


def _worker(data: Mapping[str, Any], role: str) -> WorkerSettings:
    """Role settings over those of `worker`; defaults fill what neither says."""
    layers = [Source("worker", data=dict(data.get("worker", {}))), Source(role, data=dict(data.get(role, {})))]
    full = with_defaults(merge(layers).data, schema()["$defs"]["worker"])
    return typed(WorkerSettings, _texts(full))


def _texts(section: dict[str, Any]) -> dict[str, Any]:
    """The environment as text: true and 1 in YAML are 'true' and '1' to a process."""
    env = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in section["env"].items()}
    return {**section, "env": env}
