"""`slipway patch add | check | refresh`: keeps patches/series.yml, and tells whether it still applies to a release."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

SERVER = "SLIPWAY_GITHUB"  # environment variable: another address than GitHub's, such as a company's own


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand with its own three; its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "patch", help="keep and try the patches of patches/series.yml"
    )
    parser.add_argument("--patches", default="patches", metavar="FOLDER", help="default: patches")
    own = parser.add_subparsers(required=True, metavar="ACTION")
    adding = own.add_parser("add", help="get the diff of a pull request, pin it and add an entry")
    adding.add_argument("pull", metavar="OWNER/REPO#N")
    adding.add_argument("--why", required=True, help="what it is needed for; recorded with each build")
    adding.add_argument("--id", help="default: pr-N")
    adding.add_argument("--remove-when", default="", help="what must have happened for it to go")
    adding.add_argument("--releases", default="all", help="such as 0.5.13..0.5.14; the end is not included")
    adding.set_defaults(run=run_add)
    checking = own.add_parser("check", help="try the series against a release, offline")
    checking.add_argument("--release", default="0.5.13")
    checking.add_argument(
        "--against", metavar="WHEEL|FOLDER", help="default: a wheel of the release in $SLIPWAY_WHEELS"
    )
    checking.set_defaults(run=run_check)
    refreshing = own.add_parser("refresh", help="get the diffs of pull requests anew and pin what they are now")
    refreshing.add_argument("ids", nargs="*", metavar="ID", help="default: all that are pull requests")
    refreshing.set_defaults(run=run_refresh)
    return parser


def _server() -> str:
    from slipway.agent.patch_fetch import GITHUB

    return os.environ.get(SERVER, GITHUB)


def _fail(error: object) -> int:
    print(f"error: {error}" if not str(error).startswith("patches/") else error, file=sys.stderr)
    return 1


def run_add(arguments: argparse.Namespace) -> int:
    """The diff first, then the entry: a failed download changes nothing."""
    from slipway.agent.patch_fetch import FetchError, address_of, fetch_diff
    from slipway.config.errors import InvalidConfigError
    from slipway.patching.series import load_series

    folder = Path(arguments.patches)
    try:
        address = address_of(arguments.pull, _server())
        name = arguments.id or f"pr-{arguments.pull.rpartition('#')[2]}"
        if load_series(folder).get(name):
            return _fail(f"patches/series.yml has {name} already; slipway patch refresh {name} gets it anew")
        digest = _add(folder, name, arguments, fetch_diff(address))
    except (FetchError, InvalidConfigError, OSError) as error:
        return _fail(error)
    print(f"{name}: pinned at sha256 {digest[:12]}; name it in engine.patches, after: slipway patch check")
    return 0


def _add(folder: Path, name: str, arguments: argparse.Namespace, data: bytes) -> str:
    """Write both files; what the entry makes of the series is checked before it stays. Raises InvalidConfigError."""
    from slipway.agent.patch_tree import digest_of
    from slipway.config.errors import InvalidConfigError
    from slipway.patching.series import file_name, load_series
    from slipway.patching.writing import with_entry

    digest = digest_of(data.decode("utf-8", "surrogateescape"))
    repository, _, number = arguments.pull.partition("#")
    fields = {
        "id": name, "github_pr": arguments.pull, "file": file_name(arguments.pull), "sha256": digest,
        "why": arguments.why, "upstream": f"https://github.com/{repository}/pull/{number}",
        "remove_when": arguments.remove_when, "releases": arguments.releases,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    series = folder / "series.yml"
    before = series.read_text(encoding="utf-8") if series.exists() else ""
    (folder / fields["file"]).write_bytes(data)
    _replace(series, with_entry(before, fields))
    try:
        load_series(folder)
    except InvalidConfigError:
        _replace(series, before or "patches: []\n")
        (folder / fields["file"]).unlink()
        raise
    return digest


def _replace(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def run_check(arguments: argparse.Namespace) -> int:
    """One line a patch, and all about those that do not apply; 1 when there is one."""
    from slipway.config.errors import InvalidConfigError
    from slipway.patching.series import load_series
    from slipway.patching.trying import find_wheel, tree_of, try_series

    try:
        series = load_series(Path(arguments.patches))
    except InvalidConfigError as error:
        return _fail(error)
    folders = [Path(word) for word in os.environ.get("SLIPWAY_WHEELS", "").split(":") if word]
    place = Path(arguments.against) if arguments.against else find_wheel(folders, "sglang", arguments.release)
    if place is None or not place.exists():
        fix = "name one by --against, or a folder of wheels (slipway wheelhouse makes one) by $SLIPWAY_WHEELS"
        return _fail(f"{place or 'a wheel of SGLang ' + arguments.release} is not here; {fix}")
    tried = try_series(series.patches, tree_of(place, "sglang"), arguments.release)
    for one in tried:
        print(f"{one.patch.id:<24} {one.state:<10} {one.text}")
    wrong = [one for one in tried if one.state == "conflict"]
    print(f"SGLang {arguments.release}: {len(tried)} patch(es), {len(wrong)} conflict(s)")
    return 1 if wrong else 0


def run_refresh(arguments: argparse.Namespace) -> int:
    """Pin what pull requests are now; a diff that did not change is left, one that cannot be had too."""
    from slipway.config.source import read_yaml
    from slipway.patching.series import file_name

    folder = Path(arguments.patches)
    series = folder / "series.yml"
    if not series.exists():
        return _fail(f"{series} is not there; slipway patch add OWNER/REPO#N makes it")
    rows = read_yaml(series.read_text(encoding="utf-8"), "patches/series.yml").data.get("patches") or []
    known = {row["id"]: row for row in rows if isinstance(row, dict) and row.get("github_pr") and row.get("id")}
    unknown = [name for name in arguments.ids if name not in known]
    if unknown:
        return _fail(
            f"{', '.join(unknown)}: no such pull request in patches/series.yml; it has {', '.join(known) or 'none'}"
        )
    wanted = [known[name] for name in arguments.ids or known]
    return max(
        [_refresh(series, row, folder / (row.get("file") or file_name(row["github_pr"]))) for row in wanted] or [0]
    )


def _refresh(series: Path, row: dict[str, str], path: Path) -> int:
    from slipway.agent.patch_fetch import FetchError, address_of, fetch_diff
    from slipway.agent.patch_tree import digest_of
    from slipway.patching.writing import with_hash

    try:
        data = fetch_diff(address_of(row["github_pr"], _server()))
    except FetchError as error:
        return _fail(f"{row['id']}: {error}; the pinned diff stays")
    digest = digest_of(data.decode("utf-8", "surrogateescape"))
    same = digest == row.get("sha256") and path.exists()
    print(f"{row['id']}: {'unchanged' if same else 'now sha256 ' + digest[:12] + ', which makes new builds'}")
    if not same:
        path.write_bytes(data)
        _replace(series, with_hash(series.read_text(encoding="utf-8"), row.get("sha256", ""), digest))
    return 0
