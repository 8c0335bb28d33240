"""The `slipway` command: what can be said about a deployment without changing a host."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from slipway import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 well, 1 errors, 2 wrong usage (for drift: pending changes;
    for bench check: not comparable)."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except BrokenPipeError:  # `slipway plan | head`
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    from slipway.commands import (
        bench,
        builds,
        check,
        checkpoint,
        drift,
        experiment,
        explain,
        patch,
        plan,
        report,
        resolve,
        status,
        wheelhouse,
    )
    from slipway.commands.opening import add_inventory

    parser = argparse.ArgumentParser(prog="slipway", description=__doc__)
    parser.add_argument("--version", action="version", version=f"slipway {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (plan, check, drift, status, resolve, wheelhouse):
        add_inventory(command.add(commands))
    add_inventory(explain.add(commands), default=None)
    for alone in (checkpoint.add, patch.add, builds.add, builds.add_diff, bench.add, report.add, experiment.add):
        alone(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
