"""What `inventory.py` calls: loads and checks group_vars/, and hands pyinfra its hosts.

Runs before anything connects, so that a configuration error costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
from pyinfra.api.exceptions import InventoryError

from roles.transport import ssh_data
from slipway.config.errors import InvalidConfigError
from slipway.front import Opened, open_groups, project_root
from slipway.invocation import command_again

_opened: dict[Path, Opened] = {}
# pyinfra's own options in this call. Kept when the inventory is read: deploy files run in greenlets, which do not
# see click's context.
_options: dict[str, Any] = {}
# --data that asks something of one run, and says nothing of what the hosts should be.
RUN_OPTIONS = ("break_lock", "label", "name", "release", "repeats", "seconds", "streams", "why", "worker")


def hosts(inventory: str, variables: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """All hosts with what pyinfra needs to reach them, for the group `all` of an inventory file.

    inventory: the file, its `__file__`. variables: its `globals()`; every list of hosts in it is a group.
    Example, as the last line of inventory.py: `all = _hosts(__file__, globals())`.
    """
    groups = {key: value for key, value in variables.items() if isinstance(value, list) and key[0] != "_"}
    if not _under_pyinfra():
        return []
    opened = opened_inventory(Path(inventory).resolve(), groups)
    _check_limit(opened, [*groups, Path(inventory).stem])
    return [
        (
            host.name,
            ssh_data({**opened.connection.get(host.name, {}), "slipway_inventory": str(opened.inventory)}, host.name),
        )
        for host in opened.deployment.hosts
    ]


def _check_limit(opened: Opened, groups: list[str]) -> None:
    """pyinfra only warns of a --limit that names nobody, deploys nothing and calls that a success."""
    names = [host.name for host in opened.deployment.hosts]
    for option_name in ("limit", "exclude"):
        for pattern in _options.get(option_name) or ():
            if pattern not in groups and not any(fnmatch(name, pattern) for name in names):
                allowed = ", ".join(dict.fromkeys([*names, *groups]))
                raise InventoryError(f"--{option_name} {pattern}: no such host or group; must be one of {allowed}")


def opened_inventory(inventory: Path, groups: Mapping[str, Any] | None = None) -> Opened:
    """The inventory as loaded once in this process. Raises InventoryError with every configuration error."""
    if inventory not in _opened:
        try:
            _opened[inventory] = open_groups(inventory, groups or {}, overrides())
        except InvalidConfigError as error:
            count = len(error.errors)
            raise InventoryError(f"{count} configuration error{'s' * (count > 1)}\n{error}") from None
    return _opened[inventory]


def _under_pyinfra() -> bool:
    context = click.get_current_context(silent=True)
    _options.update(context.params if context else {})
    return "data" in _options


def overrides() -> dict[str, Any]:
    """The --data of this pyinfra call that is configuration, KEY.PATH=VALUE."""
    return {key: value for key, value in _data().items() if not key.startswith("ssh_") and key not in RUN_OPTIONS}


def asked(name: str) -> Any:
    """The --data of this call that is one of RUN_OPTIONS; None when it was not given."""
    return _data().get(name)


def _data() -> dict[str, Any]:
    """The value is JSON where it can be, else text."""
    pairs = [item.split("=", 1) for item in _options.get("data") or () if "=" in item]
    return {key: _value(value) for key, value in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def again(playbook: str, *more: str) -> str:
    """The command that runs `playbook` on what this run is for, as the user would type it. more: words after it."""
    path = str(_options.get("inventory", "inventory.py"))
    target = playbook if Path(path).resolve() == project_root() / "inventory.py" else ""
    data = [item for item in _options.get("data") or () if item.partition("=")[0] not in RUN_OPTIONS]
    return command_again(_options, data, f"playbooks/{playbook}.py", target, *more)


def option(name: str) -> Any:
    """One of pyinfra's own options in this call, such as `dry` or `yes`."""
    return _options.get(name)
