"""Detached jobs: started once per key, they outlive the connection, and are looked at until they end.

usage: job start DIR KEY COMMAND...   start, unless a job with this key runs or has ended well
       job status DIR                 one JSON line: state, rc, seconds, last line of the log
       job stop DIR                   end the job and what it started
       job running PARENT             one JSON line: the status of every job below PARENT that runs, by name

DIR holds key, pid, log and, once ended, rc. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any


def start(folder: str, key: str, command: list[str]) -> dict[str, Any]:
    """Start `command` detached, unless the job with `key` is running or done; returns its status."""
    now = status(folder)
    if now.get("key") == key and (now["state"] == "running" or now.get("rc") == 0):
        return now
    if now["state"] == "running":
        stop(folder)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o755)
    write(folder, "key", key)
    detach(folder, command)
    return wait_started(folder)


def detach(folder: str, command: list[str]) -> None:
    """Fork twice, so that the job is nobody's child and no terminal's."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        run(folder, command)
    finally:
        os._exit(0)


def run(folder: str, command: list[str]) -> None:
    """The detached half: runs the command with its output in DIR/log, then writes DIR/rc."""
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, descriptor)
    os.closerange(3, 1024)
    write(folder, "pid", f"{os.getpid()} {started(os.getpid())}")
    try:
        rc = subprocess.call(command)
    except OSError as error:
        print(f"cannot run {command[0]}: {error}", flush=True)
        rc = 127
    write(folder, "rc", str(rc))


def wait_started(folder: str) -> dict[str, Any]:
    """Until the job has written its pid, which takes a moment."""
    for _ in range(250):
        if os.path.exists(os.path.join(folder, "pid")):
            break
        time.sleep(0.02)
    return status(folder)


def status(folder: str) -> dict[str, Any]:
    """state: absent, running, done or lost (its process is gone and left no rc)."""
    pid, _, began = read(folder, "pid").partition(" ")
    rc = read(folder, "rc")
    if not read(folder, "key"):
        return {"state": "absent"}
    alive = bool(pid) and started(int(pid)) == began != ""
    state = "done" if rc else "running" if alive else "lost"
    return {
        "state": state,
        "key": read(folder, "key"),
        "rc": int(rc) if rc else None,
        "pid": int(pid or 0),
        "seconds": round(time.time() - os.path.getmtime(os.path.join(folder, "key")), 1),
        "last": last_line(folder),
    }


def running(parent: str) -> dict[str, Any]:
    """Status of each job below `parent` that runs now, by the name of its folder."""
    names = sorted(os.listdir(parent)) if os.path.isdir(parent) else []
    found = {name: status(os.path.join(parent, name)) for name in names}
    return {name: one for name, one in found.items() if one["state"] == "running"}


def stop(folder: str) -> None:
    """End the job's whole session: TERM, and after ten seconds KILL."""
    now = status(folder)
    if now["state"] != "running":
        return
    for sign, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(os.getpgid(now["pid"]), sign)
        except OSError:
            return
        end = time.monotonic() + patience
        while time.monotonic() < end and status(folder)["state"] == "running":
            time.sleep(0.05)


def last_line(folder: str) -> str:
    """The last line of the log that says something, without control characters."""
    try:
        with open(os.path.join(folder, "log"), "rb") as file:
            file.seek(max(0, os.path.getsize(file.name) - 4096))
            text = file.read().decode("utf-8", "replace").replace("\r", "\n")
    except OSError:
        return ""
    lines = ["".join(char for char in line if char.isprintable()).strip() for line in text.splitlines()]
    return next((shown(line) for line in reversed(lines) if line), "")


def shown(line: str) -> str:
    """Of progress the end counts; of an error the beginning, which says what failed."""
    return line[:1800] if line.startswith("error: ") else line[-300:]


def started(pid: int) -> str:
    """When a process started, in clock ticks; '' if there is none. With the pid it names one process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def read(folder: str, name: str) -> str:
    """Text of DIR/name; '' when there is none."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def write(folder: str, name: str, text: str) -> None:
    """Whole or not at all."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def main(arguments: list[str]) -> int:
    """Run one call; answers are one JSON line."""
    action, folder = arguments[0], arguments[1]
    if action == "start":
        print(json.dumps(start(folder, arguments[2], arguments[3:])))
    elif action == "status":
        print(json.dumps(status(folder)))
    elif action == "stop":
        stop(folder)
        print(json.dumps(status(folder)))
    elif action == "running":
        print(json.dumps(running(folder)))
    else:
        print(f"job: unknown action {action}; must be start, status, stop or running", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
