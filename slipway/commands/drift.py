"""`slipway drift [INVENTORY]`: whether the hosts are as the inventory says; 0 they are, 2 they are not, 1 unknown."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import Any

from slipway.invocation import playbook_words


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    from slipway.commands.opening import add_limit

    parser: argparse.ArgumentParser = commands.add_parser(
        "drift", help="ask the hosts whether a deploy would change them: exit 0 no, 2 yes, 1 could not be told"
    )
    parser.add_argument("--json", action="store_true", help="the changes as JSON")
    add_limit(parser)
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """List what a deploy would change."""
    from slipway.agent.drift import look
    from slipway.commands.opening import pyinfra_options
    from slipway.front import project_root

    options = pyinfra_options(arguments)
    if options is None:
        return 1
    answer = look(str(project_root() / "deploy.py"), arguments.inventory, options)
    if arguments.json:
        print(json.dumps(answer, indent=1))
    else:
        again = shlex.join(playbook_words({"inventory": arguments.inventory}, arguments.data, "deploy.py"))
        _print(arguments.inventory, answer, again)
    return int(answer["exit"])


def _print(inventory: str, answer: dict[str, Any], again: str) -> None:
    for change in answer["changes"]:
        print(f"[{change['host']}] {change['action']} {change['subject']}: {change['reason']}")
        for line in change["diff"].splitlines():
            print(f"    {line}")
    if "error" in answer:
        print(f"{answer['error']}\n{inventory}: drift could not be told", file=sys.stderr)
    elif answer["changes"]:
        print(f"{inventory}: {len(answer['changes'])} change(s) pending; {again} makes them")
    else:
        print(f"{inventory}: converged")
