"""What the lab needs of the machine, and how to get it."""

from __future__ import annotations

import os
import shutil
import sys

from tests.staging.lab import base
from tests.staging.lab.commands import run

# tool -> the Debian package that has it
TOOLS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
BUILD_TOOLS = {"mmdebstrap": "mmdebstrap"}
NAMESPACES = ("--pid", "--fork", "--mount", "--uts", "--ipc", "--net", "--cgroup")


def packages() -> list[str]:
    """Debian packages of the tools that are not there."""
    tools = TOOLS if base.ready() else TOOLS | BUILD_TOOLS
    return sorted({package for tool, package in tools.items() if not shutil.which(tool)})


def missing() -> str:
    """Why staging hosts cannot run here, in one line; '' when they can."""
    if sys.platform != "linux":
        return "staging hosts need Linux"
    if os.geteuid():
        return "staging hosts need root (namespaces, overlay mounts): run the tests as root"
    if lacking := packages():
        return f"staging hosts need {' '.join(lacking)}: apt-get install them, or run `make test`"
    if run("unshare", *NAMESPACES, "true", check=False).returncode:
        return "staging hosts need new namespaces, and this machine refuses them (no CAP_SYS_ADMIN?)"
    if not base.ready() and not base.sources():
        return f"staging hosts need apt sources for {base.SUITE} to build from"
    return ""


def prepare() -> str:
    """Install what is missing and build the base; returns why that was not possible, or ''."""
    lacking = packages()
    if lacking and not os.geteuid() and shutil.which("apt-get"):
        install(lacking)
    if why := missing():
        return why
    if not base.ready():
        print("staging: building the base of the hosts (about a minute, once)", flush=True)
        base.build()
    return ""


def install(names: list[str]) -> None:
    """apt-get install, quietly; with fresh package lists only when the present ones do not do."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ("apt-get", "install", "-qq", "--no-install-recommends", *names)
    print(f"staging: installing {' '.join(names)}", flush=True)
    if run(*command, check=False, env=env).returncode:
        run("apt-get", "update", "-qq", env=env)
        run(*command, env=env)
