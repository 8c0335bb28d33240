"""Climbs the verification ladder: worker rungs on each worker's own host, router rungs on the router's.

For whoever must know whether something serves: the end of a deploy, each step of a rollout, what was put back.
It changes nothing, and needs the plan that is to hold, which may be an older release's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
from pyinfra import logger
from pyinfra.api.host import Host

from roles.remote import ask_agent
from roles.run import Run
from roles.services import Services, worker_question
from slipway.config.deployment import Deployment, RouterSettings, VerifySettings
from slipway.converge.wanted import Wanted, wanted_on
from slipway.plan.model import Files, Instance, Plan

WORKERS = ("prefill", "decode", "unified")


@dataclass(frozen=True)
class Row:
    """What one rung found. subject: the instance. seconds: how long it took. answers: question -> text as received."""

    rung: str
    subject: str
    ok: bool
    seconds: float
    detail: str
    answers: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Ladder:
    """What is to hold, and where. wanted: by host, the manager and the configurations that its processes run.

    recorded: the known answers of a release that is put back; None for those of the configuration.
    """

    plan: Plan
    hosts: Mapping[str, Host]
    wanted: Mapping[str, Wanted]
    deployment: Deployment
    sources: Sequence[Path]
    recorded: Sequence[Mapping[str, str]] | None = None

    @property
    def settings(self) -> VerifySettings:
        """How much is asked; one for all hosts."""
        return self.deployment.hosts[0].verify


def ladder_of(run: Run, plan: Plan | None = None, wanted: Mapping[str, Wanted] | None = None) -> Ladder:
    """The ladder of a run's plan, or of another plan on the same hosts (a release that is put back).

    wanted: of that other plan; rendered anew from it when not given.
    """
    sources = [Path(files.source) for files in run.opened.files.values() if isinstance(files, Files)]
    if plan is None:
        return Ladder(run.plan, run.hosts, run.wanted, run.opened.deployment, sources, run.answers)
    rendered = wanted if wanted is not None else {host.name: wanted_on(plan, host.name) for host in plan.hosts}
    return Ladder(plan, run.hosts, rendered, run.opened.deployment, sources, run.answers)


def climb(ladder: Ladder) -> list[Row]:
    """Every rung of every instance; the router's when the workers' hold."""
    rows = climb_workers(ladder, ladder.plan.of(*WORKERS))
    if all(row.ok for row in rows):
        rows += [row for router in ladder.plan.of("router") for row in climb_router(ladder, router)]
    return rows


def climb_workers(ladder: Ladder, instances: Iterable[Instance]) -> list[Row]:
    """The worker rungs of some instances, all at once; of each until its first that does not hold."""
    jobs = [gevent.spawn(_ask, ladder, one, {"workers": [worker_question(ladder, one)]}) for one in instances]
    gevent.joinall(jobs, raise_error=True)
    return [row for job in jobs for row in job.value]


def climb_router(ladder: Ladder, router: Instance) -> list[Row]:
    """A router's rungs: its workers are the plan's, and what comes through it is right."""
    return _ask(ladder, router, {"router": _router_question(ladder, router)})


def show(rows: Iterable[Row]) -> None:
    """The rows as a table."""
    for row in rows:
        mark = "ok  " if row.ok else "FAIL"
        logger.info(f"    {mark} {row.subject:<12} {row.rung:<14} {row.seconds:7.2f} s  {row.detail[:160]}")


def explain(ladder: Ladder, rows: Iterable[Row]) -> None:
    """For each rung that does not hold, the reason in full and the end of the logs of whom it concerns."""
    for row in rows:
        if row.ok:
            continue
        logger.error(f"    verification failed: {row.subject}, rung {row.rung}: {row.detail}")
        everybody = row.subject in {router.name for router in ladder.plan.of("router")}
        for instance in ladder.plan.instances:
            if everybody or instance.name == row.subject:
                _show_log(ladder, instance)


def _show_log(ladder: Ladder, instance: Instance) -> None:
    logger.error(f"    last lines of {instance.name} on {instance.host}:")
    for line in Services(ladder, instance.host).last_lines(instance.name, 10):
        logger.error(f"      {line}")


def _ask(ladder: Ladder, instance: Instance, request: dict[str, Any]) -> list[Row]:
    """Rows of one instance's rungs, climbed on its own host; one that fails when the agent does not answer."""
    output = ask_agent(ladder.hosts[instance.host], ladder.plan.host(instance.host), "verify", request=request)
    rows = [Row(**json.loads(line)) for line in output.stdout if line.startswith("{")]
    return rows or [Row("agent", instance.name, False, 0.0, output.said)]


def _router_question(ladder: Ladder, router: Instance) -> dict[str, Any]:
    served = next(host.checkpoint.served_name for host in ladder.plan.hosts if host.checkpoint)
    expected = {role: [worker.serves_at for worker in ladder.plan.serving(role)] for role in WORKERS}
    return {
        **worker_question(ladder, router),
        "model": served,
        "expected_workers": expected,
        "known_answers": known_answers(ladder),
        "max_tokens": ladder.settings.max_tokens,
        "settle_s": _settle_s(ladder.deployment.host(router.host).router),
    }


def _settle_s(router: RouterSettings) -> int:
    """Seconds after which the router must have seen a worker that came up: two good looks, and a rested circuit."""
    return 4 * router.health_check_interval_s + router.circuit_open_s + 5


def known_answers(ladder: Ladder) -> list[dict[str, str]]:
    """From the release that is put back, the file that the configuration names, or the checkpoint's own."""
    if ladder.recorded is not None:
        return [dict(row) for row in ladder.recorded]
    named = ladder.settings.known_answers
    places = [Path(named)] if named else [source / "known_answers.json" for source in ladder.sources]
    for place in places:
        if place.is_file():
            rows: list[dict[str, str]] = json.loads(place.read_text(encoding="utf-8"))
            return rows
    return []
