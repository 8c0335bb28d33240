"""Blue-green: a second set of the workers that change, beside those that serve, for as long as these are replaced.

The second set takes GPUs and ports that the plan leaves free. It is verified through a router of its own, then gets
the traffic; the workers of the plan are drained, started anew in their own places and take the traffic back. So a
deployment looks the same before and after, whatever was changed and however it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slipway.config.deployment import Deployment, HostSettings, RouterSettings
from slipway.finding import Finding
from slipway.placement import endpoint
from slipway.plan.arguments import router_argv
from slipway.plan.model import Instance, Plan
from slipway.plan.paths import instance_tmp

SUFFIX = "-green"


@dataclass(frozen=True)
class Green:
    """The second set. workers: by the name of the worker that each stands in for. router: of its own."""

    workers: Mapping[str, Instance]
    router: Instance


def with_room(deployment: Deployment, plan: Plan, blues: Sequence[Instance]) -> Deployment:
    """The deployment as it would be with a second set of some workers: what it plans for them is where they fit."""
    more = {(one.host, one.role) for one in blues}
    hosts = tuple(_doubled(host, plan, {role for name, role in more if name == host.name}) for host in deployment.hosts)
    return replace(deployment, hosts=hosts)


def _doubled(host: HostSettings, plan: Plan, roles: set[str]) -> HostSettings:
    counts = {role: sum(1 for one in plan.on(host.name) if one.role == role) for role in roles}
    workers = {role: replace(settings, instances=2 * counts[role]) if role in roles else settings
               for role, settings in host.workers.items()}  # fmt: skip
    return replace(host, workers=workers)


def green_of(
    plan: Plan, doubled: Plan, blues: Sequence[Instance], settings: RouterSettings, port: int
) -> Green | Finding:
    """The second set of `blues`, placed as the plan for twice as many places it; a finding where there is no room.

    settings: of the first router. port: of the router of its own; the next one is its metrics'.
    """
    spanning = [one.leader for one in blues if one.rank]
    if spanning:
        return _no_room(spanning, f"{spanning[0]} spans several hosts, and blue-green is for workers of one host")
    known = {error.rule for error in plan.errors}
    wrong = [error.message for error in doubled.errors if error.rule not in known]
    if wrong:
        return _no_room([one.name for one in blues], wrong[0])
    workers, lacking = {}, []
    for blue, place in _pairs(plan, doubled, blues):
        if place is None:
            lacking.append(blue.name)
        else:
            workers[blue.name] = _renamed(plan, place, f"{blue.name}{SUFFIX}")
    if lacking:
        return _no_room(lacking, "its place would not stay the same")
    return Green(workers, _router(plan, workers, settings, port))


def _no_room(names: Iterable[str], why: str) -> Finding:
    first = ", ".join(dict.fromkeys(names))
    fix = "free GPUs or ports on its host, or set rollout.strategy to rolling or recreate"
    return Finding("rollout-no-room", "error", first, f"there is no room for a second one beside it: {why}", fix)


def _pairs(plan: Plan, doubled: Plan, blues: Sequence[Instance]) -> Iterator[tuple[Instance, Instance | None]]:
    """Each worker with a place beside it; those that are to stay must have kept theirs."""
    kept = {_place(one) for one in plan.instances}
    free = [one for one in doubled.of(*{blue.role for blue in blues}) if _place(one) not in kept]
    stay = {_place(one) for one in doubled.instances}
    for blue in blues:
        place = next((one for one in free if (one.host, one.role) == (blue.host, blue.role)), None)
        if place:
            free.remove(place)
        yield blue, place if _place(blue) in stay else None


def _place(one: Instance) -> tuple[str, str, int, tuple[int, ...]]:
    return one.host, one.role, one.ports["http"], one.gpus


def _renamed(plan: Plan, place: Instance, name: str) -> Instance:
    """The worker of that place, under a name that no plan gives."""
    paths = plan.host(place.host).paths
    tmp = instance_tmp(paths, plan.deployment, place.name), instance_tmp(paths, plan.deployment, name)
    env = {key: value.replace(*tmp) for key, value in place.env.items()}
    return replace(place, name=name, leader=name, env={**env, "SLIPWAY_INSTANCE": name})


def _router(plan: Plan, workers: Mapping[str, Instance], settings: RouterSettings, port: int) -> Instance:
    """A router of the new workers, and of those that stay as they are."""
    first = plan.of("router")[0]
    serving = [workers.get(one.name, one) for one in plan.serving("prefill", "decode", "unified")]
    of = {role: [one for one in serving if one.role == role] for role in ("prefill", "decode", "unified")}
    argv = router_argv(
        first.argv[: first.argv.index("smg.launch_router") + 1],
        replace(settings, port=port, metrics_port=port + 1),
        [(one.serves_at, one.ports["bootstrap"]) for one in of["prefill"]],
        [one.serves_at for one in of["decode"]],
        [one.serves_at for one in of["unified"]],
    )
    name, url = f"{first.name}{SUFFIX}", f"http://{endpoint(first.address, port)}"
    env = {**first.env, "SLIPWAY_INSTANCE": name, "SLIPWAY_URL": url}
    ports = {"http": port, "metrics": port + 1}
    return replace(first, name=name, leader=name, argv=argv, env=env, ports=ports, serves_at=url)


def with_green(plan: Plan, green: Green) -> Plan:
    """The plan with the second set: what lies on the hosts while it is there."""
    return replace(plan, instances=(*plan.instances, *green.workers.values(), green.router))


def only_green(plan: Plan, green: Green) -> Plan:
    """What serves through the router of the second set."""
    workers = tuple(green.workers.get(one.name, one) for one in plan.of("prefill", "decode", "unified"))
    return replace(plan, instances=(*workers, green.router))
