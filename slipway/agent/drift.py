"""Tells whether hosts are as their inventory says: runs a dry run of the deploy and reads which changes it found.

usage: drift DEPLOY INVENTORY [PYINFRA OPTIONS]   DEPLOY: the project's deploy.py. Prints one JSON object, ends with
0 when nothing would change, 2 when something would, 1 when that could not be found out.
Runs on the controller. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any

CONVERGED, FAILED, PENDING = 0, 1, 2
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
PROGRESS = re.compile(r"\s*(-->(?!.*rror)|\[[^]]+\] Connected|Loading: |note:)")  # that pyinfra came this far


def look(deploy: str, inventory: str, options: list[str]) -> dict[str, Any]:
    """exit, changes, and, where it is 1, error: what stood in the way. The hosts are only looked at."""
    with tempfile.TemporaryDirectory(prefix="slipway-drift-") as folder:
        record = os.path.join(folder, "changes.json")
        # -y: pyinfra would ask whether to go on without a host that it cannot reach, and nobody is there to answer.
        command = [sys.executable, "-m", "pyinfra", "-y", "--dry", *options, inventory, deploy]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False,
                              env={**os.environ, "SLIPWAY_CHANGES": record})  # fmt: skip
        changes = read(record)
    if done.returncode or changes is None:
        return {"exit": FAILED, "changes": changes or [], "error": said(done.stdout)}
    return {"exit": PENDING if changes else CONVERGED, "changes": changes}


def pass_on(playbook: str, inventory: str, options: list[str]) -> str | None:
    """Run a playbook that prints its table on stdout; what pyinfra said where it failed, else None.

    Its progress, on stderr, matters only when it is the last thing heard.
    """
    command = [sys.executable, "-m", "pyinfra", "-y", *options, inventory, playbook]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                          check=False)  # fmt: skip
    return said(done.stderr) if done.returncode else None


def read(record: str) -> list[dict[str, Any]] | None:
    """What the dry run recorded; None when it did not come that far."""
    try:
        with open(record, encoding="utf-8") as file:
            changes: list[dict[str, Any]] = json.load(file)
    except (OSError, ValueError):
        return None
    return changes


def said(output: str) -> str:
    """The end of what pyinfra printed, without its own progress."""
    lines = [COLOURS.sub("", line).rstrip() for line in output.splitlines()]
    return "\n".join(line for line in lines if line.strip() and not PROGRESS.match(line))[-3000:]


def main(arguments: list[str]) -> int:
    """Look, print the answer as JSON, and end with its code."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return FAILED
    answer = look(arguments[0], arguments[1], arguments[2:])
    print(json.dumps(answer, indent=1))
    return int(answer["exit"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
