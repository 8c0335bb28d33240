"""Stops an instance and sees to it that nothing of it stays: no process, no shared memory, no temporary file.

usage: halt < REQUEST, JSON: deployment, instance, service ({manager, name, control}), commands (of the service
manager, in order), patience_s, tmp (folder to empty, or ""), settle_s (how long one that has nothing in hand may take
to end by itself; SETTLE_S unless told). Prints one JSON line. Standard library only, Python 3.9+.

The engine ends by killing itself, its resource tracker included, so what that would have removed stays in
/dev/shm. Files there are known to be ours by their inode, which the live process has mapped.

SGLang 0.5.13 keeps an entry of every request that it refused before its scheduler saw it (too long a prompt, say), and
waits for those when it is told to stop, until whoever told it loses patience (tokenizer_manager.py; 0.5.16 drops them).
So a worker that says that it has nothing in hand, and does not end, is ended: nobody waits for an answer from it. What
/get_load of 0.5.13 leaves out, KV that a prefill still sends, has had SETTLE_S to arrive by then.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from slipway.agent import in_hand, supervise
from slipway.agent.state import KEY_NAME, process_environment, process_marks

SHARED = "/dev/shm/"  # noqa: S108 - where POSIX semaphores lie
SETTLE_S = 12.0  # the engine looks every 5 s whether it may end, the first time up to 5 s after it was told
IDLE_LOOKS = 3  # one after the other, a second apart, in which it has nothing in hand


def halt(request: dict[str, Any]) -> dict[str, Any]:
    """Run the manager's commands, then end and remove what they left."""
    inodes = {inode for pid in processes(request) for inode in shared_inodes(pid)}
    with impatient(request) as idle:
        failures, left = stopped(request)
    kill(left)
    removed = list(remove_shared(inodes))
    empty(request.get("tmp", ""))
    alive = wait_gone(request, 10.0)
    return {"killed": left, "idle": idle, "removed": removed, "failures": failures, "alive": alive}


def stopped(request: dict[str, Any]) -> tuple[list[str], list[int]]:
    """What failed of the manager's commands, and the processes that are still there when patience is over."""
    service = request.get("service", {})
    if service.get("manager") == "supervisor":
        supervise.stop(service, request["patience_s"])
    failures = [line for command in request["commands"] for line in run(command)]
    return failures, wait_gone(request, request["patience_s"])


@contextlib.contextmanager
def impatient(request: dict[str, Any]) -> Iterator[list[int]]:
    """Beside a stop: end the instance once it has nothing in hand and still runs. Gives the processes that were."""
    ended: list[int] = []
    over = threading.Event()
    thread = threading.Thread(target=end_idle, args=(request, worker_of(request), over, ended), daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        over.set()
        thread.join()


def worker_of(request: dict[str, Any]) -> tuple[str, str]:
    """Where the instance is asked what it has in hand, and with which API key, as its processes say.

    The URL is '' for a router, or when none tells.
    """
    for pid in processes(request):
        marks = process_marks(pid)
        if marks.get("url") and marks.get("role") != "router":
            return marks["url"], process_environment(pid).get(KEY_NAME, "")
    return "", ""


def end_idle(request: dict[str, Any], worker: tuple[str, str], over: threading.Event, ended: list[int]) -> None:
    """Kill every process of an instance that says often enough that it has nothing in hand; into `ended`."""
    looks, (url, key) = 0, worker
    if not url or over.wait(request.get("settle_s", SETTLE_S)):
        return
    while looks < IDLE_LOOKS:
        looks = looks + 1 if in_hand.idle(url, key) else 0
        if over.wait(1.0):
            return
    ended += kill(processes(request))


def kill(pids: list[int]) -> list[int]:
    """SIGKILL to each; all of them."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return pids


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
