"""Stops an instance and sees to it that nothing of it stays: no process, no shared memory, no temporary file.

usage: halt < REQUEST, JSON: deployment, instance, service ({manager, name, control}), commands (of the service
manager, in order), patience_s, tmp (folder to empty, or ""). Prints one JSON line. Standard library only, Python 3.9+.

The engine ends by killing itself, its resource tracker included, so what that would have removed stays in
/dev/shm. Files there are known to be ours by their inode, which the live process has mapped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from slipway.agent import supervise
from slipway.agent.state import process_marks

SHARED = "/dev/shm/"  # noqa: S108 - where POSIX semaphores lie


def halt(request: dict[str, Any]) -> dict[str, Any]:
    """Run the manager's commands, then end and remove what they left."""
    inodes = {inode for pid in processes(request) for inode in shared_inodes(pid)}
    service = request.get("service", {})
    if service.get("manager") == "supervisor":
        supervise.stop(service, request["patience_s"])
    failures = [line for command in request["commands"] for line in run(command)]
    left = wait_gone(request, request["patience_s"])
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    removed = list(remove_shared(inodes))
    empty(request.get("tmp", ""))
    return {"killed": left, "removed": removed, "failures": failures, "alive": wait_gone(request, 10.0)}


def processes(request: dict[str, Any]) -> list[int]:
    """Every process that carries the instance's marks, children included."""
    wanted = {"deployment": request["deployment"], "instance": request["instance"]}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and wanted.items() <= process_marks(pid).items() and alive(pid)]


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def shared_inodes(pid: int) -> Iterator[int]:
    """Inodes below /dev/shm that a process has mapped; the name there may be gone already."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split(None, 5)
                if len(fields) == 6 and fields[5].startswith(SHARED):
                    yield int(fields[4])
    except OSError:
        return


def run(command: list[str]) -> Iterator[str]:
    """Run one of the manager's commands; what it said, if it failed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        yield done.stdout.strip()[-300:]


def wait_gone(request: dict[str, Any], patience: float) -> list[int]:
    """Until none of the instance's processes is left; those that are, in the end."""
    end = time.monotonic() + patience
    while True:
        left = processes(request)
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def remove_shared(inodes: set[int]) -> Iterator[str]:
    """Remove what the ended processes had in /dev/shm and nobody has mapped now."""
    wanted = inodes - {inode for name in os.listdir("/proc") if name.isdigit() for inode in shared_inodes(int(name))}
    with contextlib.suppress(OSError):
        for entry in os.scandir(SHARED):
            if entry.inode() in wanted and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                    yield entry.name


def empty(folder: str) -> None:
    """Remove what lies in the instance's own temporary folder."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder) if folder else ():
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def main() -> int:
    """Halt what standard input asks for; 1 when something of it is still alive."""
    result = halt(json.load(sys.stdin))
    print(json.dumps(result))
    return 1 if result["alive"] else 0


if __name__ == "__main__":
    sys.exit(main())
