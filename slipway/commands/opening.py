"""What commands share: the inventory's arguments, opening it, and the plan made without asking other hosts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from slipway.front import Opened, open_inventory
from slipway.local import local_facts
from slipway.plan.make import Made
from slipway.plan.model import Plan


def add_inventory(parser: argparse.ArgumentParser, default: str | None = "inventory.py") -> None:
    """The inventory and its overrides."""
    text = f"default: {default}" if default else "an inventory, whose plan is then looked at"
    parser.add_argument("inventory", nargs="?", default=default, help=text)
    parser.add_argument(
        "--data", action="append", default=[], metavar="KEY.PATH=VALUE", help="override, as pyinfra's --data"
    )
    text = "plan by `hardware:` alone; without it @local, this machine, is looked at"
    parser.add_argument("--declared", action="store_true", help=text)


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Of a command that asks hosts: which."""
    parser.add_argument("--limit", action="append", default=[], metavar="HOST", help="only this host or group")


def pyinfra_options(arguments: argparse.Namespace) -> list[str] | None:
    """Its --data and --limit for a run of pyinfra, or None after saying that the inventory is not there."""
    if not Path(arguments.inventory).is_file():
        print(f"{arguments.inventory}: no such file; name an inventory such as inventory.py", file=sys.stderr)
        return None
    options = [word for item in arguments.data for word in ("--data", item)]
    return options + [word for item in arguments.limit for word in ("--limit", item)]


def opened_of(arguments: argparse.Namespace) -> Opened | None:
    """The inventory, or None after printing everything that is wrong with its configuration."""
    from slipway.config.errors import InvalidConfigError

    try:
        return open_inventory(Path(arguments.inventory).resolve(), overrides_of(arguments))
    except InvalidConfigError as error:
        print(error, file=sys.stderr)
        return None


def overrides_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Its --data, by dotted key path."""
    return dict(_override(item) for item in arguments.data)


def made_of(arguments: argparse.Namespace) -> Made | None:
    """The plan with what led to it, or None after printing what is wrong with the configuration."""
    opened = opened_of(arguments)
    if opened is None:
        return None
    return opened.make({} if arguments.declared else local_facts(opened.deployment))


def plan_of(arguments: argparse.Namespace) -> Plan | None:
    """The plan, or None after printing what is wrong with the configuration."""
    made = made_of(arguments)
    return None if made is None else made.plan


def _override(item: str) -> tuple[str, Any]:
    key, _, text = item.partition("=")
    try:
        return key, json.loads(text)
    except ValueError:
        return key, text
