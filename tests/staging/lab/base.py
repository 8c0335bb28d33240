"""The base: the Debian that every host starts from, built once per version of this file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tests.staging.lab import places
from tests.staging.lab.commands import run

SUITE = "bookworm"  # its python3 is 3.11: the wheels of a 3.11 controller fit
PACKAGES = (
    # a host that is reached over SSH
    "systemd-sysv", "dbus", "libpam-systemd", "libnss-systemd", "openssh-server", "sudo", "iproute2",
    "procps", "ca-certificates", "git",
    # what an engine, the router and supervisor need of the host when their wheels come from the controller
    # (no compiler and no headers: a real prefill worker on the CPU, run on a host like this, used neither)
    "python3", "python3-venv", "libibverbs1", "libnuma1", "libcurl4",
)  # fmt: skip
# Units that make no sense in here: no console, no kernel of its own, no way out to the network.
MASKED = (
    "console-getty.service", "getty@.service", "getty.target", "systemd-pstore.service",
    "systemd-remount-fs.service", "systemd-modules-load.service", "systemd-udevd.service",
    "systemd-udev-trigger.service", "systemd-timesyncd.service", "dev-hugepages.mount",
    "sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "proc-sys-fs-binfmt_misc.automount", "e2scrub_reap.service",
    "e2scrub_all.timer", "fstrim.timer", "apt-daily.timer", "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
)  # fmt: skip
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
FILES = {
    "etc/machine-id": "",
    "etc/resolv.conf": "",  # nothing to resolve with: fail at once, as an air-gapped host should
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/ssh/sshd_config.d/lab.conf": "PasswordAuthentication no\nUseDNS no\n",
    "etc/sudoers.d/deploy": "deploy ALL=(ALL) NOPASSWD: ALL\n",
}
APT_SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources")
UNUSED_DAYS = 14


def path() -> Path:
    """Where the base for this version of the recipe is, or will be."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    return places.staging() / f"base-{recipe}"


def ready() -> bool:
    """Is the base built? Its folder gets its name only when it is whole."""
    return path().exists()


def sources() -> list[Path]:
    """The machine's own package sources for the suite, whatever mirror they name."""
    return [p for p in map(Path, APT_SOURCES) if p.exists() and SUITE in p.read_text()]


def build() -> Path:
    """Make sure that the base is there. Two runs at once build it once; a killed build leaves no base."""
    base = path()
    base.parent.mkdir(parents=True, exist_ok=True)
    with _lock(base.with_suffix(".lock")):
        if not base.exists():
            new = base.with_suffix(".building")
            shutil.rmtree(new, ignore_errors=True)  # its mounts went with its builder's namespace
            _debootstrap(new)
            _configure(new)
            new.rename(base)
            _remove_unused(base.parent)
    base.with_suffix(".used").touch()
    return base


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold a lock that the kernel drops when we die."""
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _debootstrap(root: Path) -> None:
    """Unpack Debian, in namespaces of its own: when we die, its processes and its mounts go too."""
    temporary = root.with_suffix(".tmp")  # not in /tmp: a killed build would leave its files there
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    run("setpriv", "--pdeathsig", "KILL",
        "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
        "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=" + ",".join(PACKAGES),
        '--aptopt=Apt::Install-Recommends "false"', "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT),
        SUITE, root, *sources(), env={**os.environ, "TMPDIR": str(temporary)})  # fmt: skip
    shutil.rmtree(temporary)


def _configure(root: Path) -> None:
    """Make a host of it: who may log in, and nothing that waits for hardware or a network."""
    for unit in MASKED:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # each host gets its own
    for name, text in FILES.items():
        (root / name).unlink(missing_ok=True)
        (root / name).write_text(text)
    (root / "etc/sudoers.d/deploy").chmod(0o440)
    run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", "deploy")


def _remove_unused(folder: Path) -> None:
    """Drop bases of older recipes and builds that were killed, but none that another checkout may use."""
    for old in folder.glob("base-*"):
        days = (time.time() - old.stat().st_mtime) / 86400
        if old.suffix in (".building", ".tmp") and days > 1:
            shutil.rmtree(old, ignore_errors=True)
        elif old.suffix == ".used" and days > UNUSED_DAYS:
            shutil.rmtree(old.with_suffix(""), ignore_errors=True)
            old.unlink()
