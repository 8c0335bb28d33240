"""One staging host: power button, disk, network cable, and two ways in."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.staging.lab import disk
from tests.staging.lab.cgroups import Cgroups
from tests.staging.lab.commands import Done, alive, identity, run, until
from tests.staging.lab.network import Network

if TYPE_CHECKING:
    from tests.staging.lab.lab import Lab

INIT = Path(__file__).with_name("host-init")
# The loop is the host's power supply: unshare ends with 129 (SIGHUP) when the host called reboot(2) to
# restart, so boot again on the same disk; anything else is off. pdeathsig ties each process to its parent,
# so kill -9 of the tests takes the hosts with it.
POWER = """
while [ ! -e "$HOST_DIR/off" ]; do
  setpriv --pdeathsig KILL nsenter --net="$HOST_NETNS" unshare --pid --fork --kill-child \\
    --mount --uts --ipc --propagation private "$HOST_INIT"
  rc=$?; echo "ended: $rc"; [ $rc = 129 ] || exit $rc
done
"""
BOOT_TIMEOUT = 180.0  # a boot takes a second; this is for a machine that others keep busy
STOP_TIMEOUT = 60.0


class Host:
    """Start, stop, reset, snapshot, reboot; run commands over ssh, or inside past sshd."""

    def __init__(self, lab: Lab, name: str, address: str) -> None:
        self.lab, self.name, self.ip = lab, name, address
        self.dir = lab.dir / name
        self.network = Network(lab.dir / f"{name}.netns")
        self.cgroups = Cgroups.named(f"{lab.prefix}-{name}")
        self.disk = disk.Disk(self.dir, lab.base)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def hostkey(self) -> Path:
        return self.dir / "hostkey"

    def start(self, wait: bool = True, timeout: float = BOOT_TIMEOUT) -> Host:
        """Power on. Call from the main thread: the host dies with the thread that started it."""
        if self.disk.make():
            key = self.lab.key.with_suffix(".pub")
            disk.seed(self.disk.upper, self.name, self.lab.hosts_file, self.hostkey, key)
        (self.dir / "console.log").touch()
        (self.dir / "off").unlink(missing_ok=True)
        (self.dir / "outer.cgroupns").write_text(str(Path("/proc/self/ns/cgroup").readlink()))
        (self.dir / "cgroups").write_text("\n".join(map(str, self.cgroups.folders)))
        self.cgroups.make()
        tie = ["setpriv", "--pdeathsig", "KILL"] if self.lab.tied else []
        with (self.dir / "power.log").open("a") as log:
            self.process = subprocess.Popen(
                [*tie, "bash", "-c", POWER], env=self._environment(), cwd="/", start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)  # fmt: skip
        (self.dir / "power.pid").write_text(identity(self.process.pid))
        return self.wait(timeout) if wait else self

    def _environment(self) -> dict[str, str]:
        """All that host-init gets to know."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOST_NAME": self.name,
            "HOST_DIR": str(self.dir),
            "HOST_NETNS": str(self.network.pin),
            "HOST_INIT": str(INIT),
            "HOST_LOWER": self.disk.lower,
            "HOST_MODE": self.cgroups.mode,
            "HOST_CGROUPS": " ".join(map(str, self.cgroups.folders)),
            "HOST_V1": " ".join(self.cgroups.v1),
        }

    def wait(self, timeout: float = BOOT_TIMEOUT) -> Host:
        """Until a login by key works and systemd has finished booting."""
        end = time.monotonic() + timeout
        while True:
            state = self._state(max(1.0, end - time.monotonic()))
            if state in ("running", "degraded"):
                return self
            if time.monotonic() > end or not self.powered:
                raise RuntimeError(f"{self.name} did not come up: {state}\n{self._last_words()}")
            time.sleep(0.1)

    def _state(self, timeout: float) -> str:
        """What systemd says of the boot once it is over, or what ssh says while it cannot get there."""
        command, patience = "systemctl is-system-running --wait", ("-o", "ConnectTimeout=10")
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.ssh(command, check=False, options=patience, timeout=timeout).stdout.strip()
        return f"still booting after {timeout:.0f} s"

    def _last_words(self) -> str:
        logs = (self.dir / "power.log", self.dir / "console.log")
        return "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)

    @property
    def powered(self) -> bool:
        """Is the power supply running? (Its host may be just rebooting.)"""
        if self.process:
            return self.process.poll() is None
        pid = self.dir / "power.pid"
        return pid.exists() and alive(pid.read_text())

    def stop(self, clean: bool = False) -> None:
        """Pull the plug (0.1 s), or shut down as an operator would (clean, 1 s)."""
        if clean and self.powered:
            self.enter("systemctl", "poweroff", check=False)
            until(lambda: not self.powered, STOP_TIMEOUT)
        if self.dir.exists():
            (self.dir / "off").touch()  # the loop boots it no more
        if not until(self._kill, STOP_TIMEOUT):
            self._cut()
        self.cgroups.remove()
        self.process = None

    def _kill(self) -> bool:
        """Kill what runs, again and again, as a reboot may be just under way; True when all is off."""
        self.cgroups.kill()
        return not self.powered

    def _cut(self) -> None:
        """The last resort, for a host stuck before it joined its groups: pdeathsig takes the rest."""
        if self.powered:
            os.kill(int((self.dir / "power.pid").read_text().split()[0]), signal.SIGKILL)
            until(lambda: not self.powered, STOP_TIMEOUT)

    def reset(self, wait: bool = True, fresh: bool = False) -> Host:
        """Back to the newest snapshot, or to a new installation if there is none or `fresh` is asked."""
        self.stop()
        while fresh and self.disk.layers:
            self.disk.drop()
        self.disk.wipe()
        return self.start(wait)

    def snapshot(self, wait: bool = True) -> Host:
        """Freeze the disk: reset() comes back to here. A shutdown and a boot; copies nothing."""
        self.stop(clean=True)
        self.disk.snapshot()
        return self.start(wait)

    def rollback(self, wait: bool = True) -> Host:
        """Forget the newest snapshot and go back to what was before it."""
        self.stop()
        self.disk.drop()
        return self.start(wait)

    def reboot(self, timeout: float = BOOT_TIMEOUT) -> Host:
        """A real reboot, asked for from inside."""
        before = self.pid1
        self.enter("systemctl", "reboot", check=False)
        if not until(lambda: self._init() not in ("", before), timeout):
            raise RuntimeError(f"{self.name} did not reboot\n{self._last_words()}")
        return self.wait(timeout)

    def cable(self, plugged: bool) -> None:
        """Pull or plug the network cable, at the switch's end."""
        self.lab.switch.cable(self.name, plugged=plugged)

    def _init(self) -> str:
        """The host's PID 1 as `identity` names it; '' when it is not running."""
        file = self.dir / "init.pid"
        name = file.read_text().strip() if file.exists() else ""
        return name if alive(name) and self._is_ours(name) else ""

    def _is_ours(self, name: str) -> bool:
        """Is the process in this host's groups? Entering a reused PID could hit the machine itself."""
        groups = Path(f"/proc/{name.partition(' ')[0]}/cgroup")
        with contextlib.suppress(OSError):
            return f"/{self.lab.prefix}-{self.name}/" in groups.read_text().replace("\n", "/\n")
        return False

    @property
    def pid1(self) -> str:
        """'PID START' of the host's PID 1, as the machine sees it."""
        if not (name := self._init()):
            raise RuntimeError(f"{self.name} is off")
        return name

    def enter(self, *command: object, check: bool = True, **options: Any) -> Done:
        """Run a command inside as root, past sshd: when the network or ssh is what is being tested."""
        return run("nsenter", "--all", "--target", self.pid1.split()[0], *command, check=check, **options)

    def ssh(
        self, command: str, user: str = "root", check: bool = True, options: tuple[str, ...] = (), **more: Any
    ) -> Done:
        """Run a shell command over ssh, from the controller."""
        ssh = ("ssh", "-F", self.lab.ssh_config, *options, "-l", user, self.name, command)
        return self.lab.ctl(*ssh, check=check, **more)
