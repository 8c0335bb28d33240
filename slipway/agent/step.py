"""Runs the steps of an experiment on the controller: one command at a time, its output kept in a log.

Standard library only, Python 3.9+.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from slipway.agent.job import started

COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
POLL_S = 0.2
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
        os.pwrite(self.fd, f"{os.getpid()} {started(os.getpid())}".encode(), 0)

    def _wait(self, say: Callable[[str], None]) -> None:
        pid, _, when = os.pread(self.fd, 64, 0).decode(errors="replace").strip().partition(" ")
        if pid.isdigit() and when and started(int(pid)) == when:
            os.close(self.fd)
            raise BusyError(f"process {pid} goes through this experiment; wait for it, or end it: kill {pid}")
        say("a step that a killed run left is still going; waiting for its end")
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let it go."""
        os.close(self.fd)


def run_logged(
    command: Sequence[str], log: str, show: Callable[[str], None], claim: Any = None, cwd: str = ".",
    more: Mapping[str, str] | None = None,
) -> tuple[int, list[str]]:  # fmt: skip
    """Run a command; its exit status and its last lines. Its output goes to `log`, and line by line to `show`.

    more: variables that are put into its environment.

    The command writes to the log itself: it would not outlive its reader, were that a pipe.
    """
    kept: deque[str] = deque(maxlen=KEPT)
    fds = (claim.fd,) if claim else ()
    with open(log, "ab") as out, open(log, encoding="utf-8", errors="replace") as back:
        back.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            list(command), cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, pass_fds=fds,
            env={**os.environ, **(more or {})},
        )  # fmt: skip
        try:
            for line in _lines(process, back):
                kept.append(line)
                show(line)
        except KeyboardInterrupt:
            process.wait()  # it got the same interrupt, and says for itself what it leaves
            raise
        return process.wait(), list(kept)


def _lines(process: subprocess.Popen[bytes], back: IO[str]) -> Iterator[str]:
    """Whole lines as they are written, without colours, until the process has ended and everything is read."""
    rest = ""
    while True:
        ended = process.poll() is not None
        *lines, rest = (rest + back.read()).split("\n")
        yield from (COLOURS.sub("", line).rstrip() for line in lines)
        if ended:
            yield from [COLOURS.sub("", rest)] if rest else []
            return
        time.sleep(POLL_S)
