"""Loads group_vars/ and host_vars/ of an inventory into a `Deployment`; all errors come at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .deployment import (
    ROLES,
    WORKER_ROLES,
    BenchSettings,
    Deployment,
    EngineSettings,
    HostSettings,
    ModelSettings,
    RolloutSettings,
    RouterSettings,
    ServiceSettings,
    VerifySettings,
    WorkerSettings,
    freeze,
    typed,
)
from .errors import ConfigError, InvalidConfigError, nearest
from .merge import Merged, merge
from .source import Origin, Source, read_yaml
from .validate import errors_of, schema, with_defaults

Groups = Mapping[str, Sequence[str]]
T = TypeVar("T")


def load(folder: Path, groups: Groups, overrides: Mapping[str, Any], project: Path) -> Deployment:
    """Read and check everything that is said about the hosts of `groups`.

    folder: where group_vars/ and host_vars/ lie. overrides: dotted key path -> value, as from --data;
    they win over every file. project: folder that relative paths in the configuration start from.
    Raises InvalidConfigError with every error found.
    """
    reader = _Reader(folder, groups, overrides)
    merged = {host: reader.merged(host) for host in reader.host_names()}
    sound = _Sound()
    errors = [*reader.errors, *(error for one in merged.values() for error in sound.errors(one))]
    if not errors:
        errors = _unequal(merged)
    if errors:
        raise InvalidConfigError(errors)
    build = _Builder()
    hosts = tuple(build.host(name, one.data, reader.groups_of(name)) for name, one in merged.items())
    return Deployment(str(project), hosts)


class _Sound:
    """Checks merged configuration; a section that was found right once is not checked again on the next host.

    Sections are independent in the schema: none is required and none refers to another.
    """

    def __init__(self) -> None:
        self.right: set[tuple[str, str]] = set()

    def errors(self, merged: Merged) -> list[ConfigError]:
        """Every violation in `merged`."""
        keys = {name: (name, _text(value)) for name, value in merged.data.items()}
        unseen = {name: merged.data[name] for name, key in keys.items() if key not in self.right}
        if not unseen:
            return []
        found = errors_of(Merged(unseen, merged.origins))
        if not found:
            self.right.update(keys[name] for name in unseen)
        return found


def _text(value: Any) -> str:
    """A value as text that equals that of an equal value; YAML has types that JSON has not."""
    return json.dumps(value, sort_keys=True, default=repr)


class _Reader:
    """Reads each file once and collects what is wrong with files, groups and overrides."""

    def __init__(self, folder: Path, groups: Groups, overrides: Mapping[str, Any]) -> None:
        self.folder = folder
        self.groups = groups
        self.override = _override_source(overrides)
        self.errors: list[ConfigError] = list(self.override.errors)
        self.sources = {path: self._read(path) for path in self._paths()}
        self.alike: dict[tuple[int, ...], Merged] = {}
        self._groups_of: dict[str, list[str]] = {}
        for group, hosts in groups.items():
            for host in dict.fromkeys(hosts):
                self._groups_of.setdefault(host, []).append(group)
        self._check_names()

    def host_names(self) -> list[str]:
        return list(dict.fromkeys(host for hosts in self.groups.values() for host in hosts))

    def groups_of(self, host: str) -> list[str]:
        return self._groups_of.get(host, [])

    def merged(self, host: str) -> Merged:
        """all < group < host < overrides. Hosts with the same layers share one value."""
        names = [("group_vars", "all"), *(("group_vars", g) for g in self.groups_of(host)), ("host_vars", host)]
        found = [self.sources.get(path) for kind, name in names for path in self._files(kind, name)]
        layers = [layer for layer in found if layer]
        key = tuple(id(layer) for layer in layers)
        if key not in self.alike:
            self.alike[key] = merge([*layers, self.override])
        return self.alike[key]

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
        """A file for a group or host that does not exist would be ignored in silence: refuse it.

        Files of roles without hosts are no mistake: several inventories in one folder share group_vars.
        """
        known = {"group_vars": {"all", *ROLES, *self.groups}, "host_vars": set(self.host_names())}
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


_EQUAL_ON_ALL_HOSTS = ("bench", "deployment", "rollout", "verify", "waive")


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


class _Builder:
    """Builds typed settings; equal sections of several hosts become one value."""

    def __init__(self) -> None:
        self.built: dict[tuple[str, str], Any] = {}

    def host(self, name: str, data: Mapping[str, Any], groups: Sequence[str]) -> HostSettings:
        """The settings of one host."""
        own = with_defaults(data.get("host", {}), schema()["properties"]["host"])
        return HostSettings(
            name=name,
            roles=tuple(role for role in ROLES if role in groups),
            deployment=self._plain(data, "deployment"),
            root=self._plain(data, "root"),
            address=self._plain(data, "address"),
            hardware=freeze(self._plain(data, "hardware")),
            packages=own["packages"],
            builds_kept=own["builds_kept"],
            service=self._section(ServiceSettings, data, "service"),
            engine=self._section(EngineSettings, data, "engine"),
            model=self._section(ModelSettings, data, "model"),
            workers={role: self._worker(data, role) for role in WORKER_ROLES if role in groups},
            router=self._section(RouterSettings, data, "router"),
            verify=self._section(VerifySettings, data, "verify"),
            rollout=self._section(RolloutSettings, data, "rollout"),
            bench=self._section(BenchSettings, data, "bench"),
            waive=freeze(self._plain(data, "waive")),
        )

    def _plain(self, data: Mapping[str, Any], key: str) -> Any:
        return data[key] if key in data else schema()["properties"][key]["default"]

    def _section(self, cls: type[T], data: Mapping[str, Any], key: str) -> T:
        value = data.get(key, {})
        return self._once(key, value, lambda: typed(cls, _texts(with_defaults(value, schema()["properties"][key]))))

    def _worker(self, data: Mapping[str, Any], role: str) -> WorkerSettings:
        """Role settings over those of `worker`; defaults fill what neither says."""
        both = [data.get("worker", {}), data.get(role, {})]
        return self._once(role, both, lambda: _worker(both, role))

    def _once(self, kind: str, value: Any, make: Callable[[], T]) -> T:
        key = (kind, _text(value))
        if key not in self.built:
            self.built[key] = make()
        found: T = self.built[key]
        return found


def _worker(both: list[dict[str, Any]], role: str) -> WorkerSettings:
    layers = [Source(name, data=dict(data)) for name, data in zip(("worker", role), both, strict=True)]
    full = with_defaults(merge(layers).data, schema()["$defs"]["worker"])
    return typed(WorkerSettings, _texts(full))


def _texts(section: dict[str, Any]) -> dict[str, Any]:
    """The environment as text: true and 1 in YAML are 'true' and '1' to a process."""
    if "env" not in section:
        return section
    env = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in section["env"].items()}
    return {**section, "env": env}
