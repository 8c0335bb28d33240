"""Services under supervisor, where systemd is not PID 1: rented pods, CI machines, laptops."""

from __future__ import annotations

from slipway.plan.model import Instance

from .interface import Manager, RenderedFile


class Supervisor(Manager):
    """One supervisord a host below ROOT/supervisor, one program an instance."""

    kind = "supervisor"

    @property
    def home(self) -> str:
        """supervisord's own folder."""
        return self.host.paths["supervisor"]

    @property
    def folder(self) -> str:
        """Programs, included by supervisord.conf."""
        return f"{self.home}/programs"

    @property
    def control(self) -> str:
        """The socket that supervisord listens on."""
        return f"{self.home}/supervisor.sock"

    @property
    def build(self) -> str:
        """Folder of the environment that supervisord runs from."""
        found = next(build.id for build in self.host.builds if build.kind == "supervisor")
        return f"{self.host.paths['engines']}/{found}/venv/bin"

    def file_name(self, instance: str) -> str:
        """One file a program."""
        return f"{self.service(instance)}.conf"

    def log_path(self, instance: str) -> str:
        """Output of an instance."""
        return f"{self.host.paths['logs']}/{instance}.log"

    def run_path(self, instance: str) -> str:
        """The script that loads the environment and becomes the process."""
        return f"{self.host.paths['services']}/{instance}.run"

    def instance_files(self, instance: Instance, config: str = "") -> list[RenderedFile]:  # noqa: ARG002 - read with each start
        """The program and its start script."""
        role = "router" if instance.role == "router" else "worker"
        program = f"{self.folder}/{self.file_name(instance.name)}"
        return [
            self._file(self.run_path(instance.name), "start.sh.j2", role, "755", instance=instance),
            self._file(program, "program.conf.j2", role, instance=instance),
        ]

    def host_files(self, instances: tuple[Instance, ...]) -> list[RenderedFile]:  # noqa: ARG002 - the interface's
        """supervisord's own configuration."""
        return [self._file(f"{self.home}/supervisord.conf", "supervisord.conf.j2", "host")]

    def check_files(self) -> list[RenderedFile]:
        """A program that looks, sleeps, and looks again."""
        if not self.host.verify_every_s:
            return []
        return [self._file(f"{self.folder}/{self.check_names[0]}", "check.conf.j2", "verify")]

    @property
    def check(self) -> str:
        """The program."""
        return self.service("verify")

    @property
    def check_names(self) -> tuple[str, ...]:
        """Its definition."""
        return (self.file_name("verify"),)

    def check_start(self) -> list[list[str]]:
        """update replaces a changed program, and starts a new one."""
        return [self._ctl("reread"), self._ctl("update", self.check), self._ctl("restart", self.check)]

    def check_stop(self) -> list[list[str]]:
        """Stop and take out."""
        return [self._ctl("stop", self.check), self._ctl("remove", self.check)]

    def _ctl(self, *words: str) -> list[str]:
        return [f"{self.build}/supervisorctl", "-c", f"{self.home}/supervisord.conf", *words]

    def daemon(self) -> list[str]:
        """Start supervisord itself; it goes to the background."""
        return [f"{self.build}/supervisord", "-c", f"{self.home}/supervisord.conf"]

    def shutdown(self) -> list[str]:
        """Stop supervisord and every program of it."""
        return self._ctl("shutdown")

    def reload(self) -> list[list[str]]:
        """reread only: `update` restarts what changed, and when that happens is the rollout's to say."""
        return [self._ctl("reread")]

    def start(self, instance: str) -> list[list[str]]:
        """update takes the program in, or replaces a changed one, and starts it; start is for a stopped one."""
        service = self.service(instance)
        return [self._ctl("update", service), self._ctl("start", service)]

    def stop(self, instance: str) -> list[list[str]]:
        """Waits until the process has ended."""
        return [self._ctl("stop", self.service(instance))]

    def forget(self, instance: str) -> list[list[str]]:
        """Stop and take out."""
        service = self.service(instance)
        return [self._ctl("stop", service), self._ctl("remove", service)]

    def log_source(self, instance: str) -> dict[str, str]:
        """A file, which supervisord rotates."""
        return {"kind": "file", "path": self.log_path(instance)}
