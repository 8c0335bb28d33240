"""Periodic verification on the router's host: its definitions, what it asks, and its start. It restarts nothing."""

from __future__ import annotations

import json
from typing import Any

from pyinfra.api import deploy
from pyinfra.api.host import Host

from roles.remote import RemoteError, ask_agent, check, execute
from roles.run import Run, current
from roles.services import Services
from roles.steps import converge
from roles.write import write_file
from slipway.converge.change import Change
from slipway.knowledge.log_patterns import matchers
from slipway.plan.model import Instance
from slipway.verify.subjects import Asking, periodic_subject

TIMEOUT_S = 600


@deploy("Periodic verification")
def periodic(run: Run) -> None:
    """Write what it is made of, and start it."""
    converge(name="Set up periodic verification", changes=run.here("verify"), make=_make)


def _make(host: Host, change: Change) -> None:
    manager = Services(current(), host.name).manager
    if change.action == "enable":
        for words in manager.check_start():
            check(host, words)
    elif change.subject.startswith("/"):
        write_file(host, change)
    else:
        _remove(host, current())


def _remove(host: Host, run: Run) -> None:
    service = Services(run, host.name)
    for words in service.manager.check_stop():
        execute(host, words)  # what is not there cannot be stopped
    names = [f"{service.manager.folder}/{name}" for name in service.manager.check_names]
    check(host, ["rm", "-rf", *names, service.plan.paths["verify"]])
    for words in service.manager.reload():
        check(host, words)


def leave_request(run: Run, asking: Asking) -> None:
    """What the periodic look asks is what was just proven; the API key may be in it. Raises RemoteError."""
    for router in run.plan.of("router"):
        plan = run.plan.host(router.host)
        if plan.verify_every_s:
            text = json.dumps(_request(run, router, asking), sort_keys=True)
            row = {"path": f"{plan.paths['verify']}/request.json", "text": text, "mode": "600", "user": plan.user}
            output = ask_agent(run.hosts[router.host], plan, "files", request={"files": [row]})
            if not output.ok:
                raise RemoteError(output.said)


def _request(run: Run, router: Instance, asking: Asking) -> dict[str, Any]:
    manager = run.wanted[router.host].manager
    settings = run.deployment.host(router.host).router
    return {
        "deployment": run.plan.deployment,
        "subjects": [periodic_subject(asking, router, settings)],
        "logs": [{"name": one.name, "source": manager.log_source(one.name)} for one in run.plan.on(router.host)],
        "patterns": list(matchers()),
        "timeout_s": TIMEOUT_S,
    }
