"""`slipway builds [ROOT]` and `slipway diff BUILD BUILD`: what is built on this machine, and how two builds differ."""

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
    parser.set_defaults(run=run)
    return parser


def add_diff(commands: Any) -> argparse.ArgumentParser:
    """Add `diff`; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser("diff", help="tell how two builds differ")
    parser.add_argument("builds", nargs=2, metavar="BUILD", help="an id, or a folder that holds build.json")
    parser.add_argument("--root", help="as of slipway builds")
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
    records = read_records(engines)
    if not records:
        print(f"{engines} holds no builds")
        return 0
    print("\n".join(table(HEAD, [row_of(record) for record in records])))
    return 0


def run_diff(arguments: argparse.Namespace) -> int:
    """What decides their contents and differs; 1 when one is not there."""
    from slipway.builds.records import differences, read_record, read_records

    engines = _engines(arguments.root)
    folders = [Path(name) if "/" in name else engines / name for name in arguments.builds]
    missing = [folder for folder in folders if not (folder / "build.json").is_file()]
    if missing:
        have = ", ".join(record["id"] for record in read_records(engines)) or "none"
        print(f"error: {missing[0]} has no build.json; {engines} has {have}", file=sys.stderr)
        return 1
    one, other = (read_record(folder) for folder in folders)
    lines = list(differences(one, other))
    print("\n".join(lines) if lines else f"{one['id']} and {other['id']} are made of the same")
    return 0
