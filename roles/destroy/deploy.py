"""Role destroy: stops a deployment and removes everything that Slipway made for it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from functools import partial
from typing import Any

import click
from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.api.host import Host

from roles.inventory import option
from roles.remote import Output, RemoteError, check, ensure_agent, execute
from roles.run import RefusedError, Run
from roles.services import Services
from roles.together import together
from slipway.plan.model import HostPlan
from slipway.services import Supervisor, Systemd

_asked: list[bool] = []


@deploy("Destroy")
def destroy(run: Run) -> None:
    """Ask once, then remove on every host."""
    removal(name="Stop and remove everything of this deployment", run=run)


@operation()
def removal(run: Run) -> Generator[Any, None, None]:
    """Stop the instances, forget them, remove their files; ROOT itself when no other deployment uses it.

    Example: `removal(name="Remove everything of this deployment", run=run)`.
    """
    host = current_host
    plan = run.plan.host(host.name)
    if execute(_real(run, host.name), ["test", "-e", plan.paths["root"]]).ok:
        yield FunctionCommand(_guarded, (run,), {})
    else:
        host.noop(f"{plan.paths['root']} is not there")


def _real(run: Run, name: str) -> Host:
    return run.hosts[name]


def confirm(run: Run) -> None:
    """Destroying is asked for twice: by running this, and by yes. Raises RefusedError."""
    if _asked or option("yes") or option("dry"):
        return
    _asked.append(True)
    hosts = ", ".join(f"{host.name} ({host.paths['root']})" for host in run.plan.hosts)
    click.echo(f"Stop and remove deployment {run.plan.deployment} on {hosts}? [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RefusedError("not confirmed; nothing was removed")


def _guarded(state: Any, host: Host, run: Run) -> bool:
    try:
        _remove(host, run)
    except RemoteError as error:
        logger.error(f"{host.print_prefix}{error}; what is left was not removed")
        return False
    return True


def _remove(host: Host, run: Run) -> None:
    plan, services = run.plan.host(host.name), Services(run, host.name)
    ensure_agent(host, plan)
    _end_check(services)
    names = _instances(run, services)
    routers = [name for name in names if name.startswith("router")]  # first, so that no request is cut short
    for group in (routers, [name for name in names if name not in routers]):
        for name in group:
            logger.info(f"{host.print_prefix}stopping {name}")
        together(partial(services.forget, name) for name in group)
    _definitions(run, services)
    others = _others(host, plan, run.plan.deployment)
    if others:
        doomed = [plan.paths["deployment"]]
        logger.info(f"{host.print_prefix}ROOT stays, {', '.join(others)} uses it")
    else:
        _shut_down(services)
        doomed = [plan.paths["root"]]
    check(host, ["rm", "-rf", "--one-file-system", *doomed])


def _end_check(services: Services) -> None:
    """Periodic verification first: it would start again what it is made of."""
    listed = _lines(execute(services.host, ["ls", services.manager.folder]))
    if set(services.manager.check_names) & set(listed):
        for words in services.manager.check_stop():
            execute(services.host, words)


def _instances(run: Run, services: Services) -> list[str]:
    """What has a definition on the host, in the plan or not."""
    prefix, suffix = f"slipway-{run.plan.deployment}-", services.manager.file_name("").rpartition(".")[2]
    listed = _lines(execute(services.host, ["ls", services.manager.folder]))
    return [
        name[len(prefix) :].rpartition(".")[0]
        for name in listed
        if name.startswith(prefix) and name.endswith(suffix) and name not in services.manager.check_names
    ]


def _definitions(run: Run, services: Services) -> None:
    folder, prefix = services.manager.folder, f"slipway-{run.plan.deployment}"
    doomed = [name for name in _lines(execute(services.host, ["ls", folder])) if _ours(name, prefix)]
    if isinstance(services.manager, Systemd):
        execute(services.host, ["systemctl", "disable", "--quiet", services.manager.target])
    check(services.host, ["rm", "-f", *(f"{folder}/{name}" for name in doomed)])
    if isinstance(services.manager, Systemd):
        check(services.host, ["systemctl", "daemon-reload"])


def _ours(name: str, prefix: str) -> bool:
    return name == f"{prefix}.target" or name.startswith(f"{prefix}-")


def _others(host: Host, plan: HostPlan, deployment: str) -> list[str]:
    parent = plan.paths["deployment"].rpartition("/")[0]
    return [name for name in _lines(execute(host, ["ls", parent])) if name != deployment]


def _lines(output: Output) -> list[str]:
    return [line.strip() for line in output.stdout if line.strip()] if output.ok else []


def _shut_down(services: Services) -> None:
    """The last deployment is gone: supervisord goes too, and is waited for."""
    if isinstance(services.manager, Supervisor):
        pid = execute(services.host, ["cat", f"{services.manager.home}/supervisord.pid"])
        execute(services.host, services.manager.shutdown())
        for number in _lines(pid):
            execute(services.host, ["timeout", "30", "tail", f"--pid={number}", "-f", "/dev/null"])
