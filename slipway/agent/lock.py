"""The lock of a deployment on one host: one run at a time changes it, and a dead run does not hold it for ever.

usage: lock REQUEST, JSON: action (take, beat, hand, release), folder (the deployment's), and
  take     holder ({id, who, ...}), over (id of a lock to be replaced, or ""), make (whether to make the folder)
  beat     id: say that its run is alive
  hand     holder: who keeps the lock under the same id from now on
  release  id, made (folders that `take` made; removed again when nothing came into them)
Prints one JSON line: state (taken, held, absent), holder and silent_s, the seconds since its last sign of life, by
this host's clock. One file, standard library only, Python 3.9+: it runs before anything is on the host.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

NAME = "lock"
ITSELF = {"id": "putback", "who": "the host itself", "what": "puts back what a vanished run was changing"}


@contextlib.contextmanager
def alone(folder: str) -> Iterator[None]:
    """One of these programs at a time; the kernel ends it with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def take(request: dict[str, Any]) -> dict[str, Any]:
    """Have the lock if nobody has it, or who has it is the one to be replaced."""
    folder = request["folder"]
    made = make_folders(folder) if request.get("make", True) else []
    if not os.path.isdir(folder):
        return {"state": "absent", "made": []}
    with alone(folder):
        found = look(folder)
        holder = found["holder"]
        if found["state"] == "held" and holder.get("id") not in (request.get("over") or None, request["holder"]["id"]):
            return found
        if puts_back(folder):
            return {"state": "held", "holder": ITSELF, "silent_s": 0.0}
        write(folder, request["holder"])
        with contextlib.suppress(FileNotFoundError):  # what an earlier run left armed is now for us to mend
            os.unlink(os.path.join(folder, "putback", "armed.json"))
    return {"state": "taken", "made": made}


def puts_back(folder: str) -> bool:
    """Whether this host is putting back what a vanished run left (slipway/agent/putback.py)."""
    try:
        with open(os.path.join(folder, "putback", "acting.json"), encoding="utf-8") as file:
            acting = json.load(file)
        with open(f"/proc/{acting['pid']}/stat", encoding="ascii", errors="replace") as file:
            return bool(file.read().rpartition(")")[2].split()[19] == acting["started"])
    except (OSError, ValueError, KeyError, IndexError):
        return False


def make_folders(folder: str) -> list[str]:
    """Make the folder; those that were not there, the innermost first."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        os.mkdir(path)
        os.chmod(path, 0o755)  # noqa: S103 - as every folder that others read
    return missing


def look(folder: str) -> dict[str, Any]:
    """Who has the lock. One that cannot be read is held by somebody unknown: it was not we who wrote it."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, encoding="utf-8") as file:
            holder = json.load(file)
        silent_s = time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return {"state": "absent", "holder": {}}
    except (OSError, ValueError) as error:
        return {"state": "held", "holder": {"id": "unreadable", "who": f"unknown ({error})"}, "silent_s": age(path)}
    return {"state": "held", "holder": holder, "silent_s": round(silent_s, 1)}


def age(path: str) -> float:
    """Seconds since a file was last written."""
    try:
        return round(time.time() - os.stat(path).st_mtime, 1)
    except OSError:
        return 0.0


def write(folder: str, holder: dict[str, Any]) -> None:
    """Whole or not at all."""
    path = os.path.join(folder, NAME)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(json.dumps(holder) + "\n")
    os.chmod(path + ".new", 0o644)
    os.replace(path + ".new", path)


def beat(request: dict[str, Any]) -> dict[str, Any]:
    """A sign of life, if the lock is still the one with `id`."""
    folder = request["folder"]
    if not os.path.isdir(folder):
        return {"state": "absent", "holder": {}}
    with alone(folder):
        found = look(folder)
        if found["holder"].get("id") != request["id"]:
            return found
        os.utime(os.path.join(folder, NAME))
    return {"state": "taken"}


def hand(request: dict[str, Any]) -> dict[str, Any]:
    """Leave it to another process, if it is still ours; what is armed stays so."""
    folder = request["folder"]
    if not os.path.isdir(folder):
        return {"state": "absent", "holder": {}}
    with alone(folder):
        found = look(folder)
        if found["holder"].get("id") != request["holder"]["id"]:
            return found
        write(folder, request["holder"])
    return {"state": "taken"}


def release(request: dict[str, Any]) -> dict[str, Any]:
    """Give it back, if it is still ours. holder: who has it instead."""
    folder, left = request["folder"], {}
    if os.path.isdir(folder):
        with alone(folder):
            left = look(folder)["holder"]
            if left.get("id") == request["id"]:
                os.unlink(os.path.join(folder, NAME))
                left = {}
        with contextlib.suppress(OSError):  # the first that something came into ends it
            for path in request.get("made", []):
                os.rmdir(path)
    return {"state": "held", "holder": left} if left else {"state": "absent"}


def main(arguments: list[str]) -> int:
    """Do what the request asks for."""
    request = json.loads(arguments[0])
    actions = {"take": take, "beat": beat, "hand": hand, "release": release}
    try:
        print(json.dumps(actions[request["action"]](request)))
    except OSError as error:
        print(json.dumps({"state": "failed", "error": str(error)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
