"""Magic rollback: before a step, each host is told how to put back what is about to change; after it, that it holds.

Should this controller vanish in between, the host finishes what it has in hand and, unless it hears a sign of life
within rollout.confirm_s, puts the instances back as the current release has them (slipway/agent/putback.py). A watcher
on the host sees to that: a transient unit under systemd, a detached job elsewhere.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pyinfra import logger

from roles.ladder import ladder_of
from roles.lock import at_end, settings
from roles.remote import RemoteError, agent_command, ask_agent, execute
from roles.run import Run
from roles.services import Services
from roles.together import together
from slipway.plan.model import Instance
from slipway.plan.paths import instance_tmp
from slipway.plan.urls import url_of
from slipway.rollout import Step
from slipway.services import Supervisor

UNKNOWN_BUDGET_S, UNKNOWN_DRAIN_S = 1800, 120  # of instances that the plan does not have any more


def arm(run: Run, step: Step) -> None:
    """Before anything of the step is done. Raises RemoteError when a host cannot watch over it."""
    lock = run.notes.get("lock")
    if not lock:
        return
    if "armed" not in run.notes:
        run.notes["armed"] = set()
        at_end(run, lambda result: _disarm(run, result))
    requests = {host: request for host in run.hosts if (request := _request(run, step, host))}
    answers = _each(requests, lambda host: _asked(run, host, "arm", {**requests[host], "lock": lock.holder["id"]}))
    run.notes["armed"] |= set(requests)
    for host, answer in answers.items():
        if answer.get("error"):
            raise RemoteError(f"{host} cannot watch over the change: {answer['error']}")


def confirm(run: Run) -> None:
    """The step holds. Raises RemoteError when a host has put something back meanwhile."""
    hosts = sorted(run.notes.get("armed", ()))
    answers = _each(hosts, lambda host: _asked(run, host, "confirm"))
    run.notes["armed"] = set()
    back = [f"{host} put back {', '.join(one['back'])}" for host, one in answers.items() if one["back"]]
    if back:
        raise RemoteError(f"{'; '.join(back)}: it had heard nothing of us for {settings(run).confirm_s} s")


def _disarm(run: Run, result: str) -> None:
    """The run ends and says so: its hosts do nothing by themselves then, unless it was cut short or a host is lost.

    Without that host nobody else may be able to put back what another one was changing, so that one does it alone.
    """
    armed = sorted(run.notes["armed"])
    lost = [name for name, host in run.hosts.items() if armed and not execute(host, ["true"]).ok]
    if lost:
        logger.warning(
            f"    {', '.join(lost)} cannot be reached: after {settings(run).confirm_s} s without a sign of life "
            f"{', '.join(armed)} puts back by itself, as the current release has it, what was not proven"
        )
    elif result != "interrupted":
        _each(armed, lambda host: _asked(run, host, "settle"))


def _request(run: Run, step: Step, host: str) -> dict[str, Any]:
    """What the host must know to put back its part of the step; {} when it has none."""
    names = [one.name for one in (*step.instances, *step.leaving) if one.host == host]
    instances = [_instance(run, host, name) for name in dict.fromkeys(names)]
    routers = [one for one in run.plan.of("router") if one.host == host and one.name not in names]
    workers = _workers(run, step, routers)
    if not instances and not workers:
        return {}
    service = Services(run, host)
    return {
        "folder": service.plan.paths["deployment"],
        "deployment": run.plan.deployment,
        "confirm_s": settings(run).confirm_s,
        "watcher": _watcher(run, service),
        "instances": instances,
        "reload": service.manager.reload(),
        "routers": [url_of(one) for one in routers] if workers else [],
        "workers": workers,
        "ca": ladder_of(run).asking.ca,
    }


def _instance(run: Run, host: str, name: str) -> dict[str, Any]:
    service = Services(run, host)
    manager, owner = service.manager, "root" if service.manager.kind == "systemd" else ""
    planned = next((one for one in run.plan.on(host) if one.name == name), None)
    paths = {f"{manager.folder}/{manager.file_name(name)}": "644", manager.environment_path(name): "644"}
    if isinstance(manager, Supervisor):
        paths[manager.run_path(name)] = "755"
    return {
        "name": name,
        "files": [{"path": path, "mode": mode, "user": owner} for path, mode in paths.items()],
        "stop": manager.stop(name),
        "start": manager.start(name),
        "service": {"manager": manager.kind, "name": manager.service(name), "control": manager.control},
        "patience_s": (planned.drain_s if planned else UNKNOWN_DRAIN_S) + 20,
        "budget_s": _budget(planned),
        "tmp": instance_tmp(service.plan.paths, run.plan.deployment, name),
    }


def _budget(planned: Instance | None) -> int:
    return planned.start_budget_s if planned else UNKNOWN_BUDGET_S


def _workers(run: Run, step: Step, routers: list[Instance]) -> list[dict[str, Any]]:
    """The workers that leave the routers for the step, as a router has them now."""
    budgets = {one.serves_at: one.start_budget_s for one in run.plan.instances if one.serves}
    found = []
    for router in routers:
        known = (run.states[router.host].get("routers") or {}).get(router.serves_at) or {}
        for url in (one.url for one in step.leaving if one.url in known):
            spec = {"url": url, "worker_type": known[url]["role"], "budget_s": budgets.get(url, UNKNOWN_BUDGET_S)}
            port = known[url].get("bootstrap_port")
            found.append({**spec, "bootstrap_port": port} if port else spec)
    return found


def _watcher(run: Run, service: Services) -> list[str]:
    """The command that starts the watcher, which outlives this connection."""
    folder, mark = service.plan.paths["deployment"], secrets.token_hex(3)
    watch = agent_command(service.plan, "putback", "watch", folder)
    if service.manager.kind == "systemd":
        unit = f"slipway-{run.plan.deployment}-putback-{mark}"
        about = f"--description=Slipway {run.plan.deployment}: puts back what nobody confirms"
        return ["systemd-run", "--quiet", "--collect", f"--unit={unit}", about, "--", *watch]
    job = f"{service.plan.paths['jobs']}/putback-{run.plan.deployment}"
    return agent_command(service.plan, "job", "start", job, mark, *watch)


def _each(hosts: Iterable[str], ask: Callable[[str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """All hosts at once. Raises the first error."""
    names = list(hosts)
    return dict(zip(names, together(partial(ask, host) for host in names), strict=True))


def _asked(run: Run, host: str, action: str, request: Any = None) -> dict[str, Any]:
    plan = run.plan.host(host)
    words = [action] if request is not None else [action, plan.paths["deployment"]]
    output = ask_agent(run.hosts[host], plan, "putback", *words, request=request)
    try:
        answer: dict[str, Any] = json.loads(output.stdout[-1])
    except (ValueError, IndexError):
        raise RemoteError(f"{host}: putback {action} did not answer: {output.said}") from None
    return answer
