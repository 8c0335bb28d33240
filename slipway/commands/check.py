"""`slipway check [INVENTORY]`: what is wrong with a configuration, without its plan."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser("check", help="check the configuration; asks no host")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Print every finding and one line of counts; 1 when there are errors."""
    from slipway.commands.opening import plan_of
    from slipway.report import finding_lines

    plan = plan_of(arguments)
    if plan is None:
        return 1
    for line in finding_lines(plan.findings):
        print(line)
    print(f"{arguments.inventory}: {len(plan.hosts)} host(s), {len(plan.instances)} instance(s), "
          f"{len(plan.errors)} error(s)")  # fmt: skip
    return 1 if plan.errors else 0
