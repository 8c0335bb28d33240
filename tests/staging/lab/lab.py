"""Some hosts and the switch between them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from tests.staging.lab import base, places, remains
from tests.staging.lab.commands import Done, identity, run, write_whole
from tests.staging.lab.host import Host
from tests.staging.lab.network import Switch

KEYGEN = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "")


class Lab:
    """A context manager, or up() and down(). `tied`: the hosts die with the process that started them."""

    def __init__(
        self, hosts: dict[str, str], controller: str = "10.77.0.1", prefix: str = "", tied: bool = True
    ) -> None:
        self.prefix = prefix or f"stg{os.getpid()}"
        self.controller, self.tied = controller, tied
        self.dir = places.runs() / self.prefix
        self.base = base.path()
        self.switch = Switch(self.dir / "switch.netns")
        self.key = self.dir / "id_ed25519"
        self.ssh_config = self.dir / "ssh_config"
        self.known_hosts = self.dir / "known_hosts"
        self.hosts = {name: Host(self, name, address) for name, address in hosts.items()}

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __enter__(self) -> Lab:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def hosts_file(self) -> str:
        """/etc/hosts lines by which all find one another."""
        known = [("controller", self.controller), *((h.name, h.ip) for h in self.hosts.values())]
        return "".join(f"{address} {name}\n" for name, address in known)

    def up(self) -> Lab:
        """Build what is missing, clear what killed runs left, boot all hosts."""
        base.build()
        remains.sweep()
        self._claim()
        try:
            self._connect()
            self._each(lambda host: host.start(wait=False))
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """Pull every plug and leave nothing."""
        for host in self.hosts.values():
            host.stop()
            host.network.remove()
        self.switch.remove()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _claim(self) -> None:
        """Make our folder; who owns it is in there from the start, so that sweep() can tell."""
        new = self.dir.with_name(self.prefix + ".new")
        new.mkdir(parents=True)
        if self.tied:
            write_whole(new / "owner", identity(os.getpid()))
        new.rename(self.dir)

    def _connect(self) -> None:
        """Network, keys, and the ssh files that go with them."""
        run(*KEYGEN, "-C", self.prefix, "-f", self.key)
        self.switch.make(self.controller)
        for host in self.hosts.values():
            host.dir.mkdir()
            run(*KEYGEN, "-C", host.name, "-f", host.hostkey)
            host.network.make()
            self.switch.plug(host.network, host.name, host.ip)
        known = (f"{h.name},{h.ip} {h.hostkey.with_suffix('.pub').read_text()}" for h in self.hosts.values())
        self.known_hosts.write_text("".join(known))
        self.ssh_config.write_text(self._ssh_config())

    def _ssh_config(self) -> str:
        """For ssh and pyinfra alike: names, our key, strict host keys, no questions."""
        names = "".join(f"Host {h.name} {h.ip}\n  HostName {h.ip}\n" for h in self.hosts.values())
        return names + (
            f"Host *\n  User root\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
        )

    def _each(self, change: Callable[[Host], object]) -> None:
        """Do it to all hosts, then wait for all: they boot side by side."""
        for host in self.hosts.values():
            change(host)
        for host in self.hosts.values():
            host.wait()

    def reset(self, fresh: bool = False) -> None:
        """All hosts back to their newest snapshot, or as newly installed."""
        self._each(lambda host: host.reset(wait=False, fresh=fresh))

    def snapshot(self) -> None:
        """Freeze the disks of all hosts: reset() comes back to here. Restarts them."""
        self._each(lambda host: host.snapshot(wait=False))

    def rollback(self) -> None:
        """All hosts back to before their newest snapshot."""
        self._each(lambda host: host.rollback(wait=False))

    @property
    def environment(self) -> dict[str, str]:
        """For programs on the controller; the inventory finds keys and ssh files by STAGEHOST_DIR."""
        return {**os.environ, "STAGEHOST_DIR": str(self.dir)}

    def ctl(self, *command: object, check: bool = True, **options: Any) -> Done:
        """Run a command where the controller is: in the switch's namespace."""
        options.setdefault("env", self.environment)
        return run(*self.switch.command(*command), check=check, **options)

    def start(self, *command: object, **options: Any) -> subprocess.Popen[str]:
        """Start a command there; a session of its own, so that it can be killed with its children."""
        options.setdefault("env", self.environment)
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        here = self.switch.command(*command)
        return subprocess.Popen(here, text=True, start_new_session=True, **(streams | options))

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is where the controller is: plain Python sockets reach the hosts."""
        with self.switch.inside():
            yield

    def leftovers(self, timeout: float = 10) -> list[str]:
        """What of this lab is still on the machine."""
        groups = [folder for host in self.hosts.values() for folder in host.cgroups.folders]
        return remains.leftovers(self.prefix, groups, timeout)
