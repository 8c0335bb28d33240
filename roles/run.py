"""One run of pyinfra: the facts of all hosts, the plan made from them once, and each host's changes.

deploy.py is executed for each host in parallel; whoever comes first does this for all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import gevent
from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import state
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host

from roles.inventory import opened_inventory, option
from roles.probe import Probe
from roles.remote import BROKEN, DYING_S, broken, execute, is_dead
from roles.secrets import SecretsError, read_secrets
from roles.standing import unreachable
from slipway.builds.locking import LockError, lock_builds
from slipway.config.deployment import Deployment
from slipway.converge.change import Change
from slipway.converge.clock import clock_findings
from slipway.converge.compare import changes_on, release_number
from slipway.converge.limits import limit_findings
from slipway.converge.request import state_request
from slipway.converge.wanted import Wanted, wanted_on
from slipway.finding import Finding
from slipway.front import Opened
from slipway.plan.facts import HostFacts, read_facts
from slipway.plan.model import HostPlan, Plan, to_json
from slipway.report import finding_lines
from slipway.rollout import (
    Green,
    Live,
    Policy,
    Step,
    apart,
    green_of,
    left_behind,
    replaced_workers,
    step_lines,
    steps,
    with_room,
)


class RefusedError(PyinfraError):
    """The run stops before anything is changed."""


@dataclass
class Run:
    """What all roles share in one run.

    past: number of the release whose plan this is; 0 for the plan of the configuration. answers: the known answers
    that were recorded with it. record: its plan as recorded. before: the recorded plan of what
    serves; None for that of the current release.
    """

    plan: Plan
    opened: Opened
    facts: dict[str, HostFacts]
    wanted: dict[str, Wanted]
    changes: dict[str, list[Change]]
    hosts: dict[str, Host]
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    past: int = 0
    answers: list[dict[str, str]] | None = None
    before: Mapping[str, Any] | None = None
    record: Mapping[str, Any] | None = None

    def here(self, role: str) -> list[Change]:
        """Changes of one role on the host that deploy.py is being executed for."""
        return [change for change in self.changes[current_host.name] if change.role == role]

    @property
    def host_plan(self) -> HostPlan:
        """The plan's part for the host that deploy.py is being executed for."""
        return self.plan.host(current_host.name)

    @property
    def deployment(self) -> Deployment:
        """What was configured."""
        return self.opened.deployment

    def pending(self) -> list[Change]:
        """All changes of all hosts."""
        return [change for changes in self.changes.values() for change in changes]


_lock = BoundedSemaphore(1)
_started: list[Run] = []


def current() -> Run:
    """The run, made on first use. Raises RefusedError when a host or the plan has errors."""
    with _lock:
        if not _started:
            run = _gather(locking=True)
            _started.append(run)
            _refuse_errors(run.plan)
            _unseal(run)
            refresh(run)
            _show(run)
    return _started[0]


def inspect() -> Run:
    """The run without its demands: for playbooks that look at or remove what a plan with errors left behind."""
    with _lock:
        if not _started:
            run = _gather()
            _started.append(run)
            try:
                _unseal(run)
            except RefusedError as error:  # who only looks need not have them
                run.notes["sealed"] = str(error).partition("\n")[0]
    return _started[0]


def _gather(locking: bool = False) -> Run:
    """Facts of all hosts, and the plan made from them. locking: packages that have no lock yet get one first."""
    hosts = {host.name: host for host in state.inventory}
    opened = opened_inventory(Path(current_host.data.slipway_inventory))
    _refuse_unreachable(hosts, opened.deployment)
    probes = _ask(hosts, {name: ("hardware", {}) for name in hosts})
    facts = {name: read_facts(probe) for name, probe in probes.items()}
    opened = _locked(opened, facts) if locking else opened
    plan = opened.plan(facts)
    return Run(plan, opened, facts, {name: wanted_on(plan, name) for name in hosts}, {}, hosts)


def _locked(opened: Opened, facts: dict[str, HostFacts]) -> Opened:
    try:
        return lock_builds(opened, facts, lambda line: click.echo(f"--> Slipway: {line}", err=True))
    except (LockError, OSError) as error:
        fix = "slipway resolve does it where there is a network, and the lock is committed; or set engine.lock"
        words = f"the engine's packages cannot be locked: {error}\n    hint: {fix}"
        raise RefusedError(f"{words}\nnothing was changed") from None


def _unseal(run: Run) -> None:
    """Render anew with the secrets, which only a deploy needs."""
    try:
        secrets = read_secrets(run.plan, run.opened.inventory.parent)
    except SecretsError as error:
        raise RefusedError(f"{error}\nnothing was changed") from None
    if secrets:
        run.wanted = {name: wanted_on(run.plan, name, secrets) for name in run.wanted}


