"""Writes text files whole or not at all. usage: files < REQUEST, JSON: {"files": [{path, text, mode, user}]}.

Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from typing import Any


def write(row: dict[str, Any]) -> None:
    """Write one file beside its place, give it owner and mode, then rename it over what was there."""
    path = row["path"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.isdir(path) and not os.path.islink(path):
        raise OSError(f"{path} is a folder; move it away")
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(row["text"])
        file.flush()
        os.fsync(file.fileno())
    own(path + ".new", row)
    os.replace(path + ".new", path)


def write_whole(path: str, text: str) -> None:
    """A text file that is there whole or not at all, whoever reads when, and on the disk before it counts."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def own(path: str, row: dict[str, Any]) -> None:
    """Owner and mode as asked; without root the owner is who we are."""
    os.chmod(path, int(row["mode"], 8))
    if os.geteuid() == 0 and row.get("user"):
        entry = pwd.getpwnam(row["user"])
        os.chown(path, entry.pw_uid, entry.pw_gid)


def point(link: str, target: str) -> None:
    """Make `link` point at `target`, in one step."""
    if os.path.isdir(link) and not os.path.islink(link):
        shutil.move(link, link + ".was")
    if os.path.lexists(link + ".new"):
        os.unlink(link + ".new")
    os.symlink(target, link + ".new")
    os.replace(link + ".new", link)


def main() -> int:
    """Write everything that is asked for."""
    request = json.load(sys.stdin)
    try:
        for row in request.get("files", []):
            write(row)
        for link, target in request.get("links", {}).items():
            point(link, target)
    except (OSError, KeyError) as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
