"""Services under systemd: one unit an instance, one target for the deployment."""

from __future__ import annotations

from slipway.plan.model import Instance
from slipway.plan.paths import instance_tmp

from .interface import Manager, RenderedFile

HOMES = ("/home/", "/root/", "/run/user/")  # what ProtectHome hides


class Systemd(Manager):
    """Units in /etc/systemd/system."""

    kind = "systemd"

    @property
    def folder(self) -> str:
        """The administrator's units."""
        return "/etc/systemd/system"

    @property
    def control(self) -> str:
        """systemctl finds its manager by itself."""
        return ""

    @property
    def target(self) -> str:
        """The unit that stands for the whole deployment on this host."""
        return f"slipway-{self.deployment}.target"

    @property
    def companions(self) -> tuple[str, ...]:
        """The target: instances start at boot through it."""
        return (self.target,)

    @property
    def reads_again(self) -> bool:
        """By daemon-reload."""
        return True

    def service(self, instance: str) -> str:
        """Unit name."""
        return f"slipway-{self.deployment}-{instance}.service"

    def file_name(self, instance: str) -> str:
        """As the unit."""
        return self.service(instance)

    def instance_files(self, instance: Instance, config: str = "") -> list[RenderedFile]:
        """The unit."""
        template = "router.service.j2" if instance.role == "router" else "worker.service.j2"
        role = "router" if instance.role == "router" else "worker"
        path = f"{self.folder}/{self.service(instance.name)}"
        return [self._file(path, template, role, instance=instance, config=config)]

    def host_files(self, instances: tuple[Instance, ...]) -> list[RenderedFile]:
        """The target."""
        return [self._file(f"{self.folder}/{self.target}", "deployment.target.j2", "worker", instances=instances)]

    def check_files(self) -> list[RenderedFile]:
        """A timer and the service that it starts."""
        if not self.host.verify_every_s:
            return []
        names = zip(self.check_names, ("check.service.j2", "check.timer.j2"), strict=True)
        return [self._file(f"{self.folder}/{name}", template, "verify") for name, template in names]

    @property
    def check(self) -> str:
        """The timer."""
        return f"slipway-{self.deployment}-verify.timer"

    @property
    def check_names(self) -> tuple[str, ...]:
        """Service and timer."""
        return (self.service("verify"), self.check)

    def check_start(self) -> list[list[str]]:
        """A timer that runs keeps its old pace until it is started anew."""
        return [*self.reload(), ["systemctl", "enable", "--quiet", self.check], ["systemctl", "restart", self.check]]

    def check_stop(self) -> list[list[str]]:
        """The timer, then what it may have started; a look that is cut short leaves a failed unit."""
        service = self.service("verify")
        disable = ["systemctl", "disable", "--quiet", "--now", self.check]
        return [disable, ["systemctl", "stop", service], ["systemctl", "reset-failed", service]]

    def root_in_home(self) -> bool:
        """Whether ROOT lies where home folders do."""
        return self.host.paths["root"].startswith(HOMES)

    def writable(self, instance: Instance) -> list[str]:
        """The folders that an instance writes: its build's caches and its temporary files."""
        return [
            f"{self.host.paths['cache']}/{instance.build}",
            instance_tmp(self.host.paths, self.deployment, instance.name),
        ]

    def needs_home(self, instance: Instance) -> bool:
        """Whether something that it reads lies where home folders do."""
        checkpoint = [self.host.checkpoint.path] if self.host.checkpoint and instance.role != "router" else []
        return any(path.startswith(HOMES) for path in [self.host.paths["root"], *checkpoint])

    def override_folders(self, instances: tuple[Instance, ...]) -> list[str]:
        """What `systemctl edit` writes into; drop-ins for all units of a kind are the administrator's own."""
        return [
            f"{self.folder}/{unit}.d" for unit in [*map(self.service, (one.name for one in instances)), self.target]
        ]

    def reload(self) -> list[list[str]]:
        """systemctl daemon-reload."""
        return [["systemctl", "daemon-reload"]]

    def start(self, instance: str) -> list[list[str]]:
        """Enabled first, so that a reboot in between starts it too; --no-block: readiness is ours to judge."""
        unit = self.service(instance)
        return [
            ["systemctl", "reset-failed", unit],
            ["systemctl", "enable", "--quiet", self.target, unit],
            ["systemctl", "start", "--no-block", unit],
        ]

    def enable(self, companion: str) -> list[list[str]]:
        """Its instances run already, so starting the target only says so."""
        return [["systemctl", "enable", "--quiet", companion], ["systemctl", "start", companion]]

    def stop(self, instance: str) -> list[list[str]]:
        """Waits until the unit is down."""
        return [["systemctl", "stop", self.service(instance)]]

    def forget(self, instance: str) -> list[list[str]]:
        """Stop and disable."""
        return [["systemctl", "disable", "--quiet", "--now", self.service(instance)]]

    def log_source(self, instance: str) -> dict[str, str]:
        """The journal."""
        return {"kind": "journal", "unit": self.service(instance)}
