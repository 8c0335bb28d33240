"""Running commands and telling processes apart."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Done = subprocess.CompletedProcess[str]


def run(*command: object, check: bool = True, **options: Any) -> Done:
    """Run a command; stdout and stderr come back as one text, which is in the error when it fails."""
    words = [str(word) for word in command]
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(words)} -> {done.returncode}\n{done.stdout}")
    return done


def until(condition: Callable[[], object], timeout: float, pause: float = 0.02) -> bool:
    """Wait until the condition holds; False when it does not within the time-out."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def identity(pid: int) -> str:
    """'PID START': names one process for good, as a PID alone does not; '' when there is none."""
    with contextlib.suppress(OSError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state == "Z" else f"{pid} {fields[18]}"  # a zombie is no longer there
    return ""


def alive(name: str) -> bool:
    """Is the process that `identity` named still there?"""
    pid = name.partition(" ")[0]
    return pid.isdigit() and identity(int(pid)) == name.strip()


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or none."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.rename(path)
