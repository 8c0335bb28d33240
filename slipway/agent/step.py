"""Runs the steps of an experiment on the controller: one command at a time, its output kept in a log.

Standard library only, Python 3.9+.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
KEPT = 400  # last lines of a step, which say why it failed


class BusyError(Exception):
    """Somebody else goes through the same experiment."""


class Claim:
    """The sole right to a folder. Steps inherit it, so that one that outlives a killed driver still holds it."""

    def __init__(self, path: str, say: Callable[[str], None]) -> None:
        """Take it, waiting for a step that a killed driver left running. Raises BusyError when a driver runs."""
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._wait(say)
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, str(os.getpid()).encode(), 0)

    def _wait(self, say: Callable[[str], None]) -> None:
        holder = os.pread(self.fd, 32, 0).decode(errors="replace").strip()
        if holder.isdigit() and os.path.exists(f"/proc/{holder}"):
            os.close(self.fd)
            raise BusyError(f"process {holder} goes through this experiment; wait for it, or end it: kill {holder}")
        say("a step that a killed run left is still going; waiting for its end")
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let it go."""
        os.close(self.fd)


def run_logged(
    command: Sequence[str], log: str, show: Callable[[str], None], claim: Any = None, cwd: str = "."
) -> tuple[int, list[str]]:
    """Run a command; its exit status and its last lines. Everything goes to `log`, line by line, and to `show`."""
    kept: deque[str] = deque(maxlen=KEPT)
    fds = (claim.fd,) if claim else ()
    with open(log, "a", encoding="utf-8") as file:
        process = subprocess.Popen(
            list(command), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", pass_fds=fds,
        )  # fmt: skip
        try:
            for line in process.stdout or ():
                plain = COLOURS.sub("", line).rstrip()
                file.write(plain + "\n")
                file.flush()
                kept.append(plain)
                show(plain)
        except KeyboardInterrupt:
            process.wait()  # it got the same interrupt, and says for itself what it leaves
            raise
        return process.wait(), list(kept)
