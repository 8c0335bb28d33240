"""`slipway status [INVENTORY]`: what runs where and whether it is healthy, as the status playbook tells it."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    from slipway.commands.opening import add_limit

    parser: argparse.ArgumentParser = commands.add_parser(
        "status", help="ask the hosts what runs where, from which release, how healthy, and what is being fetched"
    )
    add_limit(parser)
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 1 when a host could not be asked."""
    from slipway.agent.drift import pass_on
    from slipway.commands.opening import pyinfra_options
    from slipway.front import project_root

    options = pyinfra_options(arguments)
    if options is None:
        return 1
    failed = pass_on(str(project_root() / "playbooks/status.py"), arguments.inventory, options)
    if failed is not None:
        print(f"{failed}\n{arguments.inventory}: not every host could be asked", file=sys.stderr)
    return 0 if failed is None else 1
