"""`slipway resolve INVENTORY`: resolves the packages of its builds now; a deploy does so where it is still due."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser, to which the caller adds what all commands share."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "resolve", help="resolve the packages of an inventory's builds once, with hashes, for all its hosts"
    )
    parser.add_argument("--anew", action="store_true", help="also those that are locked: newer versions come in")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Write the locks that are wanted; 1 with the resolver's reason when one cannot be had."""
    from dataclasses import replace

    from slipway.builds.locking import LockError, lock_builds
    from slipway.builds.locks import KEPT, Locks
    from slipway.commands.opening import opened_of
    from slipway.local import local_facts
    from slipway.report import finding_lines

    opened = opened_of(arguments)
    if opened is None:
        return 1
    before = replace(opened, locks=Locks(opened.locks.named)) if arguments.anew else opened
    facts = local_facts(opened.deployment)
    try:
        locked = lock_builds(before, facts, print)
    except (LockError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    plan = locked.plan(facts)
    for line in finding_lines(plan.errors):
        print(line, file=sys.stderr)
    for build in sorted({build for host in plan.hosts for build in host.builds if build.kind == "sglang"}, key=str):
        print(f"{build.id}: {build.requirements.count('==')} packages, {'locked' if build.locked else 'not locked'}")
    if locked.locks.kept:
        print(f"locks resolved for this inventory lie in {opened.inventory.parent / KEPT}; commit them with it")
    return 1 if plan.errors else 0
