"""Walks the steps of a rollout over the hosts, one after the other, and stops at the first that fails."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyinfra import logger

from roles.ladder import Row, climb, climb_pairs, climb_router, climb_workers, explain, ladder_of, show
from roles.remote import RemoteError, check
from roles.rollout.beside import green_run, write_green
from roles.rollout.start import wait_started
from roles.rollout.traffic import Traffic
from roles.rollout.watch import after_step, before_step
from roles.run import Run, green_due, live_of, policy_of, print_limits, reread, rollout_changes, steps_of
from roles.services import Services
from roles.together import together
from slipway.converge.change import Change
from slipway.plan.model import Instance
from slipway.rollout import Step, only_green


def walk_steps(run: Run) -> list[Row]:
    """Make what runs what the run's plan says, and prove it; the rows of the whole ladder. Raises RemoteError."""
    reread(run, run.wanted)
    pending, found = rollout_changes(run), steps_of(run)
    walk = Walk(run)
    for change in pending:
        walk.on(change.host)
    walk.walk(found)
    for change in pending:
        if change.action == "enable":
            _enable(walk.on(change.host), change)
    walk.settle({one.name for step in found for one in step.instances})
    rows = walk.gate()
    reread(run, run.wanted)
    print_limits(run, walk.services)
    return rows


def unsettled(run: Run) -> list[Instance]:
    """Instances that run but did not listen yet when the host was asked: a crash or a reboot just before us."""
    return [one for one in run.plan.instances if one.serves and not _listens(run, one)]


def _listens(run: Run, instance: Instance) -> bool:
    return all(str(port) in run.states[instance.host]["ports"] for port in instance.ports.values())


def _enable(service: Services, change: Change) -> None:
    logger.info(f"    {service.host.name}: enable {change.data} ({change.reason})")
    for words in service.manager.enable(change.data):
        check(service.host, words)


class RungError(RemoteError):
    """A step was made, and what it started is not as it must be. rows: what was found."""

    def __init__(self, rows: Sequence[Row]) -> None:
        bad = next(row for row in rows if not row.ok)
        super().__init__(f"{bad.subject}, rung {bad.rung}: {bad.detail}")
        self.rows = rows


