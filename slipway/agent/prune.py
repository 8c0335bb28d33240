"""Which checkpoints lie on a host, which releases refer to them, and the removal of those that none does.

usage: prune list ROOT | prune dry ROOT | prune remove ROOT      one JSON line
A checkpoint counts as used when any release of any deployment below ROOT, the current one or not, names its path, or
when a fetch runs into it. A release whose plan cannot be read stops the pruning, and so does a run that changes a
deployment now: what it will refer to is not written yet. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from slipway.agent.lock import look as look_at_lock
from slipway.agent.state import look, notes_path, read_note

DEAD_S = 3600.0  # a lock without a sign of life for so long is nobody's; rollout.lock_expires_s is 120 by default


class PruneError(Exception):
    """It cannot be told what is in use: a sentence for the operator."""


def checkpoints(root: str) -> list[dict[str, Any]]:
    """Every checkpoint: path, bytes, kind, and the releases that refer to it."""
    users = references(root)
    return [
        {"path": path, "bytes": weight(path), "kind": kind_of(path), "used": users.get(os.path.realpath(path), [])}
        for path in sorted(glob.glob(os.path.join(glob.escape(root), "checkpoints", "*", "*")))
        if os.path.isdir(path) and os.path.basename(os.path.dirname(path)) != "quarantine"
        if os.path.basename(path) != "quarantine" and not path.endswith(".new")  # an upload that is being unpacked
    ]


def references(root: str) -> dict[str, list[str]]:
    """Path -> the releases whose plan names it. Raises PruneError when a plan cannot be read."""
    found: dict[str, list[str]] = {}
    for name, paths in releases_naming(root, named_in):
        for path in paths:
            found.setdefault(os.path.realpath(path), []).append(name)
    return found


def named_in(plan: dict[str, Any]) -> set[str]:
    """Paths of the checkpoints that a plan names, on whatever host."""
    return {host["checkpoint"]["path"] for host in plan["hosts"] if host.get("checkpoint")}


def releases_naming(root: str, named: Callable[[dict[str, Any]], set[str]]) -> Iterator[tuple[str, set[str]]]:
    """DEPLOYMENT/N of every release below ROOT, with what `named` finds in its plan. Raises PruneError."""
    for release in sorted(glob.glob(os.path.join(glob.escape(root), "deployments", "*", "releases", "*"))):
        plan = os.path.join(release, "plan.json")
        try:
            with open(plan, encoding="utf-8") as file:
                what = named(json.load(file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            words = f"{plan} cannot be read ({type(error).__name__}), so what it refers to is unknown"
            raise PruneError(words) from None
        yield "/".join([release.split(os.sep)[-3], release.split(os.sep)[-1]]), what


def kind_of(path: str) -> str:
    """complete or partial when it was fetched, placed when it was sent; a fetch may be running."""
    if being_fetched(path):
        return "fetching"
    return str(look(path)["kind"]) if os.path.isdir(notes_path(path, "")) else "placed"


def being_fetched(path: str) -> bool:
    """Whether a fetch holds the folder."""
    try:
        with open(notes_path(path, "lock"), encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def weight(path: str) -> int:
    """Bytes of all files below."""
    return sum(os.lstat(name).st_size for name in files_below(path))


def files_below(path: str) -> Iterator[str]:
    """Paths of all files."""
    for folder, _, names in os.walk(path):
        for name in names:
            yield os.path.join(folder, name)


def prune(root: str, really: bool) -> list[dict[str, Any]]:
    """Remove what no release refers to; what was, or would be, removed. Raises PruneError before anything is."""
    if not os.path.isdir(os.path.join(root, "checkpoints")):
        raise PruneError(f"{root} has no checkpoints/; ROOT is the folder that holds engines/ and deployments/")
    if really:
        refuse_while_changing(root)
    rows = [row for row in checkpoints(root) if not row["used"] and row["kind"] != "fetching"]
    for row in rows if really else []:
        if read_note(row["path"], "complete"):
            os.unlink(notes_path(row["path"], "complete"))  # half removed is never complete
        shutil.rmtree(row["path"])
    return rows


def refuse_while_changing(root: str) -> None:
    """A deploy writes its release last. Raises PruneError when one may be under way."""
    for folder in sorted(glob.glob(os.path.join(glob.escape(root), "deployments", "*"))):
        found = look_at_lock(folder)
        if found["state"] == "held" and found["silent_s"] < DEAD_S:
            who = f"{found['holder'].get('who', 'somebody')}, last sign of life {found['silent_s']:.0f} s ago"
            name = os.path.basename(folder)
            raise PruneError(f"{name} is being changed ({who}); what it will refer to is not recorded yet, so wait")


def answer(rows: Callable[[], list[dict[str, Any]]]) -> int:
    """Print rows as one JSON line, or why they cannot be had; the exit code."""
    try:
        made = rows()
    except (PruneError, OSError) as error:
        print(f"error: {error}")
        return 1
    print(json.dumps(made))
    return 0


def main(arguments: list[str]) -> int:
    """Answer in one JSON line."""
    action, root = arguments
    return answer(lambda: checkpoints(root) if action == "list" else prune(root, action == "remove"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
