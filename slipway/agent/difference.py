"""Asks the hosts of an inventory for their deployed release and tells what the plan would change in it.

usage: difference PLAYBOOK INVENTORY [PYINFRA OPTIONS]. Runs on the controller, where pyinfra is.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from slipway.agent.drift import said


class DifferenceError(Exception):
    """Why the hosts could not be asked: what pyinfra said."""


def ask(playbook: str, inventory: str, options: list[str]) -> list[str]:
    """Lines of the difference. Raises DifferenceError."""
    with tempfile.TemporaryDirectory(prefix="slipway-difference-") as folder:
        record = os.path.join(folder, "lines.json")
        command = [sys.executable, "-m", "pyinfra", "-y", *options, inventory, playbook]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False,
                              env={**os.environ, "SLIPWAY_DIFFERENCE": record})  # fmt: skip
        try:
            with open(record, encoding="utf-8") as file:
                lines: list[str] = json.load(file)
        except (OSError, ValueError):
            raise DifferenceError(said(done.stdout)) from None
    return lines
