"""The disk of one host: an overlay of its changes over snapshots over the base."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

ROOT_USER, DEPLOY_USER = 0, 1000


class Disk:
    """`upper` takes what the host writes; `layers` are its snapshots, newest first."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.folder, self.base = folder, base
        self.layers: list[Path] = []

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def lower(self) -> str:
        """The read-only layers, as overlayfs takes them."""
        return ":".join(map(str, [*self.layers, self.base]))

    def make(self) -> bool:
        """Put in a disk if there is none; True when it is empty and nothing is below it but the base."""
        if self.upper.exists():
            return False
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir()
        self.upper.chmod(0o755)
        return not self.layers

    def wipe(self) -> None:
        """Forget all changes since the newest snapshot."""
        for name in ("upper", "work", "root"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def snapshot(self) -> None:
        """Freeze the changes as a layer of their own: a rename, nothing is copied."""
        layer = self.folder / f"layer{len(self.layers)}"
        self.upper.rename(layer)
        self.layers.insert(0, layer)
        self.wipe()

    def drop(self) -> None:
        """Forget the newest snapshot."""
        shutil.rmtree(self.layers.pop(0))
        self.wipe()


def seed(upper: Path, name: str, hosts: str, hostkey: Path, login: Path) -> None:
    """What a newly installed host has of its own: name, host key, and the keys that may log in."""
    etc = upper / "etc"
    (etc / "ssh").mkdir(parents=True)
    (etc / "hostname").write_text(name + "\n")
    (etc / "machine-id").write_text(uuid.uuid4().hex + "\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n" + hosts)
    install_hostkey(upper, hostkey)
    _let_in(upper / "root", ROOT_USER, login)
    _let_in(upper / "home/deploy", DEPLOY_USER, login)
    for folder in (upper / "home", etc, etc / "ssh"):
        folder.chmod(0o755)


def install_hostkey(root: Path, hostkey: Path) -> None:
    """Give the host this key."""
    for suffix, mode in (("", 0o600), (".pub", 0o644)):
        target = root / f"etc/ssh/ssh_host_ed25519_key{suffix}"
        shutil.copy(hostkey.with_name(hostkey.name + suffix), target)
        target.chmod(mode)


def _let_in(home: Path, user: int, key: Path) -> None:
    """Allow the public key to log in."""
    folder = home / ".ssh"
    folder.mkdir(parents=True)
    shutil.copy(key, folder / "authorized_keys")
    for path, mode in ((home, 0o700), (folder, 0o700), (folder / "authorized_keys", 0o600)):
        path.chmod(mode)
        os.chown(path, user, user)
