"""Marks a folder as a complete build. usage: seal FOLDER. Standard library only, Python 3.9+."""

from __future__ import annotations

import os
import sys

from slipway.agent.build import write_json
from slipway.agent.state import fingerprint


def main(arguments: list[str]) -> int:
    """Write the marker, last of all files."""
    folder = arguments[0]
    digest, files = fingerprint(folder)
    write_json(os.path.join(folder, "complete"), {"fingerprint": digest, "files": files})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