class Walk:
    """One rollout. Raises RemoteError, RungError among them, where it stops."""

    def __init__(self, run: Run) -> None:
        self.final = run
        self.green = green_due(run)
        self.run = green_run(run, self.green) if self.green else run
        self.policy = policy_of(run)
        self.services: dict[str, Services] = {}
        self.traffic = Traffic(self.run, live_of(run))
        self.held: list[Instance] = []  # a second set that takes over when the first leaves
        self.down: dict[str, float] = {}  # roles that nobody serves, and since when

    def walk(self, steps: Sequence[Step]) -> None:
        """All of them."""
        if steps:
            self.traffic.tidy()
        self.traffic.later = {one.name for step in steps if step.kind == "router" for one in step.instances}
        for number, step in enumerate(steps, 1):
            logger.info(f"    step {number} of {len(steps)}: {step.kind} {', '.join(step.names)}{_why(step)}")
            before_step(self.run, step)
            self._make(step)
            after_step(self.run, step)
        if steps:
            self.traffic.complete(self.final.plan)

    def on(self, host: str) -> Services:
        """The services of one host, whose manager has read its definitions."""
        if host not in self.services:
            self.services[host] = Services(self.run, host)
            self.services[host].ready()
        return self.services[host]

    def _make(self, step: Step) -> None:
        self._begin_outage(step)
        self.traffic.leave(step.leaving, self.policy.drain_s, self.held)
        self.held = []
        if step.kind == "remove":
            self._remove(step)
            return
        if step.kind == "green":
            self._beside(step)
            return
        self._stop(self._came_up(step.instances) if step.kind == "start" else step.instances)
        self._start(step.instances)
        self._enter(step)
        if step.kind in ("router", "join"):
            self.traffic.complete(self.final.plan)
        self._end_outage()
        self.prove_routers()

    def _begin_outage(self, step: Step) -> None:
        if step.outage:
            logger.warning(f"    OUTAGE of {' and '.join(step.outage)} begins: no other serves")
        self.down.update({role: time.monotonic() for role in step.outage if role not in self.down})

    def _end_outage(self) -> None:
        """It is over when each role of the plan is served, through routers that are as the plan has them."""
        if self.down and self._complete() and not self.traffic.unfit():
            lasted = time.monotonic() - min(self.down.values())
            logger.warning(f"    OUTAGE of {' and '.join(self.down)} over: {lasted:.1f} s")
            self.down = {}

    def _beside(self, step: Step) -> None:
        """The second set is proven by all that comes through its own router, before it gets any other traffic."""
        assert self.green is not None
        write_green(self.run, self.final)
        for name in {one.host for one in step.instances}:
            self.on(name).ready()
        self._start(step.instances)
        workers = list(self.green.workers.values())
        self._hold(climb_workers(ladder_of(self.run, light=True), workers))
        plan = only_green(self.final.plan, self.green)
        rows = climb_router(ladder_of(self.run, plan, self.run.wanted), self.green.router)
        show(rows)
        self._hold(rows)
        if self.policy.apart:
            self.held = workers
            return
        self.traffic.enter(workers)
        self.prove_routers()

    def _stop(self, instances: Sequence[Instance]) -> None:
        """All at once: each may take as long as its longest request."""
        calls = [partial(self.on(instance.host).stop, instance) for instance in instances]
        for instance in instances:
            logger.info(f"    {instance.host}: stop {instance.name}")
        together(calls)

    def _came_up(self, instances: Sequence[Instance]) -> list[Instance]:
        """Of those that were down, whom the manager has started, or is about to, with files that we were writing."""
        reread(self.run, {one.host for one in instances})
        return [one for one in instances if self._is_up(one) and not self._as_planned(one)]

    def _is_up(self, instance: Instance) -> bool:
        return bool(self._service(instance)["state"] in ("running", "starting", "restarting"))

    def _as_planned(self, instance: Instance) -> bool:
        return bool(self._service(instance).get("config") == self.run.wanted[instance.host].configs[instance.name])

    def _service(self, instance: Instance) -> Mapping[str, Any]:
        services: Mapping[str, Any] = self.run.states[instance.host]["services"]
        found: Mapping[str, Any] = services[self.run.wanted[instance.host].manager.service(instance.name)]
        return found

    def _start(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            logger.info(f"    {instance.host}: start {instance.name}")
            self.on(instance.host).start(instance.name)
        wait_started(self.run, {one.host: self.on(one.host) for one in instances}, list(instances))

    def _enter(self, step: Step) -> None:
        """Workers get traffic when their own rungs hold."""
        workers = [one for one in step.instances if one.role != "router"]
        self._hold(climb_workers(ladder_of(self.run, light=True), workers))
        if step.kind == "restart" or self.traffic.serving:
            self._prove_pairs(workers)
        for router in step.instances:
            if router.role == "router":
                self.traffic.started(router)
        self.traffic.enter(workers)

    def _prove_pairs(self, workers: Sequence[Instance]) -> None:
        """Known answers from the new workers before they get traffic, each with a partner that serves."""
        fresh = [one for one in workers if one.serves]
        partners = [one for one in self.run.plan.instances if one.serves_at in self.traffic.serving]
        roles = {one.role for one in fresh}
        missing = {"prefill", "decode"} - roles if roles and "unified" not in roles else set()
        chosen = [next((one for one in partners if one.role == role), None) for role in sorted(missing)]
        if not fresh or None in chosen:
            return
        pairs = tuple(one for one in (*fresh, *chosen) if one)
        router = self.run.plan.of("router")[0]
        plan = replace(self.run.plan, instances=(*pairs, router))
        self._hold(climb_pairs(ladder_of(self.run, plan, self.run.wanted), router))

    def prove_routers(self) -> None:
        """The rungs of every router, against the workers that are to get traffic now."""
        self.traffic.rejoin()
        ladder = ladder_of(self.run, self.traffic.as_it_stands(), self.run.wanted, light=True)
        for router in self.traffic.provable() if self._complete() else ():
            self._hold(climb_router(ladder, router))

    def settle(self, seen: set[str]) -> None:
        """Wait for what is still coming up by itself, so that verification asks what can answer."""
        waiting = [instance for instance in unsettled(self.final) if instance.name not in seen]
        wait_started(self.run, {one.host: self.on(one.host) for one in waiting}, waiting)

    def gate(self) -> list[Row]:
        """The whole ladder, shown. Raises RungError."""
        rows = climb(ladder_of(self.final))
        show(rows)
        self._hold(rows)
        return rows

    def _complete(self) -> bool:
        """Whether each role that the plan has is served; else the routers cannot be ready."""
        roles = {one.role for one in self.traffic.serving.values()}
        return roles >= {one.role for one in self.run.plan.serving("prefill", "decode", "unified")}

    def _hold(self, rows: list[Row]) -> None:
        if all(row.ok for row in rows):
            return
        explain(ladder_of(self.run), rows)
        raise RungError(rows)

    def _remove(self, step: Step) -> None:
        calls = [partial(_forget, self.on(one.host), one.name) for one in step.leaving]
        for one in step.leaving:
            logger.info(f"    {one.host}: remove {one.name}")
        together(calls)


def _forget(service: Services, instance: str) -> None:
    service.forget(instance)
    folder, files = service.manager.folder, service.plan.paths["services"]
    doomed = [f"{files}/{instance}.{kind}" for kind in ("env", "run", "secret")]
    check(service.host, ["rm", "-f", f"{folder}/{service.manager.file_name(instance)}", *doomed])


def _why(step: Step) -> str:
    reasons = list(dict.fromkeys(step.reasons.values()))
    return f" ({'; '.join(reasons[:2])})" if reasons else ""
