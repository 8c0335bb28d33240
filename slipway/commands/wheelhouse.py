"""`slipway wheelhouse INVENTORY --into FOLDER`: everything that hosts without a network install, in one folder."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from slipway.builds.recipe import recipe_named, requirements_of


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser, to which the caller adds what all commands share."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "wheelhouse", help="download every wheel that the builds of an inventory need, for hosts without a network"
    )
    parser.add_argument("--into", required=True, metavar="FOLDER", help="what engine.wheelhouse then names")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Fill the folder for every Python that the plan uses; 1 when something cannot be had."""
    from slipway.agent.manifest import ManifestError
    from slipway.agent.wheelhouse import WheelhouseError, fill
    from slipway.commands.opening import plan_of

    plan = plan_of(arguments)
    if plan is None:
        return 1
    builds = {build.id: build for host in plan.hosts for build in host.builds}
    try:
        for python in sorted({build.python for build in builds.values()}):
            texts = [build.requirements for build in builds.values() if build.python == python]
            count = fill(
                arguments.into, python, [*dict.fromkeys(texts), requirements_of(recipe_named("installer"), "")]
            )
    except (WheelhouseError, ManifestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.into}: {count} files for {', '.join(sorted(builds))}")
    return 0
