"""Which builds lie on a host, what refers to each, and the removal of old ones that nothing does.

usage: prune_builds list|dry|remove ROOT KEPT      one JSON line; KEPT: unused builds of each kind that stay, the newest
A build is in use when a release of any deployment below ROOT, the current one or not, names it, when a process runs
from it, or when it is being made. A release whose plan cannot be read stops the pruning. Python 3.9+.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
import time
from typing import Any

from slipway.agent.job import status
from slipway.agent.prune import PruneError, answer, releases_naming, weight


def builds(root: str) -> list[dict[str, Any]]:
    """Every build: id, path, bytes, complete, finished (seconds since 1970), and what uses it."""
    users, running = references(root), running_from(root)
    return [
        {
            "id": name, "path": path, "bytes": weight(path), "complete": os.path.isfile(os.path.join(path, "complete")),
            "finished": finished(path), "used": [*users.get(name, []), *running.get(name, []), *being_made(root, name)],
        }
        for name, path in ((os.path.basename(path), path) for path in folders(root))
    ]  # fmt: skip


def folders(root: str) -> list[str]:
    """Paths of what lies in ROOT/engines, damaged ones that were set aside included."""
    found = glob.glob(os.path.join(glob.escape(root), "engines", "*"))
    return sorted(path for path in found if os.path.isdir(path) and not path.endswith(".uv-cache"))


def references(root: str) -> dict[str, list[str]]:
    """Build -> the releases whose plan names it. Raises PruneError when a plan cannot be read."""
    found: dict[str, list[str]] = {}
    for name, ids in releases_naming(root, named_in):
        for build in ids:
            found.setdefault(build, []).append(f"release {name}")
    return found


def named_in(plan: dict[str, Any]) -> set[str]:
    """Builds that a plan names, on whatever host."""
    names = {build["id"] for host in plan["hosts"] for build in host["builds"]}
    names |= {host["simulator"] for host in plan["hosts"] if host.get("simulator")}
    return names | {instance["build"] for instance in plan["instances"]}


def running_from(root: str) -> dict[str, list[str]]:
    """Build -> processes whose command line has a path below it."""
    found: dict[str, list[str]] = {}
    below = os.path.join(root, "engines") + os.sep
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        for name in {word[len(below) :].split(os.sep)[0] for word in words if word.startswith(below)}:
            found.setdefault(name, []).append(f"process {pid}")
    return found


def being_made(root: str, name: str) -> list[str]:
    """A job that works on it."""
    folder = os.path.join(root, "jobs", name)
    return ["its build job"] if os.path.isdir(folder) and status(folder)["state"] == "running" else []


def finished(path: str) -> float:
    """When the build was completed; of others, when they were last written to."""
    for name in ("complete", "build.json", ""):
        try:
            return os.stat(os.path.join(path, name)).st_mtime
        except OSError:
            continue
    return time.time()


def prune(root: str, kept: int, really: bool) -> list[dict[str, Any]]:
    """Remove what nothing uses but the newest `kept` of a kind; what was, or would be, removed. Raises PruneError."""
    if not os.path.isdir(os.path.join(root, "engines")):
        raise PruneError(f"{root} has no engines/; ROOT is the folder that holds engines/ and deployments/")
    unused: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(builds(root), key=lambda row: -row["finished"]):
        if not row["used"]:
            unused.setdefault(row["id"].partition("-")[0], []).append(row)
    rows = [row for alike in unused.values() for row in alike[kept:]]
    for row in rows if really else []:
        if os.path.isfile(os.path.join(row["path"], "complete")):
            os.unlink(os.path.join(row["path"], "complete"))  # half removed is never complete
        shutil.rmtree(row["path"])
    return rows


def main(arguments: list[str]) -> int:
    """Answer in one JSON line."""
    action, root, kept = arguments
    return answer(lambda: builds(root) if action == "list" else prune(root, int(kept), action == "remove"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
