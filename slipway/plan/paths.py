"""Where things lie on a host: the one place that knows the layout."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.config.deployment import HostSettings

from .facts import HostFacts

SYSTEM_ROOT = "/opt/slipway"
USER_ROOT = ".local/share/slipway"


def host_root(settings: HostSettings, facts: HostFacts) -> str:
    """ROOT of the host layout: as configured, else by what the login may write."""
    if settings.root is None:
        return SYSTEM_ROOT if facts.superuser else f"{facts.home}/{USER_ROOT}"
    if settings.root.startswith("~/"):
        return f"{facts.home}/{settings.root[2:]}"
    return settings.root.rstrip("/")


def host_paths(root: str, deployment: str) -> dict[str, str]:
    """All folders of a host, by name."""
    home = f"{root}/deployments/{deployment}"
    return {
        "root": root,
        "agent": f"{root}/agent",
        "uploads": f"{root}/uploads",
        "tmp": f"{root}/tmp",  # noqa: S108 - our own
        "engines": f"{root}/engines",
        "jobs": f"{root}/jobs",
        "checkpoints": f"{root}/checkpoints",
        "deployment": home,
        "services": f"{home}/services",
        "releases": f"{home}/releases",
        "cache": f"{home}/cache",
        "logs": f"{home}/logs",
        "verify": f"{home}/verify",
        "supervisor": f"{root}/supervisor",
    }


def key_adder(paths: Mapping[str, str]) -> str:
    """The file that gives a program its API key, so that it is in no command line."""
    return f"{paths['services']}/keyed.py"


def instance_tmp(paths: Mapping[str, str], deployment: str, instance: str) -> str:
    """An instance's TMPDIR. Short, as the engine's sockets lie in it and a socket's path has 107 characters."""
    return f"{paths['tmp']}/{deployment}-{instance}"
