"""What a lab leaves: nothing after down(); after a kill, what sweep() removes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.staging.lab import places
from tests.staging.lab.cgroups import Cgroups
from tests.staging.lab.commands import alive, until
from tests.staging.lab.network import Network


def sweep() -> None:
    """Remove what labs of killed runs left; their processes went with their parents."""
    for owner in places.runs().glob("*/owner"):
        with contextlib.suppress(FileNotFoundError):  # another run sweeps too
            if not alive(owner.read_text()):
                _remove(owner.parent)


def _remove(folder: Path) -> None:
    for listed in folder.glob("*/cgroups"):
        groups = Cgroups("", [Path(line) for line in listed.read_text().splitlines()])
        groups.kill()
        groups.remove()
    for pin in folder.glob("*.netns"):
        Network(pin).remove()
    shutil.rmtree(folder, ignore_errors=True)


def leftovers(prefix: str, groups: list[Path], timeout: float) -> list[str]:
    """Processes, mounts, groups and files of a lab, after giving the dying some time."""
    until(lambda: not list(_find(prefix, groups)), timeout, pause=0.1)
    return list(_find(prefix, groups))


def _find(prefix: str, groups: list[Path]) -> Iterator[str]:
    yield from processes(prefix)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if f"/{prefix}/" in line:
            yield line
    yield from (str(group) for group in groups if group.exists())
    if (folder := places.runs() / prefix).exists():
        yield str(folder)


def processes(prefix: str) -> list[str]:
    """Command lines of all processes in a lab's groups."""
    found = []
    for groups in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            command = groups.with_name("cmdline").read_bytes()
            if command and f"/{prefix}-" in groups.read_text():  # no command line: about to be reaped
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found