def _refuse_errors(plan: Plan) -> None:
    for line in finding_lines(plan.findings):
        click.echo(line, err=True)
    if plan.errors:
        raise RefusedError(f"the plan has {len(plan.errors)} error(s), printed above; nothing was changed")


def _refuse_unreachable(hosts: dict[str, Host], deployment: Deployment) -> None:
    """A plan for half the hosts would wire prefill to a decode that is not there.

    Hosts outside --limit are asked too, as the plan is one for all of them, but not changed.
    """
    failed = {host.name for host in state.failed_hosts}
    missing = sorted(failed or {name for name in hosts if not _connected(hosts[name])})
    if missing:
        raise RefusedError(unreachable(hosts, deployment, missing))


def _connected(host: Host) -> bool:
    if not host.connected and not state.is_host_in_limit(host):
        host.connect(show_errors=True)
    return bool(host.connected)


def refresh_once(run: Run) -> None:
    """As refresh, for a playbook that is executed once a host; whoever comes first does it for all."""
    with _lock:
        if not run.states:
            refresh(run)


def refresh(run: Run) -> None:
    """Ask every host for its state again and compare. What lies outside --limit is looked at and left."""
    reread(run, run.wanted)
    run.before = None  # another run may have made another release since
    number = release_number(run.plan, run.states)
    for name, found in run.states.items():
        changes = changes_on(run.plan, run.wanted[name], run.facts[name], found, None if run.past else number)
        inside = state.is_host_in_limit(run.hosts[name])
        run.changes[name] = changes if inside else []
        if changes and not inside:
            click.echo(f"--> {name} is outside --limit: {len(changes)} change(s) there are left", err=True)


def left(run: Run, name: str) -> list[Change]:
    """What a deploy would still change on one host now; for reading back what was just changed."""
    reread(run, [name])
    return changes_on(run.plan, run.wanted[name], run.facts[name], run.states[name], None if run.past else 1)


def reread(run: Run, names: Iterable[str]) -> None:
    """Ask some hosts for their state again, without comparing. Raises RefusedError when one does not answer."""
    began = time.time()
    found = _ask(run.hosts, _state_questions(run, names))
    ended = time.time()
    for name, there in found.items():
        there["clock"] = list(clock_findings(name, there["now"], began, ended))
    run.states.update(found)


def reread_what_answers(run: Run) -> dict[str, str]:
    """Ask every host for its state again; by host, why those that did not answer did not. Their old state stays."""
    answers = _answers(run.hosts, _state_questions(run, run.wanted))
    run.states.update({name: answer for name, answer in answers.items() if _is_answer(answer)})
    return {name: str(answer or "no answer") for name, answer in answers.items() if not _is_answer(answer)}


def _state_questions(run: Run, names: Iterable[str]) -> dict[str, tuple[str, Any]]:
    return {name: ("state", state_request(run.plan, run.wanted[name])) for name in names}


def live_of(run: Run) -> list[Live]:
    """What runs now, on all hosts; a process that does not say where it serves is where the plan has it."""
    planned = {(one.host, one.name): one for one in run.plan.instances}
    routers = [known for there in run.states.values() for known in there["routers"].values() if known is not None]
    found = []
    for host, state_there in run.states.items():
        for name, marks in state_there["live"].items():
            plan = planned.get((host, name))
            role = marks.get("role") or (plan.role if plan else name.partition("-")[0])
            url = marks.get("url", plan.serves_at if plan and "role" not in marks else "")
            routed = all(known.get(url, {}).get("healthy") for known in routers)
            found.append(Live(name, host, role, url, routed))
    return found


def policy_of(run: Run) -> Policy:
    """How the rollout is to go about it; one for all hosts."""
    settings = run.deployment.hosts[0].rollout
    strategy = "rolling" if run.past and settings.strategy == "blue-green" else settings.strategy
    return Policy(strategy, settings.skew, settings.drain_s, _apart(run))


def _apart(run: Run) -> tuple[str, ...]:
    """Why old and new workers must not meet, when both halves of pairs are to be replaced."""
    replaced = {one.role for one in replaced_workers(run.plan, rollout_changes(run))}
    if not replaced >= {"prefill", "decode"}:
        return ()
    if run.before is None:
        run.before = _current_plan(run)
    return apart(run.before, run.record or to_json(run.plan)) if run.before else ()


