"""In which order instances are started, restarted and removed, and what must go together.

Prefill comes before the decodes that hold state on it, one worker of a role at a time where the role has a second;
those that have no second go together, in one announced outage instead of several, and so do all when old and new must
not meet. Routers come when all that they are given to wait for is there, and before what goes: they may send to it
until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slipway.converge.change import Change
from slipway.plan.model import Instance, Plan

from .green import SUFFIX, Green
from .model import Live, Policy, Step

WORKERS = ("prefill", "decode", "unified")


def due_instances(plan: Plan, changes: Iterable[Change]) -> dict[str, Change]:
    """Starts and restarts by instance. The ranks of one worker find each other at start: if one is due, all are."""
    due = {change.data.name: change for change in changes if change.action in ("start", "restart")}
    leaders = {instance.leader for instance in plan.instances if instance.name in due}
    for instance in plan.instances:
        if instance.leader in leaders and instance.name not in due:
            reason = f"another rank of {instance.leader} is started anew"
            subject = f"instance {instance.name}"
            due[instance.name] = Change(instance.host, "rollout", "restart", subject, reason, data=instance)
    return due


def steps(
    plan: Plan, changes: Sequence[Change], live: Sequence[Live], policy: Policy, green: Green | None = None
) -> tuple[Step, ...]:
    """The whole rollout. changes: of all hosts. live: what runs now, on whichever host. green: the second set of the
    workers that are replaced, where the strategy is blue-green."""
    return tuple(_Order(plan, changes, live, policy, green).steps())


def replaced_workers(plan: Plan, changes: Sequence[Change]) -> list[Instance]:
    """Every rank of the workers that serve and are to be started anew."""
    due = due_instances(plan, changes)
    leaders = {one.data.leader for one in due.values() if one.action == "restart" and one.data.role in WORKERS}
    return [one for one in plan.instances if one.leader in leaders]


class _Order:
    """What the steps are worked out from; `standing` are the workers that serve at that point, by role."""

    def __init__(
        self, plan: Plan, changes: Sequence[Change], live: Sequence[Live], policy: Policy, green: Green | None
    ) -> None:
        self.plan, self.live, self.policy, self.green = plan, live, policy, green
        self.due = due_instances(plan, changes)
        gone = {(change.host, change.data) for change in changes if change.action == "remove"}
        self.gone = [one for one in live if (one.host, one.name) in gone]
        self.missing = [Live(name, host, "", "") for host, name in sorted(gone) if not self._runs(host, name)]
        self.joins = [change for change in changes if change.action == "update" and change.role == "rollout"]
        self.standing = {role: self._standing(role) for role in WORKERS}

    def _runs(self, host: str, name: str) -> bool:
        return any((one.host, one.name) == (host, name) for one in self.live)

    def _standing(self, role: str) -> set[tuple[str, str]]:
        down = {(one.data.host, one.data.name) for one in self.due.values() if one.action == "start"}
        return {(one.host, one.name) for one in self.live if one.role == role and one.url and one.routed} - down

    def steps(self) -> Iterator[Step]:
        """Room is made, what is down starts, what is there already is replaced, what is left over goes."""
        early = [one for one in self.gone if self._in_the_way(one)]
        yield from self._removals([*self.missing, *early])
        yield from self._starts()
        yield from self._restarts()
        yield from self._join()
        yield from self._routers()
        planned = {one.role for one in self.plan.instances}
        self.standing = {role: serving for role, serving in self.standing.items() if role in planned}
        yield from self._removals([one for one in self.gone if one not in early])

    # ---- what comes and goes

    def _in_the_way(self, gone: Live) -> bool:
        """Whether something that is to be started on its host may need its GPUs or its port."""
        if self.green and gone.name.endswith(SUFFIX):
            return True  # of a run that died: this one makes its own
        starting = [
            change.data
            for change in self.due.values()
            if change.action == "start" and change.host == gone.host and change.data.role != "router"
        ]
        return any(one.gpus or gone.url.endswith(f":{one.ports.get('http')}") for one in starting)

    def _removals(self, gone: Sequence[Live]) -> Iterator[Step]:
        for leader, host in dict.fromkeys((one.leader, one.host) for one in gone):
            ranks = tuple(one for one in gone if (one.leader, one.host) == (leader, host))
            reasons = {one.name: "the plan no longer has it" for one in ranks}
            yield Step("remove", (), ranks, reasons, self._without(ranks))
            self._leave(ranks)

    def _starts(self) -> Iterator[Step]:
        """What is down has nothing to lose: all of it at once."""
        down = tuple(rank for ranks in self._down() for rank in ranks)
        if down and not self._meets_old():
            yield Step("start", down, (), self._reasons(down))
            self._enter(down)

    def _restarts(self) -> Iterator[Step]:
        serving = self._replaced()
        beside = self._beside(serving)
        yield from beside[:1]
        for group in self._groups(serving):
            instances = tuple(rank for ranks in group for rank in ranks)
            leaving = self._live_of(instances)
            yield Step("restart", instances, leaving, self._reasons(instances), self._without(leaving))
            self._leave(leaving)
            self._enter(instances)
        yield from beside[1:]

    def _beside(self, serving: list[list[Instance]]) -> list[Step]:
        """How the second set comes, and how it goes again."""
        if not self.green or not serving:
            return []
        workers, router = tuple(self.green.workers.values()), self.green.router
        self._enter(workers)
        passing = tuple(Live(one.name, one.host, one.role, one.serves_at) for one in (*workers, router))
        reasons = {one.name: "it stands in while others are replaced" for one in (*workers, router)}
        return [Step("green", (*workers, router), (), reasons), Step("remove", (), passing, reasons)]

    def _groups(self, serving: list[list[Instance]]) -> Iterator[list[list[Instance]]]:
        """Workers that go together."""
        if self._meets_old():
            serving = [*serving, *self._down()]
        if self.policy.strategy == "recreate" or self.policy.apart or self.green:
            yield from [serving] if serving else []
            return
        lonely = [ranks for ranks in serving if len(self.standing[ranks[0].role]) < 2]
        for role in WORKERS:
            of_role = [ranks for ranks in serving if ranks[0].role == role]
            if lonely and of_role and of_role[0] in lonely:
                yield lonely
                lonely = []
            elif of_role and len(self.standing[role]) > 1:
                most = min(self.policy.skew, len(self.standing[role]) - 1)
                yield from (of_role[at : at + most] for at in range(0, len(of_role), most))

    def _join(self) -> Iterator[Step]:
        """Routers whose list of workers no step before has put right."""
        reasons = {change.data.name: change.reason for change in self.joins}
        if reasons and not self.due and not self.gone:
            yield Step("join", (), (), reasons)

    def _routers(self) -> Iterator[Step]:
        routers = [ranks for ranks in self._due_workers() if ranks[0].role == "router" and self._serving(ranks)]
        others = [one for one in self.live if one.role == "router"]
        for ranks in routers:
            outage = ("router",) if len(others) < 2 else ()
            yield Step("router", tuple(ranks), self._live_of(ranks), self._reasons(ranks), outage)

    # ---- what is asked of the state

    def _due_workers(self) -> list[list[Instance]]:
        """What is due, by worker and with all its ranks, in the plan's order."""
        workers: dict[str, list[Instance]] = {}
        for instance in self.plan.instances:
            if instance.name in self.due:
                workers.setdefault(instance.leader, []).append(instance)
        return list(workers.values())

    def _down(self) -> list[list[Instance]]:
        return [ranks for ranks in self._due_workers() if not self._serving(ranks)]

    def _replaced(self) -> list[list[Instance]]:
        return [ranks for ranks in self._due_workers() if self._serving(ranks) and ranks[0].role != "router"]

    def _meets_old(self) -> bool:
        """Whether what is down would come up among workers that it must not meet; it comes with their successors."""
        return bool(self.policy.apart and self._replaced())

    def _serving(self, ranks: Sequence[Instance]) -> bool:
        return any(self.due[rank.name].action == "restart" for rank in ranks)

    def _reasons(self, instances: Iterable[Instance]) -> dict[str, str]:
        return {one.name: self.due[one.name].reason for one in instances}

    def _live_of(self, instances: Sequence[Instance]) -> tuple[Live, ...]:
        wanted = {(one.host, one.name) for one in instances}
        return tuple(one for one in self.live if (one.host, one.name) in wanted)

    def _without(self, leaving: Sequence[Live]) -> tuple[str, ...]:
        """Roles that have nobody left while these are out; a role that nobody served before is none of them."""
        names = {(one.host, one.name) for one in leaving}
        return tuple(role for role, serving in self.standing.items() if serving and serving <= names)

    def _leave(self, leaving: Sequence[Live]) -> None:
        for one in leaving:
            self.standing.get(one.role, set()).discard((one.host, one.name))

    def _enter(self, instances: Sequence[Instance]) -> None:
        for one in instances:
            if one.role in self.standing and one.serves:
                self.standing[one.role].add((one.host, one.name))
