"""Appends lines to a deployment's audit.jsonl, which says who did what, and never grows beyond two files.

usage: audit REQUEST, JSON: folder (the deployment's), lines (objects). Where there is no such folder nothing is
written. One file, standard library only, Python 3.9+: it runs before anything is on the host.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

NAME = "audit.jsonl"
MOST_BYTES = 1 << 20  # of one file; the one before is kept as audit.jsonl.1
MOST_CHARACTERS = 2000  # of one value: a reason, not a log


def append(request: dict[str, Any], most: int = MOST_BYTES) -> None:
    """Add the lines in one write; a full file makes room for a new one. most: bytes of one file."""
    folder = request["folder"]
    if not os.path.isdir(folder):
        return
    path = os.path.join(folder, NAME)
    text = "".join(json.dumps(shortened(line), sort_keys=False) + "\n" for line in request["lines"]).encode()
    if os.path.exists(path) and os.path.getsize(path) + len(text) > most:
        os.replace(path, path + ".1")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def shortened(line: dict[str, Any]) -> dict[str, Any]:
    """The same with long texts cut."""
    return {key: value[:MOST_CHARACTERS] if isinstance(value, str) else value for key, value in line.items()}


def main(arguments: list[str]) -> int:
    """Append what the request holds."""
    try:
        append(json.loads(arguments[0]))
    except OSError as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
