"""Prints what a command prints, as JSON, whatever bytes it prints. usage: logs COMMAND...

Log lines are not always UTF-8, and a connection that meets such a line loses all of them or hangs.
Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import subprocess
import sys


def main(arguments: list[str]) -> int:
    """One JSON list of lines; an empty one when the command cannot be run."""
    try:
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False)
        text = done.stdout[-200_000:].decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    print(json.dumps([line.rstrip() for line in text.splitlines() if line.strip()]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