def _current_plan(run: Run) -> Mapping[str, Any]:
    """As the first host that has a current release recorded it; {} when none has."""
    for host in run.plan.hosts:
        output = execute(run.hosts[host.name], ["cat", f"{host.paths['deployment']}/current/plan.json"])
        try:
            found: dict[str, Any] = json.loads("\n".join(output.stdout)) if output.ok else {}
        except ValueError:
            found = {}
        if found:
            return found
    return {}


def steps_of(run: Run) -> tuple[Step, ...]:
    """The steps that the pending changes ask for."""
    return steps(run.plan, rollout_changes(run), live_of(run), policy_of(run), green_due(run))


def green_due(run: Run) -> Green | None:
    """The second set that a blue-green rollout needs, if any. Raises RefusedError where there is no room for it."""
    blues = replaced_workers(run.plan, rollout_changes(run))
    if policy_of(run).strategy != "blue-green" or not blues:
        return None
    doubled = replace(run.opened, deployment=with_room(run.deployment, run.plan, blues)).plan(run.facts)
    router = run.deployment.host(run.plan.of("router")[0].host).router
    found = green_of(run.plan, doubled, blues, router, run.deployment.hosts[0].rollout.green_port)
    if isinstance(found, Finding):
        raise RefusedError("\n".join([*finding_lines([found]), "nothing that serves was touched"]))
    return found


def rollout_changes(run: Run) -> list[Change]:
    """Pending changes that touch what serves."""
    return [one for one in run.pending() if one.role == "rollout" and not one.subject.startswith("release")]


def print_limits(run: Run, names: Iterable[str]) -> None:
    """Warn of limits that running instances asked for and did not get."""
    for name in names:
        for line in finding_lines(limit_findings(run.plan, run.wanted[name], run.states[name])):
            click.echo(line, err=True)


def _ask(hosts: dict[str, Host], questions: dict[str, tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    """One probe a host, all at once. Raises RefusedError naming every host that did not answer."""
    answers = _answers(hosts, questions)
    silent = {name: str(answer or "no answer") for name, answer in sorted(answers.items()) if not _is_answer(answer)}
    if silent:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in silent.items())
        alive = [name for name in silent if not is_dead(hosts[name])]
        fix = "; every host needs Python 3.9 or newer" if alive else ""
        raise RefusedError(f"could not ask what is there ({reasons}){fix}")
    return answers


def _answers(hosts: dict[str, Host], questions: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    jobs = {
        name: gevent.spawn(_answer, hosts[name], program, request) for name, (program, request) in questions.items()
    }
    gevent.joinall(list(jobs.values()))
    return {name: job.value for name, job in jobs.items()}


def _answer(host: Host, program: str, request: Any) -> Any:
    """The probe's answer; the reason, as text, why there is none."""
    try:
        found = host.get_fact(Probe, program=program, request=json.dumps(request))
    except (*BROKEN, PyinfraError) as error:
        return broken(host, error) if isinstance(error, BROKEN) else str(error) or type(error).__name__
    return found or (broken(host, "no sign of life") if is_dead(host, DYING_S) else found)


def _is_answer(answer: Any) -> bool:
    return bool(answer) and isinstance(answer, dict)


def _show(run: Run) -> None:
    """Print what will change, with the reasons; record it where `slipway drift` asked for it."""
    pending = run.pending()
    print_limits(run, run.states)
    for line in finding_lines([*(one for there in run.states.values() for one in there["clock"]), *_left(run)]):
        click.echo(line, err=True)
    for change in pending:
        click.echo(f"    [{change.host}] {change}", err=True)
        if change.diff and (option("dry") or option("diff")):
            click.echo("\n".join(f"        {line}" for line in change.diff.splitlines()), err=True)
    click.echo(f"--> Slipway: {len(pending)} change(s) on {len(run.hosts)} host(s)", err=True)
    for line in step_lines(steps_of(run), policy_of(run)):
        click.echo(f"    {line}", err=True)
    _record(pending)
    refused = [change for change in pending if change.action == "refuse"]
    if refused:
        raise RefusedError(f"{len(refused)} of them cannot be made, see above; nothing was changed")


def _left(run: Run) -> list[Finding]:
    """Hosts that the current release has and the plan has not, when another release is to be made."""
    if not any(one.subject.startswith("release") for one in run.pending()):
        return []
    run.before = _current_plan(run)
    return list(left_behind(run.before, run.plan))


def _record(pending: list[Change]) -> None:
    target = os.environ.get("SLIPWAY_CHANGES")
    if target:
        rows = [
            {key: getattr(change, key) for key in ("host", "role", "action", "subject", "reason", "diff")}
            for change in pending
        ]
        Path(target).write_text(json.dumps(rows), encoding="utf-8")
