"""Role verify: climbs the ladder after every deploy, on each worker's host and then on the router's."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import logger, state
from pyinfra.api import FunctionCommand, deploy, operation

from roles.remote import ask_agent
from roles.run import Run
from roles.services import Services, worker_question
from roles.verify.summary import print_at_exit
from slipway.config.deployment import RouterSettings
from slipway.plan.model import Files, Instance

_lock = BoundedSemaphore(1)


@deploy("Verify")
def verify(run: Run) -> None:
    """Prove that the deployment serves what the plan says; changes nothing."""
    ladder(name="Verify the deployment", run=run)


@operation()
def ladder(run: Run) -> Generator[Any, None, None]:
    """Climb once for all hosts; a no-op when every rung holds, a failure otherwise.

    Example: `ladder(name="Verify the deployment", run=run)`.
    """
    if not state.is_executing:  # a dry run asks nothing of what serves
        current_host.noop("verification changes nothing")
        return
    with _lock:
        if "verified" not in run.notes:
            run.notes["verified"] = _climb(run)
    if run.notes["verified"]:
        current_host.noop("every rung holds")
    else:
        yield FunctionCommand(_failed, (), {})


def _failed(state: Any, host: Any) -> bool:
    return False


def _climb(run: Run) -> bool:
    jobs = [gevent.spawn(_ask, run, instance, None) for instance in run.plan.of("prefill", "decode", "unified")]
    gevent.joinall(jobs, raise_error=True)
    results = [row for job in jobs for row in job.value]
    if all(row["ok"] for row in results):
        answers = _known_answers(run)
        results += [row for router in run.plan.of("router") for row in _ask(run, router, answers)]
    _show(results)
    bad = [row for row in results if not row["ok"]]
    for row in bad:
        _explain(run, row)
    if not bad:
        answers = next((row["answers"] for row in results if "answers" in row), {})
        print_at_exit(run.plan, str(run.opened.inventory), answers)
    return not bad


def _ask(run: Run, instance: Instance, answers: list[dict[str, str]] | None) -> list[dict[str, Any]]:
    """Results of one instance's rungs, climbed on its own host."""
    service, question = Services(run, instance.host), worker_question(run, instance)
    request = {"workers": [question]} if answers is None else {"router": _router_question(run, question, answers)}
    output = ask_agent(service.host, service.plan, "verify", request=request)
    rows = [json.loads(line) for line in output.stdout if line.startswith("{")]
    nothing = {"rung": "agent", "subject": instance.name, "ok": False, "seconds": 0.0, "detail": output.said}
    return rows or [nothing]


def _router_question(run: Run, question: dict[str, Any], answers: list[dict[str, str]]) -> dict[str, Any]:
    served = next(host.checkpoint.served_name for host in run.plan.hosts if host.checkpoint)
    roles = ("prefill", "decode", "unified")
    expected = {role: [worker.serves_at for worker in run.plan.serving(role)] for role in roles}
    settings = run.opened.deployment.host(run.plan.of("router")[0].host)
    more = {"max_tokens": settings.verify.max_tokens, "settle_s": _settle_s(settings.router)}
    return {**question, "model": served, "expected_workers": expected, "known_answers": answers, **more}


def _settle_s(router: RouterSettings) -> int:
    """Seconds after which the router must have seen a worker that came up: two good looks, and a rested circuit."""
    return 4 * router.health_check_interval_s + router.circuit_open_s + 5


def _known_answers(run: Run) -> list[dict[str, str]]:
    """From the file that the configuration names, else the checkpoint's own."""
    named = run.opened.deployment.hosts[0].verify.known_answers
    sources = [Path(files.source) for files in run.opened.files.values() if isinstance(files, Files)]
    places = [Path(named)] if named else [source / "known_answers.json" for source in sources]
    for place in places:
        if place.is_file():
            rows: list[dict[str, str]] = json.loads(place.read_text(encoding="utf-8"))
            return rows
    return []


def _show(results: list[dict[str, Any]]) -> None:
    for row in results:
        mark = "ok  " if row["ok"] else "FAIL"
        logger.info(f"    {mark} {row['subject']:<12} {row['rung']:<14} {row['seconds']:7.2f} s  {row['detail'][:160]}")


def _explain(run: Run, row: dict[str, Any]) -> None:
    """The reason in full and the end of the log of whoever it concerns."""
    logger.error(f"    verification failed: {row['subject']}, rung {row['rung']}: {row['detail']}")
    concerned = [
        instance
        for instance in run.plan.instances
        if instance.name == row["subject"] or row["subject"].startswith("router")
    ]
    for instance in concerned:
        logger.error(f"    last lines of {instance.name} on {instance.host}:")
        for line in Services(run, instance.host).last_lines(instance.name, 10):
            logger.error(f"      {line}")
