"""The `slipway` command: what can be said about a deployment without touching a host."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipway import __version__
from slipway.commands import wheelhouse


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 well, 1 errors, 2 wrong usage (and, for drift, pending changes)."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except BrokenPipeError:  # `slipway plan | head`
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="slipway", description=__doc__)
    parser.add_argument("--version", action="version", version=f"slipway {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    plan = commands.add_parser("plan", help="print the resolved plan; asks no host")
    plan.add_argument("--json", action="store_true", help="the plan as JSON")
    plan.set_defaults(run=_plan)
    check = commands.add_parser("check", help="check the configuration; asks no host")
    check.set_defaults(run=_check)
    for command in (plan, check, wheelhouse.add(commands)):
        command.add_argument("inventory", nargs="?", default="inventory.py", help="default: inventory.py")
        command.add_argument(
            "--data", action="append", default=[], metavar="KEY.PATH=VALUE", help="override, as pyinfra's --data"
        )
    return parser


def _plan(arguments: argparse.Namespace) -> int:
    from slipway.plan.model import to_json
    from slipway.report import plan_lines

    plan = plan_of(arguments)
    if plan is None:
        return 1
    print(json.dumps(to_json(plan), indent=1) if arguments.json else "\n".join(plan_lines(plan)))
    return 1 if plan.errors else 0


def _check(arguments: argparse.Namespace) -> int:
    from slipway.report import finding_lines

    plan = plan_of(arguments)
    if plan is None:
        return 1
    print("\n".join(finding_lines(plan.findings)))
    print(f"{arguments.inventory}: {len(plan.hosts)} host(s), {len(plan.instances)} instance(s), "
          f"{len(plan.errors)} error(s)")  # fmt: skip
    return 1 if plan.errors else 0


def plan_of(arguments: argparse.Namespace) -> Any:
    """The plan, or None after printing what is wrong with the configuration."""
    from slipway.config.errors import InvalidConfigError
    from slipway.front import open_inventory
    from slipway.local import local_facts

    overrides = dict(_override(item) for item in arguments.data)
    try:
        opened = open_inventory(Path(arguments.inventory).resolve(), overrides)
    except InvalidConfigError as error:
        print(error, file=sys.stderr)
        return None
    return opened.plan(local_facts(opened.deployment))


def _override(item: str) -> tuple[str, Any]:
    key, _, text = item.partition("=")
    try:
        return key, json.loads(text)
    except ValueError:
        return key, text


if __name__ == "__main__":
    sys.exit(main())
