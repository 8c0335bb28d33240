"""Climbs the verification ladder, each part from the right place: workers on their own hosts, the way to prefill from
each decode's host, what goes through the router on the router's host, and the router as the controller sees it.

For whoever must know whether something serves: the end of a deploy, each step of a rollout, what was put back.
It changes nothing, and needs the plan that is to hold, which may be an older release's.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyinfra import logger
from pyinfra.api.host import Host

from roles.asking import asking_of
from roles.logs import hint, log_marks, log_rows
from roles.remote import ask_agent
from roles.run import Run
from roles.services import Services
from roles.together import together
from slipway.config.deployment import Deployment
from slipway.converge.wanted import Wanted, wanted_on
from slipway.plan.model import Instance, Plan
from slipway.verify import subjects
from slipway.verify.rungs import lenient
from slipway.verify.subjects import WORKERS, Asking

SETTLED = "completion"  # the rung that shows that all have found each other
CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Row:
    """What one rung found. subject: the instance. seconds: how long it took. ok: it does not stand in the way.

    warning: it does not hold, and only warns. answers: question -> text as received.
    """

    rung: str
    subject: str
    ok: bool
    seconds: float
    detail: str
    warning: bool = False
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
    asking: Asking


def ladder_of(
    run: Run, plan: Plan | None = None, wanted: Mapping[str, Wanted] | None = None, light: bool = False
) -> Ladder:
    """The ladder of a run's plan, or of another plan on the same hosts (a release that is put back).

    wanted: of that other plan; rendered anew from it when not given. light: only rungs that cost little, as after
    each step of a rollout. Raises RefusedError when what the ladder is to ask with cannot be read.
    """
    asking = replace(asking_of(run, plan or run.plan), light=light)
    if plan is None:
        return Ladder(run.plan, run.hosts, run.wanted, run.deployment, asking)
    rendered = wanted if wanted is not None else {host.name: wanted_on(plan, host.name) for host in plan.hosts}
    return Ladder(plan, run.hosts, rendered, run.deployment, asking)


def climb(ladder: Ladder) -> list[Row]:
    """Every rung of every instance. What goes through the router is asked when all workers hold."""
    rows = climb_workers(ladder, ladder.plan.of(*WORKERS))
    if not all(row.ok for row in rows):
        return rows
    routers = ladder.plan.of("router")
    logged = bool(ladder.asking.rungs("logs"))
    first = {router.name: climb_until_settled(ladder, router) if logged else [] for router in routers}
    marks = log_marks(ladder, ladder.plan.instances) if logged else {}
    for router in routers:
        settled = all(row.ok for row in first[router.name])
        rows += climb_router(ladder, router) if settled else first[router.name]
        rows += climb_from_here(ladder, router) if all(row.ok for row in rows) else []
    rows += climb_again(ladder, rows)
    return rows + climb_logs(ladder, marks)


def climb_workers(ladder: Ladder, instances: Iterable[Instance]) -> list[Row]:
    """The worker rungs of some instances, all at once, then decode's way to prefill; of each until its first that
    does not hold."""
    asked = [(one, subjects.worker_subject(ladder.asking, ladder.wanted[one.host], one)) for one in instances]
    rows = _ask_all(ladder, asked)
    failed = {row.subject for row in rows if not row.ok}
    decodes = [one for one, _ in asked if one.role == "decode" and one.name not in failed]
    ways = [(one, subjects.decode_subject(ladder.asking, ladder.wanted[one.host], one)) for one in decodes]
    return rows + _ask_all(ladder, [(one, way) for one, way in ways if way])


def climb_router(ladder: Ladder, router: Instance) -> list[Row]:
    """A router's rungs: its workers are the plan's, and what comes through it is right."""
    settings = ladder.deployment.host(router.host).router
    subject = subjects.router_subject(ladder.asking, ladder.wanted[router.host], router, settings)
    return _ask(ladder, router, subject)


def climb_pairs(ladder: Ladder, router: Instance) -> list[Row]:
    """The workers of the ladder's plan in pairs, asked from a router's host and past the router."""
    return _ask(ladder, router, subjects.pairs_subject(ladder.asking, ladder.wanted[router.host], router))


def climb_again(ladder: Ladder, rows: Iterable[Row]) -> list[Row]:
    """Workers after the load: still the same processes."""
    pids = {row.subject: int(row.detail.split()[-1]) for row in rows if row.rung == "process" and row.ok}
    again = [one for one in ladder.plan.of(*WORKERS) if one.name in pids]
    asked = [
        (one, subjects.again_subject(ladder.asking, ladder.wanted[one.host], one, pids[one.name])) for one in again
    ]
    return _ask_all(ladder, asked)


def climb_until_settled(ladder: Ladder, router: Instance) -> list[Row]:
    """A router's rungs up to a first completion, which shows that all have found each other."""
    settings = ladder.deployment.host(router.host).router
    subject = subjects.router_subject(ladder.asking, ladder.wanted[router.host], router, settings)
    names = subject["rungs"]
    until = names[: names.index(SETTLED) + 1] if SETTLED in names else []
    return _ask(ladder, router, {**subject, "rungs": until})


