"""Makes instances out of what was decided and where it was placed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.config.deployment import HostSettings
from slipway.placement import Instance as Placed
from slipway.placement import InstancePorts, Node, endpoint

from . import arguments
from .decide import Decided
from .flags import clean_exit, spell
from .hosts import build_of
from .model import HostPlan, Instance
from .paths import instance_tmp, key_adder


@dataclass(frozen=True)
class Rank:
    """One host's share of a worker, with all that its command line is made of."""

    name: str
    placed: Placed
    node: Node
    decided: Decided
    host: HostPlan
    leader: HostPlan
    ports: InstancePorts


def worker_instances(
    placed: Placed, decided: Decided, hosts: Mapping[str, HostPlan], ports: InstancePorts, deployment: str
) -> Iterator[Instance]:
    """One instance for each host of a worker, rank 0 first."""
    for node in placed.nodes:
        name = f"{placed.name}-rank{node.rank}" if node.rank else placed.name
        yield _instance(Rank(name, placed, node, decided, hosts[node.host], hosts[placed.host], ports), deployment)


def _instance(rank: Rank, deployment: str) -> Instance:
    settings, host = rank.decided.kind.settings, rank.host
    build = host.simulator or build_of(host, "sglang")
    own = _own_settings(rank)
    argv = (*_program(host, build, settings.api_key is not None), *spell(rank.decided.known, own), *rank.decided.flags)
    cache, tmp = f"{host.paths['cache']}/{build}", instance_tmp(host.paths, deployment, rank.name)
    programs, ports = _programs(host, build), _served(rank)
    env = arguments.worker_env(settings, rank.decided.env, host.address, cache, tmp, rank.node.gpus, programs)
    serves_at = "" if rank.node.rank else f"http://{endpoint(host.address, ports['http'])}"
    return Instance(
        name=rank.name,
        role=rank.placed.role,
        host=host.name,
        address=host.address,
        gpus=rank.node.gpus,
        ports=ports if rank.node.rank == 0 else {"http": ports["http"]},
        argv=argv,
        env=marked(env, rank.name, deployment, rank.placed.role, serves_at),
        build=build,
        serves_at=serves_at,
        start_budget_s=settings.start_budget_s,
        drain_s=settings.drain_s,
        clean_exit=clean_exit(rank.decided.kind.engine.version),
        settings={**own, **rank.decided.values},
        rank=rank.node.rank,
        leader=rank.placed.name,
        reserved=_reserved(rank),
        placed=rank.node.why if rank.node.gpus else "",
    )


def _served(rank: Rank) -> dict[str, int]:
    """Ports that others talk to; 0 stands for one that was not to be had, of which a finding tells."""
    uses = ("http", "bootstrap") if rank.placed.role == "prefill" else ("http",)
    return {use: getattr(rank.ports, use) or 0 for use in uses}


def _program(host: HostPlan, build: str, has_key: bool) -> tuple[str, ...]:
    home = f"{host.paths['engines']}/{build}"
    engine = (f"{home}/venv/bin/python", "-m", "sglang.launch_server")
    program = (host.python, f"{home}/agent.pyz", "simulator") if host.simulator else engine
    return arguments.keyed(program, key_adder(host.paths)) if has_key else program


def _programs(host: HostPlan, build: str) -> list[str]:
    """Folders of the build's own programs, and of those of the Python it is laid over: ninja is in one of them."""
    if host.simulator:
        return []
    base = next((one.base.python for one in host.builds if one.id == build and one.base), "")
    return [f"{host.paths['engines']}/{build}/venv/bin", *([base.rpartition("/")[0]] if base else [])]


def _own_settings(rank: Rank) -> dict[str, Any]:
    """What differs between workers that are alike: paths, addresses, ports and ranks."""
    checkpoint, ports, nodes = rank.host.checkpoint, rank.ports, rank.placed.nnodes
    own: dict[str, Any] = {
        "model_path": checkpoint.path if checkpoint else "",
        "served_model_name": checkpoint.served_name if checkpoint else "",
        "host": rank.host.address,
        "port": ports.http,
    }
    if ports.bootstrap is not None:
        own["disaggregation_bootstrap_port"] = ports.bootstrap
    if "nccl" in _reserved(rank):
        own["nccl_port"] = ports.nccl
    if ports.dist_init is not None:
        own["dist_init_addr"] = endpoint(rank.leader.address, ports.dist_init)
    if nodes > 1:
        own.update(nnodes=nodes, node_rank=rank.node.rank)
    return own


def _reserved(rank: Rank) -> dict[str, int]:
    """Ports that ranks meet on. A worker without GPUs has one rank and meets nobody."""
    meeting = {"nccl": rank.ports.nccl, "dist_init": rank.ports.dist_init}
    return {} if rank.placed.request.cpu else {use: port for use, port in meeting.items() if port is not None}


def marked(env: Mapping[str, str], name: str, deployment: str, role: str, serves_at: str) -> dict[str, str]:
    """By these a live process tells whose it is, and where the routers know it, also when no plan has it any more."""
    marks = {"SLIPWAY_DEPLOYMENT": deployment, "SLIPWAY_INSTANCE": name, "SLIPWAY_ROLE": role}
    return {**env, **marks, **({"SLIPWAY_URL": serves_at} if serves_at else {})}


def router_instance(
    placed: Placed, settings: HostSettings, host: HostPlan, ports: InstancePorts, workers: list[Instance]
) -> Instance:
    """The router, wired to every worker that serves."""
    build, router = build_of(host, "router"), settings.router
    of = {role: [w for w in workers if w.role == role and w.serves] for role in ("prefill", "decode", "unified")}
    program = (f"{host.paths['engines']}/{build}/venv/bin/python", "-m", "smg.launch_router")
    argv = arguments.router_argv(
        arguments.keyed(program, key_adder(host.paths)) if router.api_key else program,
        router,
        [(worker.serves_at, worker.ports["bootstrap"]) for worker in of["prefill"]],
        [worker.serves_at for worker in of["decode"]],
        [worker.serves_at for worker in of["unified"]],
    )
    env = arguments.router_env(router, f"{host.paths['cache']}/{build}")
    reached = host.address if router.host in ("0.0.0.0", "::") else router.host  # noqa: S104
    taken = {"http": ports.router or router.port, "metrics": ports.metrics or router.metrics_port}
    serves_at = f"http://{endpoint(reached, router.port)}"
    return Instance(
        name=placed.name, role="router", host=host.name, address=reached, gpus=(), ports=taken, argv=argv,
        env=marked(env, placed.name, settings.deployment, "router", serves_at), build=build,
        serves_at=serves_at, start_budget_s=router.start_budget_s,
        drain_s=router.drain_s, clean_exit="0", settings={}, rank=0, leader=placed.name, reserved={}, placed="",
    )  # fmt: skip
