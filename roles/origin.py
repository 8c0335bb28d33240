"""Who runs this, from where and when: for locks, releases and the audit."""

from __future__ import annotations

import getpass
import os
import socket
import time
from pathlib import Path
from typing import Any


def who() -> str:
    """The person behind sudo, else the login's name; letters, digits, dashes and dots only."""
    name = os.environ.get("SUDO_USER") or _login()
    return "".join(char for char in name if char.isalnum() or char in "-_.") or "unknown"


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def where() -> str:
    """This machine's name."""
    return socket.gethostname()


def now() -> str:
    """The time, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def process() -> dict[str, Any]:
    """What tells this process from every other one: also where containers share a kernel."""
    return {"pid": os.getpid(), "started": started(os.getpid()), "boot": _boot(), "pids": _pid_namespace()}


def is_gone(other: dict[str, Any]) -> bool:
    """Whether a process is known to have ended: only of one that this machine would see."""
    if not other.get("boot") or (other.get("boot"), other.get("pids")) != (_boot(), _pid_namespace()):
        return False
    return started(int(other.get("pid") or 0)) != other.get("started")


def started(pid: int) -> str:
    """When a process started, in clock ticks since boot; '' when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
