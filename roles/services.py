"""Starts, stops, watches and reads services on hosts, through whichever manager the plan names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from pyinfra import logger
from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, check, execute
from slipway.config.deployment import Deployment
from slipway.converge.wanted import Wanted
from slipway.knowledge.log_patterns import matchers
from slipway.plan.model import HostPlan, Instance, Plan
from slipway.plan.paths import instance_tmp
from slipway.services import Manager, Supervisor
from slipway.verify.subjects import start_subject

# What a manager says of a start that needs no start, or whose end is seen better in the instance's own log.
HARMLESS = ("already started", "spawn error", "abnormal termination", "not loaded")


class Deployed(Protocol):
    """A plan on hosts: that of the run, or of a release that is put back. wanted: what each host must hold, by name."""

    @property
    def plan(self) -> Plan: ...
    @property
    def hosts(self) -> Mapping[str, Host]: ...
    @property
    def wanted(self) -> Mapping[str, Wanted]: ...
    @property
    def deployment(self) -> Deployment: ...


class Services:
    """The services of one host."""

    def __init__(self, deployed: Deployed, name: str) -> None:
        self.host: Host = deployed.hosts[name]
        self.plan: HostPlan = deployed.plan.host(name)
        self.manager: Manager = deployed.wanted[name].manager
        self.deployment = deployed.plan.deployment

    def ready(self) -> None:
        """The manager itself runs and has read the definitions. Raises RemoteError."""
        if isinstance(self.manager, Supervisor) and not self._supervisor_answers():
            check(self.host, ["mkdir", "-p", self.plan.paths["logs"]])
            check(self.host, self.manager.daemon())
        for words in self.manager.reload():
            check(self.host, words)

    def _supervisor_answers(self) -> bool:
        assert isinstance(self.manager, Supervisor)
        return "pid" in self._supervisor_state()

    def _supervisor_state(self) -> dict[str, Any]:
        assert isinstance(self.manager, Supervisor)
        output = execute(self.host, [*self.manager.reload()[0][:-1], "pid"])
        return {"pid": output.stdout[-1]} if output.ok and output.stdout[-1:][0].strip().isdigit() else {}

    def start(self, instance: str) -> None:
        """Start; one that runs is left alone, one that dies at once is for whoever watches. Raises RemoteError."""
        for words in self.manager.start(instance):
            output = execute(self.host, words)
            if not output.ok and not any(text in output.said for text in HARMLESS):
                raise RemoteError(f"{instance} could not be started: {output.said}")

    def stop(self, instance: Instance) -> None:
        """Stop, wait, and leave nothing behind. Raises RemoteError when a process of it will not end."""
        self._halt(instance.name, self.manager.stop(instance.name), instance.drain_s + 20)

    def forget(self, instance: str) -> None:
        """Stop for good an instance that the plan may no longer know. Raises RemoteError."""
        self._halt(instance, self.manager.forget(instance), 120)

    def _halt(self, instance: str, commands: list[list[str]], patience_s: int) -> None:
        request = {
            "deployment": self.deployment,
            "instance": instance,
            "service": {
                "manager": self.manager.kind,
                "name": self.manager.service(instance),
                "control": self.manager.control,
            },
            "commands": commands,
            "patience_s": patience_s,
            "tmp": instance_tmp(self.plan.paths, self.deployment, instance),
        }
        output = ask_agent(self.host, self.plan, "halt", request=request)
        if not output.ok:
            raise RemoteError(f"{instance} could not be stopped: {output.said}")
        if output.stdout and json.loads(output.stdout[-1])["idle"]:
            logger.info(f"    {self.host.name}: {instance} had no request in hand and did not end by itself: killed")

    def read_log(self, instance: str, patterns: bool = True, **request: Any) -> dict[str, Any]:
        """What slipway/agent/logs.py finds in an instance's output; `error` says why it could not look."""
        asked = {
            "source": self.manager.log_source(instance),
            "sealed": [self.manager.secrets_path(instance)],
            "patterns": list(matchers()) if patterns else [],
            **request,
        }
        output = ask_agent(self.host, self.plan, "logs", request=asked)
        nothing = {"lines": [], "last": "", "new": 0, "starts": 0, "matches": {}, "throughput": None, "up_s": None}
        try:
            found: dict[str, Any] = json.loads(output.stdout[-1])
        except (ValueError, IndexError):
            return {**nothing, "cursor": None, "error": output.said}
        return {**nothing, "cursor": None, **found}

    def last_lines(self, instance: str, lines: int = 20) -> list[str]:
        """The end of an instance's output."""
        found: list[str] = self.read_log(instance, patterns=False, lines=lines, max_bytes=256 * 1024)["lines"]
        return found


def worker_question(deployed: Deployed, instance: Instance) -> dict[str, Any]:
    """What the verification agent must know to watch an instance start: its process, its ports, its health."""
    settings = deployed.deployment.hosts[0].verify
    return start_subject(deployed.wanted[instance.host], instance, settings.request_timeout_s)
