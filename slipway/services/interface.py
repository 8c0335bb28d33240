"""What a role needs of a service manager; a plan does not know which one it is."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.bundle import agent_digest
from slipway.plan.model import HostPlan, Instance
from slipway.render import render


@dataclass(frozen=True)
class Limits:
    """Resource limits that a service asks for, as systemd writes them."""

    memlock: str
    nofile: str


WORKER_LIMITS = Limits(memlock="infinity", nofile="1048576")
ROUTER_LIMITS = Limits(memlock="", nofile="1048576")  # it locks no memory


@dataclass(frozen=True)
class RenderedFile:
    """A text that lies on a host. role: whose file it is. mode: octal, as ls never shows it.

    sealed: it holds secrets, so its text is never shown and never read back; empty when nobody read the secrets.
    """

    path: str
    text: str = field(repr=False)
    mode: str
    user: str
    role: str
    sealed: bool = False

    def differs(self, found: Mapping[str, Any]) -> bool:
        """Whether what a state probe found at the path has another content; never of secrets that nobody read."""
        if self.sealed and not self.text:
            return False
        return bool(found.get("sha256") != hashlib.sha256(self.text.encode()).hexdigest())


class Manager(ABC):
    """Builds the files and command lines of one host's services; runs nothing."""

    kind: str

    def __init__(self, host: HostPlan, deployment: str) -> None:
        self.host = host
        self.deployment = deployment

    def service(self, instance: str) -> str:
        """Name of an instance's service, the same under both managers but for a suffix."""
        return f"slipway-{self.deployment}-{instance}"

    @property
    @abstractmethod
    def folder(self) -> str:
        """Where service definitions lie."""

    @abstractmethod
    def file_name(self, instance: str) -> str:
        """Name of an instance's definition in `folder`."""

    @abstractmethod
    def instance_files(self, instance: Instance, config: str = "") -> list[RenderedFile]:
        """The definition and what it reads, without the environment. config: what the definition says of itself."""

    @abstractmethod
    def host_files(self, instances: tuple[Instance, ...]) -> list[RenderedFile]:
        """What the manager itself needs on the host."""

    @property
    @abstractmethod
    def control(self) -> str:
        """What a state probe must know to ask the manager; '' when nothing."""

    @property
    def companions(self) -> tuple[str, ...]:
        """What else must run and be enabled beside the instances."""
        return ()

    @property
    def reads_again(self) -> bool:
        """Whether the manager keeps definitions in memory until it is told to read them again."""
        return False

    @abstractmethod
    def check_files(self) -> list[RenderedFile]:
        """What periodic verification is made of; empty where none is wanted."""

    @property
    @abstractmethod
    def check(self) -> str:
        """The service that periodic verification runs by."""

    @property
    @abstractmethod
    def check_names(self) -> tuple[str, ...]:
        """Names of its definitions in `folder`, wanted or not."""

    @abstractmethod
    def check_start(self) -> list[list[str]]:
        """Start it anew by its definition, now and at boot."""

    @abstractmethod
    def check_stop(self) -> list[list[str]]:
        """Stop it for good; the files are removed by the caller."""

    def check_command(self) -> list[str]:
        """What it runs."""
        agent = f"{self.host.paths['agent']}/{agent_digest()}.pyz"
        return [self.host.python, agent, "periodic", self.host.paths["verify"]]

    def override_folders(self, instances: tuple[Instance, ...]) -> list[str]:  # noqa: ARG002 - as for enable
        """Folders in which somebody may have overridden what we wrote, without editing it."""
        return []

    @abstractmethod
    def reload(self) -> list[list[str]]:
        """Make the manager read changed definitions; nothing is started or stopped."""

    @abstractmethod
    def start(self, instance: str) -> list[list[str]]:
        """Start now, and at boot where there is one."""

    def enable(self, companion: str) -> list[list[str]]:  # noqa: ARG002 - for managers that have some
        """Start one of `companions`, now and at boot."""
        return []

    @abstractmethod
    def stop(self, instance: str) -> list[list[str]]:
        """Stop, with the time that the definition gives for it."""

    @abstractmethod
    def forget(self, instance: str) -> list[list[str]]:
        """Stop and no longer start at boot; the files are removed by the caller."""

    @abstractmethod
    def log_source(self, instance: str) -> dict[str, str]:
        """Where an instance's output is, as slipway/agent/logs.py takes it."""

    def limits(self, instance: Instance) -> Limits:
        """What its process must be able to have."""
        return ROUTER_LIMITS if instance.role == "router" else WORKER_LIMITS

    def environment_path(self, instance: str) -> str:
        """The instance's environment file."""
        return f"{self.host.paths['services']}/{instance}.env"

    def secrets_path(self, instance: str) -> str:
        """The instance's secrets, which only who starts it can read."""
        return f"{self.host.paths['services']}/{instance}.secret"

    def _file(self, path: str, template: str, role: str, mode: str = "644", **values: Any) -> RenderedFile:
        text = render(template, host=self.host, deployment=self.deployment, manager=self, **values)
        return RenderedFile(path, text, mode, "", role)
