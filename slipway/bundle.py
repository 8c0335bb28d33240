"""Packs `slipway.agent` into one file that any Python 3.9 runs: `python3 agent.pyz PROGRAM ARGS`."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_MAIN = '''"""Runs one of Slipway's agent programs: agent.pyz PROGRAM [ARGS]."""
import runpy
import sys

if len(sys.argv) < 2 or not sys.argv[1].isidentifier():
    sys.exit("usage: agent.pyz PROGRAM [ARGS]")
program = sys.argv.pop(1)
runpy.run_module("slipway.agent." + program, run_name="__main__", alter_sys=True)
'''

# A fixed time, so that equal sources give equal bytes and so the same name.
_EPOCH = (2020, 1, 1, 0, 0, 0)


@cache
def agent_bundle() -> bytes:
    """The bundle's bytes; equal sources give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN)
        _add(archive, "slipway/__init__.py", "")
        for name, text in sorted(_sources(resources.files("slipway.agent"), "slipway/agent")):
            _add(archive, name, text)
    return buffer.getvalue()


@cache
def agent_digest() -> str:
    """Twelve hex digits that name the bundle."""
    return hashlib.sha256(agent_bundle()).hexdigest()[:12]


def agent_source(program: str) -> str:
    """Source text of a single-file program, to be run on a host without leaving a file there."""
    return resources.files("slipway.agent").joinpath(f"{program}.py").read_text(encoding="utf-8")


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found.extend(_sources(entry, f"{prefix}/{entry.name}"))
        elif entry.name.endswith(".py"):
            found.append((f"{prefix}/{entry.name}", entry.read_text(encoding="utf-8")))
    return found


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
