"""`slipway status [INVENTORY]`: what runs where and whether it is healthy, as the status playbook tells it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "status", help="ask the hosts what runs where, from which release, how healthy, and what is being fetched"
    )
    parser.add_argument("--limit", action="append", default=[], metavar="HOST", help="only this host or group")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 1 when a host could not be asked."""
    from slipway.agent.drift import pass_on
    from slipway.front import project_root

    if not Path(arguments.inventory).is_file():
        print(f"{arguments.inventory}: no such file; name an inventory such as inventory.py", file=sys.stderr)
        return 1
    options = [word for item in arguments.data for word in ("--data", item)]
    options += [word for item in arguments.limit for word in ("--limit", item)]
    failed = pass_on(str(project_root() / "playbooks/status.py"), arguments.inventory, options)
    if failed is not None:
        print(f"{failed}\n{arguments.inventory}: not every host could be asked", file=sys.stderr)
    return 0 if failed is None else 1
