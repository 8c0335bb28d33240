"""Watches instances come up: elapsed time against the budget, the last log line, and early failure."""

from __future__ import annotations

import json
import time
from typing import Any

from pyinfra import logger

from roles.logs import hint
from roles.remote import RemoteError, ask_agent
from roles.run import Run
from roles.services import Services, worker_question
from slipway.plan.model import Instance

POLL_S = 1.0
SAY_EVERY_S = 5.0
COMING = ("process", "ports", "health", "agent")  # rungs that may yet hold while an instance comes up


def wait_started(run: Run, services: dict[str, Services], instances: list[Instance]) -> None:
    """Until each instance's port is open and it says it is healthy; routers too. Raises RemoteError."""
    began, waiting, said = time.monotonic(), list(instances), 0.0
    while waiting:
        elapsed = time.monotonic() - began
        for instance in list(waiting):
            result = _look(run, services[instance.host], instance)
            if result["ok"] or result["rung"] not in COMING:
                logger.info(f"    {instance.host}: {instance.name} is up after {elapsed:.0f} s")
                waiting.remove(instance)
            elif _hopeless(result, elapsed, instance):
                _fail(services[instance.host], instance, result, elapsed)
        if waiting and elapsed - said >= SAY_EVERY_S:
            said = elapsed
            _progress(services, waiting, elapsed)
        time.sleep(POLL_S if waiting else 0)


def _look(run: Run, service: Services, instance: Instance) -> dict[str, Any]:
    """The highest rung that the instance has come to."""
    question = {**worker_question(run, instance), "timeout_s": 20}
    output = ask_agent(service.host, service.plan, "verify", request={"workers": [question]})
    rows = [json.loads(line) for line in output.stdout if line.startswith("{")]
    return rows[-1] if rows else {"rung": "agent", "ok": False, "detail": output.said}


def _hopeless(result: dict[str, Any], elapsed: float, instance: Instance) -> bool:
    """A process that is gone for more than a moment will not come up; a closed port may yet open."""
    dead = result["rung"] == "process" and elapsed > 3 and "starting" not in result["detail"]
    return dead or elapsed > instance.start_budget_s


def _fail(service: Services, instance: Instance, result: dict[str, Any], elapsed: float) -> None:
    logger.error(f"    last lines of {instance.name} on {instance.host}:")
    for line in service.last_lines(instance.name):
        logger.error(f"      {line}")
    said = hint(service, instance.name, within_s=elapsed + 2)
    late = f" (start budget {instance.start_budget_s} s)" if elapsed > instance.start_budget_s else ""
    raise RemoteError(
        f"{instance.name} on {instance.host} did not come up in {elapsed:.0f} s{late}: "
        f"rung {result['rung']}: {result['detail']}" + (f". Its log says: {said}" if said else "")
    )


def _progress(services: dict[str, Services], waiting: list[Instance], elapsed: float) -> None:
    for instance in waiting:
        last = _telling(services[instance.host].last_lines(instance.name))
        budget = f"{elapsed:.0f} of {instance.start_budget_s} s"
        logger.info(f"    {instance.host}: waiting for {instance.name}, {budget}: {last[:110]}")


def _telling(lines: list[str]) -> str:
    """The last line that is not the tail of a warning: those are indented."""
    return next((line for line in reversed(lines) if not line.startswith((" ", "\t"))), "")
