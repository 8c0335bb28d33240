"""`slipway wheelhouse INVENTORY --into FOLDER`: everything that hosts without a network install, in one folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from slipway.builds.recipe import Build, recipe_named, requirements_of

MIB = 2**20


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand; its parser, to which the caller adds what all commands share."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "wheelhouse", help="download every wheel that the builds of an inventory need, for hosts without a network"
    )
    parser.add_argument("--into", required=True, metavar="FOLDER", help="what engine.wheelhouse then names")
    parser.add_argument("--glibc", default="", metavar="X.Y", help="oldest C library of the hosts; default: our own")
    parser.add_argument("--part-mib", type=int, metavar="N", help="also cut it into FOLDER.parts, of so many MiB each")
    parser.add_argument("--join", metavar="PARTS", help="only put together what --part-mib cut; every hash is checked")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Fill the folder for every Python that the plan uses; 1 when something cannot be had."""
    from slipway.agent.manifest import ManifestError
    from slipway.agent.wheelhouse import WheelhouseError
    from slipway.builds.locking import LockError
    from slipway.builds.parts import PartsError, join

    try:
        if arguments.join:
            count = join(Path(arguments.join), Path(arguments.into))
            print(f"{arguments.into}: {count} files, each as it was packed")
            return 0
        return _fill(arguments)
    except (LockError, WheelhouseError, ManifestError, PartsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _fill(arguments: argparse.Namespace) -> int:
    from slipway.agent.wheelhouse import Target, fill
    from slipway.builds.locking import lock_builds
    from slipway.commands.opening import opened_of
    from slipway.local import local_facts
    from slipway.plan.model import to_json

    opened = opened_of(arguments)
    if opened is None:
        return 1
    facts = local_facts(opened.deployment)
    plan = lock_builds(opened, facts, print).plan(facts)
    builds = {build.id: build for host in plan.hosts for build in host.builds}
    count = 0
    for build in builds.values():
        target = Target(build.python, build.machine, arguments.glibc)
        count = fill(arguments.into, target, _texts(build), to_json(build.sources))
    print(f"{arguments.into}: {count} files for {', '.join(sorted(builds))}")
    if arguments.part_mib:
        _cut(Path(arguments.into), arguments.part_mib)
    return 0


def _texts(build: Build) -> list[str]:
    """The build's own requirements, and the installer that travels along."""
    return [build.requirements, requirements_of(recipe_named("installer"), "")]


def _cut(folder: Path, size: int) -> None:
    from slipway.builds.parts import split
    from slipway.front import files_of

    parts = folder.with_name(folder.name + ".parts")
    count = split(files_of(folder), parts, size * MIB)
    print(f"{parts}: {count} part(s) of at most {size} MiB; there: slipway wheelhouse --join PARTS --into FOLDER")
