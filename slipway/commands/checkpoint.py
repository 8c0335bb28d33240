"""`slipway checkpoint facts|verify|list|prune`: what is known of checkpoints, and those in a folder of this machine."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slipway.plan.hub import PUBLIC, RECORD, facts_folder, folder_of, hub_key


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand with its actions."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "checkpoint", help="record, verify, list or prune checkpoints"
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_facts(actions)
    verify = actions.add_parser("verify", help="compare a fetched checkpoint with its record")
    verify.add_argument("folder", metavar="FOLDER")
    verify.add_argument("--full", action="store_true", help="hash every file; bad ones are moved to quarantine")
    verify.set_defaults(run=run_verify)
    text = "ROOT of a host's layout, such as /opt/slipway"
    for name, run, about in (
        ("list", run_list, "the checkpoints below ROOT"),
        ("prune", run_prune, "remove the unused"),
    ):
        action = actions.add_parser(name, help=about)
        action.add_argument("root", metavar="ROOT", help=text)
        action.set_defaults(run=run)
    action.add_argument("--yes", action="store_true", help="remove; without it, only say what would be")
    return parser


def _add_facts(actions: Any) -> None:
    facts = actions.add_parser("facts", help="ask the Hub for a commit and the small files that a plan reads")
    facts.add_argument("what", metavar="INVENTORY|REPO", help="an inventory (all its model.repo), or ORG/NAME")
    facts.add_argument("--revision", default="main", help="of REPO; default: main")
    facts.add_argument("--endpoint", default=PUBLIC, help="of REPO; default: the Hub")
    facts.add_argument("--token-file", default="", metavar="PATH", help="file with a token for REPO")
    facts.add_argument("--into", metavar="FOLDER", help="for REPO: what model.facts then names")
    facts.set_defaults(run=run_facts, data=[])


def run_facts(arguments: argparse.Namespace) -> int:
    """Record one repository, or all of an inventory."""
    from slipway.agent.fetch_http import TransferError

    try:
        wanted = _of_inventory(arguments) if arguments.what.endswith(".py") else [_of_repo(arguments)]
        if not wanted:
            print(f"error: {arguments.what} has no model.repo, or its configuration has errors", file=sys.stderr)
        for one in wanted:
            _record(**one)
    except (TransferError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if wanted else 1


def _of_repo(arguments: argparse.Namespace) -> dict[str, Any]:
    place = Path(arguments.token_file).expanduser() if arguments.token_file else None
    token = place.read_text(encoding="utf-8").strip() if place else ""
    folder = Path(arguments.into or folder_of(arguments.what))
    return {"repo": arguments.what, "revision": arguments.revision, "endpoint": arguments.endpoint, "token": token,
            "folder": folder}  # fmt: skip


def _of_inventory(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from slipway.commands.opening import opened_of

    arguments.inventory = arguments.what
    opened = opened_of(arguments)
    if opened is None:
        return []
    beside = opened.inventory.parent
    hosts = [host for host in opened.deployment.hosts if host.workers and host.model.repo]
    models = {hub_key(host.model): host.model for host in hosts}
    return [
        {"repo": model.repo, "revision": model.revision, "endpoint": model.endpoint or PUBLIC,
         "token": _token(model.token or {}, beside), "folder": beside / facts_folder(model)}
        for model in models.values()
    ]  # fmt: skip


def _token(place: Mapping[str, str], beside: Path) -> str:
    """The token of model.token; one that lies on the hosts is not to be had here."""
    if "env" in place:
        return os.environ.get(place["env"], "")
    return (beside / Path(place["file"]).expanduser()).read_text(encoding="utf-8").strip() if "file" in place else ""


def _record(repo: str, revision: str, endpoint: str, token: str, folder: Path) -> None:
    """Resolve, list, and keep the small files; the record itself is written last."""
    from slipway.agent.fetch_hub import Client
    from slipway.checkpoint import small_files

    client = Client(endpoint, repo, token)
    commit = client.commit(revision)
    files = client.files(commit)
    folder.mkdir(parents=True, exist_ok=True)
    names = small_files({name: size for name, (size, _) in files.items()})
    for name in names:
        (folder / name).write_bytes(_bytes(client, commit, name, *files[name]))
    record = {"schema": 1, "repo": repo, "revision": revision, "commit": commit, "endpoint": endpoint, "files": files}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    size = sum(size for size, _ in files.values())
    print(f"{folder}: {repo} {revision} is {commit}; {len(files)} files, {size / 1e9:.2f} GB, {len(names)} read")


def _bytes(client: Any, commit: str, name: str, size: int, listed: str) -> bytes:
    """One small file, proven."""
    from slipway.agent.fetch_hub import HubError
    from slipway.agent.state import listed_as

    sink = io.BytesIO()
    if size:
        client.read(commit, name, sink, 0, size)
    if not listed_as(sink.getvalue(), listed):
        raise HubError(f"{name}: the bytes are not those that the Hub lists; run this again, or try another endpoint")
    return sink.getvalue()


def run_verify(arguments: argparse.Namespace) -> int:
    """Look, or hash; 1 when anything differs."""
    from slipway.agent.manifest import check
    from slipway.agent.recheck import full
    from slipway.agent.state import look, read_note

    folder = arguments.folder
    if not Path(folder).is_dir():
        print(f"error: {folder}: no such folder", file=sys.stderr)
        return 1
    if not read_note(folder, "record.json"):  # placed rather than fetched: the manifest is all there is
        found = {"kind": "placed", "problems": check(folder)}
    else:
        found = full(folder) if arguments.full else look(folder)
    print("\n".join([*found["problems"], f"{folder}: {found['kind']}, {len(found['problems'])} problem(s)"]))
    return 1 if found["problems"] or found["kind"] in ("partial", "absent") else 0


def run_list(arguments: argparse.Namespace) -> int:
    """One line a checkpoint: size, state, and which deployments refer to it."""
    from slipway.agent.prune import checkpoints

    for row in checkpoints(arguments.root):
        used = ", ".join(row["used"]) or "unused"
        print(f"{row['bytes'] / 1e9:10.2f} GB  {row['kind']:9} {row['path']}  ({used})")
    return 0


def run_prune(arguments: argparse.Namespace) -> int:
    """Remove what no release refers to."""
    from slipway.agent.prune import PruneError, prune

    try:
        for line in _lines(prune(arguments.root, arguments.yes), arguments.yes):
            print(line)
    except (PruneError, OSError) as error:
        print(f"error: {error}; nothing was removed", file=sys.stderr)
        return 1
    return 0


def _lines(rows: list[dict[str, Any]], done: bool) -> Iterator[str]:
    for row in rows:
        yield f"{'removed' if done else 'would remove'} {row['path']} ({row['bytes'] / 1e9:.2f} GB)"
    total = sum(row["bytes"] for row in rows) / 1e9
    yield f"{len(rows)} checkpoint(s), {total:.2f} GB" + ("" if done or not rows else "; remove them with --yes")