def climb_logs(ladder: Ladder, marks: Mapping[str, Any]) -> list[Row]:
    """What the logs say of it all: a known-bad line behind answers that are right. marks: where each log ended
    when all had found each other."""
    wanted, routers = ladder.asking.rungs("logs"), ladder.plan.of("router")
    if not wanted or not routers:
        return []
    settle = subjects.settle_s(ladder.deployment.host(routers[0].host).router)
    found = log_rows(ladder, ladder.plan.instances, marks, settle)
    warns = "logs" in lenient(wanted, ladder.asking.settings.rungs)
    return [
        Row(**{**row, "ok": row["ok"] or warns, "warning": row["warning"] or (warns and not row["ok"])})
        for row in found
    ]


def climb_from_here(ladder: Ladder, router: Instance) -> list[Row]:
    """The router as the controller sees it; where no way leads there, that is said and is no failure."""
    subject = subjects.controller_subject(ladder.asking, router)
    if not subject["rungs"]:
        return []
    host = urlsplit(subject["url"]).hostname or ""
    if _loopback(host) and not _is_here(ladder.hosts[router.host]):
        where = f"it listens on {host} of {router.host} only, so nothing was asked from here"
        return [Row(subject["rungs"][0], subject["name"], True, 0.0, where)]
    request = json.dumps({"subjects": [subject]})
    command = [sys.executable, "-m", "slipway.agent.verify"]
    done = subprocess.run(command, input=request, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return _rows(subject["name"], done.stdout.splitlines(), done.stderr.strip()[-200:])


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_here(host: Host) -> bool:
    return bool(host.name == "@local" or host.name.startswith("@local/"))


def show(rows: Sequence[Row]) -> None:
    """The rows as a table."""
    width = max((len(row.subject) for row in rows), default=0)
    for row in rows:
        mark = "warn" if row.warning else "ok  " if row.ok else "FAIL"
        logger.info(f"    {mark} {row.subject:<{width}} {row.rung:<13} {row.seconds:7.2f} s  {row.detail[:160]}")


def explain(ladder: Ladder, rows: Iterable[Row]) -> None:
    """For each rung that does not hold, the reason in full and the end of the logs of whom it concerns."""
    for row in rows:
        if row.ok:
            continue
        logger.error(f"    verification failed: {row.subject}, rung {row.rung}: {row.detail}")
        everybody = row.subject.split()[0] in {router.name for router in ladder.plan.of("router")}
        for instance in ladder.plan.instances:
            if everybody or instance.name == row.subject:
                _show_log(ladder, instance)


def _show_log(ladder: Ladder, instance: Instance) -> None:
    service = Services(ladder, instance.host)
    logger.error(f"    last lines of {instance.name} on {instance.host}:")
    for line in service.last_lines(instance.name, 10):
        logger.error(f"      {line}")
    said = hint(service, instance.name, within_s=ladder.asking.settings.log_window_s)
    if said:
        logger.error(f"    its log says: {said}")


def _ask_all(ladder: Ladder, asked: Iterable[tuple[Instance, dict[str, Any]]]) -> list[Row]:
    """Rows of several instances, climbed at the same time."""
    answers = together(partial(_ask, ladder, instance, subject) for instance, subject in asked)
    return [row for rows in answers for row in rows]


def _ask(ladder: Ladder, instance: Instance, subject: dict[str, Any]) -> list[Row]:
    """Rows of one instance's rungs, climbed on its own host; one that fails when the agent does not answer."""
    if not subject["rungs"]:
        return []
    host, plan = ladder.hosts[instance.host], ladder.plan.host(instance.host)
    output = ask_agent(host, plan, "verify", request={"subjects": [subject]})
    return _rows(instance.name, output.stdout, output.said)


def _rows(name: str, lines: Iterable[str], said: str) -> list[Row]:
    rows = [Row(**json.loads(line)) for line in lines if line.startswith("{")]
    return rows or [Row("agent", name, False, 0.0, said)]


def table(ladder: Ladder, rows: Iterable[Row]) -> dict[str, Any]:
    """The rows as data, for a file."""
    listed = [{**vars(replace(row, answers=None))} for row in rows]
    for row in listed:
        del row["answers"]
    return {"deployment": ladder.plan.deployment, "ok": all(row["ok"] for row in listed), "rows": listed}


def known_answers(ladder: Ladder) -> list[dict[str, Any]]:
    """What is asked of it, as a release records it."""
    return [dict(row) for row in ladder.asking.known]
