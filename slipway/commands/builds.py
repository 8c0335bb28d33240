"""`slipway builds [ROOT]` and `slipway diff`: what is built on this machine, and how builds or releases differ."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOTS = ("/opt/slipway", "~/.local/share/slipway")


def add(commands: Any) -> argparse.ArgumentParser:
    """Add `builds`; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser("builds", help="list the builds of this machine")
    parser.add_argument(
        "--root", help=f"ROOT of the host layout; default: the first that is there of {', '.join(ROOTS)}"
    )
    parser.add_argument("--prune", action="store_true", help="name what no release refers to")
    parser.add_argument("--kept", type=int, default=0, metavar="N", help="of those, so many of each kind stay")
    parser.add_argument("--yes", action="store_true", help="remove them; without it, only say which")
    parser.set_defaults(run=run)
    return parser


def add_diff(commands: Any) -> argparse.ArgumentParser:
    """Add `diff`; its parser."""
    text = "tell how two builds of this machine, two releases, or a release and the plan differ"
    parser: argparse.ArgumentParser = commands.add_parser("diff", help=text)
    what = "an id, or a folder that holds build.json; or a release's number, 'current', and at last 'plan'"
    parser.add_argument("sides", nargs=2, metavar="BUILD|RELEASE", help=what)
    parser.add_argument("--root", help="of builds, as of slipway builds")
    parser.add_argument("--inventory", default="inventory.py", help="of releases, whose hosts are asked")
    parser.add_argument("--data", action="append", default=[], metavar="KEY.PATH=VALUE", help="as pyinfra's --data")
    parser.set_defaults(run=run_diff)
    return parser


def _engines(root: str | None) -> Path:
    roots = [Path(name).expanduser() for name in ([root] if root else ROOTS)]
    return next((path for path in roots if path.is_dir()), roots[0]) / "engines"


def run(arguments: argparse.Namespace) -> int:
    """One line a build."""
    from slipway.builds.records import HEAD, read_records, row_of
    from slipway.report import table

    engines = _engines(arguments.root)
    if arguments.prune:
        return _prune(engines.parent, arguments)
    records = read_records(engines)
    if not records:
        print(f"{engines} holds no builds")
        return 0
    print("\n".join(table(HEAD, [row_of(record) for record in records])))
    return 0


def _prune(root: Path, arguments: argparse.Namespace) -> int:
    """Remove what nothing uses, or say which; 1 when that cannot be told."""
    from slipway.agent.prune import PruneError
    from slipway.agent.prune_builds import prune

    try:
        rows = prune(str(root), arguments.kept, arguments.yes)
    except (PruneError, OSError) as error:
        print(f"error: {error}; no build was removed", file=sys.stderr)
        return 1
    for row in rows:
        print(f"{'removed' if arguments.yes else 'would remove'} {row['id']}: {row['bytes'] / 1e9:.2f} GB")
    print(f"{root}: {len(rows)} build(s) that nothing uses, {sum(row['bytes'] for row in rows) / 1e9:.2f} GB")
    return 0


def run_diff(arguments: argparse.Namespace) -> int:
    """What decides their contents and differs; 1 when one is not there."""
    if all(side.isdigit() or side in ("current", "plan") for side in arguments.sides):
        return _diff_releases(arguments)
    return _diff_builds(arguments)


def _diff_releases(arguments: argparse.Namespace) -> int:
    from slipway.agent.difference import DifferenceError, ask
    from slipway.front import project_root

    before, after = arguments.sides
    if before == "plan":
        print("error: the plan can only be the second of the two: slipway diff current plan", file=sys.stderr)
        return 1
    options = [word for item in arguments.data for word in ("--data", item)]
    options += ["--data", f"release={before}" if after == "plan" else f"release={before}..{after}"]
    try:
        lines = ask(str(project_root() / "playbooks/difference.py"), arguments.inventory, options)
    except DifferenceError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def _diff_builds(arguments: argparse.Namespace) -> int:
    from slipway.builds.records import differences, read_record, read_records

    engines = _engines(arguments.root)
    folders = [Path(name) if "/" in name else engines / name for name in arguments.sides]
    missing = [folder for folder in folders if not (folder / "build.json").is_file()]
    if missing:
        have = ", ".join(record["id"] for record in read_records(engines)) or "none"
        print(f"error: {missing[0]} has no build.json; {engines} has {have}", file=sys.stderr)
        return 1
    one, other = (read_record(folder) for folder in folders)
    lines = list(differences(one, other))
    print("\n".join(lines) if lines else f"{one['id']} and {other['id']} are made of the same")
    return 0
