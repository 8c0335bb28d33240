"""The control groups of one host: one folder in each hierarchy, below our own."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
V1 = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")


def _own() -> dict[str, str]:
    """Our place in each hierarchy: memory, for one, need not be at its root."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controller, path = line.split(":", 2)
        own[controller.removeprefix("name=") or "unified"] = path.lstrip("/")
    return own


class Cgroups:
    """Made before a host boots, removed when it is off."""

    def __init__(self, mode: str, folders: list[Path]) -> None:
        self.mode = mode
        self.folders = folders

    @classmethod
    def named(cls, name: str) -> Cgroups:
        """The groups of a host; 'unified' where the machine has cgroup v2 only, else 'hybrid'."""
        if (ROOT / "cgroup.controllers").exists():
            return cls("unified", [ROOT / name])
        own = _own()
        present = [c for c in (*V1, "systemd", "unified") if c in own and (ROOT / c).exists()]
        return cls("hybrid", [ROOT / c / own[c] / name for c in present])

    @property
    def v1(self) -> list[str]:
        """The v1 controllers that the host gets."""
        return [c for c in V1 if any((ROOT / c) in folder.parents for folder in self.folders)]

    def make(self) -> None:
        """Create them; a new v1 cpuset is empty, and no process may join it before it is filled."""
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
            if (folder / "cpuset.cpus").exists() and not (folder / "cgroup.kill").exists():
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (folder / name).write_text((folder.parent / name).read_text())

    def kill(self) -> None:
        """Kill all that is in them: by group, so it hits nobody else's process."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                if (folder / "cgroup.kill").exists():
                    (folder / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Remove them, waiting for processes that are still dying."""
        for top in self.folders:
            for folder, _, _ in os.walk(top, topdown=False):
                _rmdir(folder)


def _rmdir(folder: str) -> None:
    """Remove one group; it is busy until its last process is gone."""
    for _ in range(250):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return
