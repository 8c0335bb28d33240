"""Who gets traffic: takes workers out of the routers, waits for what they have in hand, puts workers in.

Routers are spoken to from their own hosts, as they may listen there alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyinfra import logger

from roles.ladder import ladder_of
from roles.remote import RemoteError, ask_agent
from roles.run import Run
from slipway.plan.model import Instance, Plan
from slipway.plan.urls import url_of
from slipway.rollout import Live

WORKER_TYPES = {"unified": "regular"}  # what smg calls the roles
POLL_S = 0.5
SAY_EVERY_S = 5.0
TOLD_S = 60  # a router takes a worker for healthy within a moment, as the worker is verified before


class Traffic:
    """The running routers of a deployment, and the workers that they are to send to at the moment, by URL."""

    def __init__(self, run: Run, live: Iterable[Live]) -> None:
        self.run = run
        asking = ladder_of(run).asking
        self.access = {"key": asking.key, "ca": asking.ca}
        answers = {one.name: self._listed(one) for one in run.plan.of("router")}
        self.routers = [one for one in run.plan.of("router") if answers[one.name] is not None]
        self.known: dict[str, Mapping[str, Any]] = {name: rows for name, rows in answers.items() if rows is not None}
        self.later: set[str] = set()  # routers that are to be restarted yet
        self.alive = {one.url: one for one in live if one.url and one.role != "router"}
        self.serving = {url: one for url, one in self.alive.items() if one.routed}
        self.bootstrap = {url: row["bootstrap_port"] for rows in self.known.values() for url, row in rows.items()}

    def _listed(self, router: Instance) -> Mapping[str, Any] | None:
        """The workers that a router has; None when it does not run."""
        try:
            return self._tell(router)
        except RemoteError:
            return None

    def tidy(self) -> None:
        """Routers forget workers of which nothing runs any more."""
        for router in self.routers:
            dead = sorted(set(self.known[router.name]) - set(self.alive))
            if dead:
                self._tell(router, remove=dead)

    def rejoin(self) -> None:
        """Live workers that a router has kept on its list serve, though none sent to them when this began.

        Those of a host that was off come up by themselves, and the router's own health checks take them back.
        """
        for router in self.provable():
            back = [url for url in self._listed(router) or () if url in self.alive]
            self.serving = {**{url: self.alive[url] for url in back}, **self.serving}

    def complete(self, plan: Plan) -> None:
        """Every router has the plan's workers and no others. Raises RemoteError when one is not healthy for it."""
        wanted = {one.serves_at: one for one in plan.serving("prefill", "decode", "unified")}
        for router in self.provable():
            known = self._tell(router)
            lacking, surplus = [url for url in wanted if url not in known], [url for url in known if url not in wanted]
            if lacking or surplus:
                specs = [self._spec(Live(wanted[url].name, "", wanted[url].role, url)) for url in lacking]
                self._tell(router, remove=surplus, add=specs)
        self.serving = {url: Live(one.name, one.host, one.role, url) for url, one in wanted.items()}

    def leave(self, leaving: Iterable[Live], limit_s: int, instead: Iterable[Instance] = ()) -> None:
        """No router sends them anything new; then wait for what they have in hand, up to a limit. RemoteError.

        instead: who takes over at that moment, when old and new must not be in a router together.
        """
        workers, fresh = [one for one in leaving if one.url in self.alive], _live(instead)
        for router in self.routers if workers or fresh else ():
            fitting = [self._spec(one) for one in fresh if self._fits(router, one.role)]
            self._tell(router, remove=[one.url for one in workers], add=fitting)
        self._entered(fresh)
        for one in workers:
            self.serving.pop(one.url, None)
        self._drain(workers, limit_s)

    def enter(self, workers: Iterable[Instance]) -> None:
        """Every router sends to them too. Raises RemoteError when one does not take them for healthy."""
        fresh = _live(workers)
        self._entered(fresh)
        for router in self.routers:
            fitting = [self._spec(one) for one in fresh if self._fits(router, one.role)]
            if fitting:
                self._tell(router, add=fitting)

    def _fits(self, router: Instance, role: str) -> bool:
        """A router that runs in the mode of an earlier plan takes no worker of a role that this one brought."""
        roles = {row["role"] for row in self.known.get(router.name, {}).values()}
        return router.name not in self.later or WORKER_TYPES.get(role, role) in roles

    def unfit(self) -> list[Instance]:
        """Routers that cannot send to all that the plan has before they are restarted."""
        roles = {one.role for one in self.run.plan.serving("prefill", "decode", "unified")}
        return [one for one in self.routers if not all(self._fits(one, role) for role in roles)]

    def provable(self) -> list[Instance]:
        """Routers that are as the plan has them; others run their old configuration until they are restarted."""
        return [one for one in self.routers if one.name not in self.later]

    def _entered(self, fresh: Iterable[Live]) -> None:
        self.serving.update({one.url: one for one in fresh})
        self.alive.update(self.serving)

    def started(self, router: Instance) -> None:
        """A router that was started has its workers by its command line."""
        self.later.discard(router.name)
        if router not in self.routers:
            self.routers.append(router)

    def as_it_stands(self) -> Plan:
        """The plan with the workers that are to get traffic now; some may still be as an earlier plan had them."""
        plan = self.run.plan
        by_role = {one.role: one for one in reversed(plan.instances) if one.serves}
        workers = tuple(
            replace(by_role.get(one.role, plan.instances[0]), name=one.name, role=one.role, serves_at=url)
            for url, one in self.serving.items()
        )
        return replace(plan, instances=(*workers, *plan.of("router")))

    # ---- routers

    def _spec(self, one: Live) -> dict[str, Any]:
        """As POST /workers of the router takes it."""
        spec: dict[str, Any] = {"url": one.url, "worker_type": WORKER_TYPES.get(one.role, one.role)}
        planned = next((worker for worker in self.run.plan.instances if worker.serves_at == one.url), None)
        port = planned.ports.get("bootstrap") if planned else self.bootstrap.get(one.url)
        return {**spec, "bootstrap_port": port} if one.role == "prefill" and port else spec

    def _tell(self, router: Instance, **what: Any) -> Mapping[str, Any]:
        host, plan = self.run.hosts[router.host], self.run.plan.host(router.host)
        request = {"url": url_of(router), "timeout_s": TOLD_S, **self.access, **what}
        output = ask_agent(host, plan, "router", request=request)
        try:
            answer: dict[str, Any] = json.loads(output.stdout[-1])
        except (ValueError, IndexError):
            raise RemoteError(f"{router.name} on {router.host} could not be told its workers: {output.said}") from None
        if answer["error"]:
            raise RemoteError(f"{router.name} on {router.host}: {answer['error']}")
        return dict(answer["workers"])

    # ---- requests in hand

    def _drain(self, workers: list[Live], limit_s: int) -> None:
        """Until each says twice that it has nothing in hand: one that was just chosen may still be on its way."""
        began, said, idle = time.monotonic(), 0.0, dict.fromkeys((one.url for one in workers), 0)
        waiting = list(workers)
        while waiting:
            time.sleep(POLL_S)
            counts = {one.url: self._in_hand(one) for one in waiting}
            idle.update({url: idle[url] + 1 if not count else 0 for url, count in counts.items()})
            waiting = [one for one in waiting if idle[one.url] < 2]
            elapsed = time.monotonic() - began
            if waiting and elapsed > limit_s:
                self._late(waiting, counts, limit_s)
                return
            if waiting and elapsed - said >= SAY_EVERY_S:
                said = elapsed
                numbers = ", ".join(f"{one.name} {counts[one.url]}" for one in waiting)
                logger.info(f"    draining, {elapsed:.0f} of {limit_s} s: running requests: {numbers}")

    def _in_hand(self, one: Live) -> int | None:
        """None when it does not tell; then the engine's own end, which waits for its requests, must do."""
        output = ask_agent(self.run.hosts[one.host], self.run.plan.host(one.host), "in_hand", one.url)
        try:
            count: int | None = json.loads(output.stdout[-1])["running"]
        except (ValueError, IndexError, KeyError):
            return None
        return count

    def _late(self, waiting: list[Live], counts: Mapping[str, int | None], limit_s: int) -> None:
        for one in waiting:
            logger.warning(
                f"    {one.name} still has {counts[one.url]} request(s) after rollout.drain_s {limit_s} s: it is told "
                "to stop, and cut when its own drain_s is over too"
            )


def _live(instances: Iterable[Instance]) -> list[Live]:
    """Those that serve, as what runs."""
    return [Live(one.name, one.host, one.role, one.serves_at) for one in instances if one.serves]
