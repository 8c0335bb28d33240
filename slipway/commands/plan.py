"""`slipway plan [INVENTORY]`: the resolved plan, as a table, as JSON, or against a recorded one."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

DEPLOYED = "the deployed release"


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser("plan", help="print the resolved plan; asks no host")
    parser.add_argument("--json", action="store_true", help="the plan as JSON, complete")
    parser.add_argument("--full", action="store_true", help="every row, every command line, the memory arithmetic")
    text = (
        "what differs from a recorded plan (plan.json); without a file: from the release on the hosts, which are asked"
    )
    parser.add_argument("--diff", nargs="?", const=DEPLOYED, metavar="RELEASE.json", help=text)
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Print it; 1 when it has errors."""
    from slipway.commands.opening import plan_of

    plan = plan_of(arguments)
    if plan is None:
        return 1
    if arguments.diff == DEPLOYED:
        lines = _deployed(arguments)
    else:
        lines = _diff(arguments.diff, plan) if arguments.diff else _shown(plan, arguments)
    if lines is None:
        return 1
    print("\n".join(lines))
    return 1 if plan.errors else 0


def _shown(plan: Any, arguments: argparse.Namespace) -> list[str]:
    from slipway.plan.model import to_json
    from slipway.report import plan_lines

    return [json.dumps(to_json(plan), indent=1)] if arguments.json else plan_lines(plan, arguments.full)


def _diff(name: str, plan: Any) -> list[str] | None:
    from slipway.plan.diff import diff_lines
    from slipway.plan.model import to_json
    from slipway.report import finding_lines

    try:
        recorded = json.loads(Path(name).read_text(encoding="utf-8"))
        lines = diff_lines(recorded, to_json(plan))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        print(f"{name}: no recorded plan ({reason}); releases/N/plan.json is one", file=sys.stderr)
        return None
    return [*(lines or [f"nothing differs from {name}"]), *finding_lines(plan.errors)]


def _deployed(arguments: argparse.Namespace) -> list[str] | None:
    from slipway.agent.difference import DifferenceError, ask
    from slipway.front import project_root

    options = [word for item in arguments.data for word in ("--data", item)]
    try:
        return ask(str(project_root() / "playbooks/difference.py"), arguments.inventory, options)
    except DifferenceError as error:
        print(error, file=sys.stderr)
        return None
