"""GPUs to instances: pure, deterministic, and every contradiction told with its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slipway.finding import Finding
from slipway.hardware.model import HostHardware
from slipway.placement import choose
from slipway.placement.model import ROLES, Host, Instance, Node, Placement, Request

NO_HARDWARE = HostHardware()


@dataclass
class Group:
    """Hosts that hold the same instances of a role: one host, or `nnodes` of them in rank order."""

    request: Request
    hosts: tuple[Host, ...]
    count: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The hosts' names."""
        return ", ".join(host.name for host in self.hosts)


@dataclass
class Pool:
    """Which GPUs are free, who holds the others, and what went wrong so far."""

    free: dict[str, set[int]]
    owner: dict[tuple[str, int], str] = field(default_factory=dict)
    shared: set[tuple[str, int]] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    def fault(self, rule: str, subject: str, message: str, fix: str = "") -> None:
        """Record a contradiction."""
        self.findings.append(Finding(f"placement.{rule}", "error", subject, message, fix))

    def take(self, host: str, gpus: Iterable[int], name: str) -> None:
        """Give GPUs to an instance."""
        for gpu in gpus:
            self.free[host].discard(gpu)
            self.owner[host, gpu] = name

    def give_back(self, nodes: Iterable[Node]) -> None:
        """Free what an instance took on some hosts when another host had no room for it."""
        for node in nodes:
            for gpu in node.gpus:
                self.owner.pop((node.host, gpu), None)
                self.free[node.host].add(gpu)


def place(hosts: Sequence[Host], requests: Mapping[str, Request] | Iterable[Request]) -> Placement:
    """Every instance of every role on its hosts. Roles in `ROLES` order, hosts in the order given."""
    given = requests.values() if isinstance(requests, Mapping) else requests
    wanted = {request.role: request for request in given}
    pool = Pool({host.name: set(usable(host)) for host in hosts})
    hosts = list(distinct(hosts, pool))
    groups = [group for role in ROLES for group in group_hosts(role, hosts, wanted, pool)]
    count_instances(groups, pool)
    name_instances(groups)
    placed = place_groups(groups, pool)
    order = {name: at for at, name in enumerate(name for group in groups for name in group.names)}
    return Placement(
        instances=tuple(sorted(placed, key=lambda instance: order[instance.name])),
        free=tuple((host.name, tuple(sorted(pool.free[host.name]))) for host in hosts),
        findings=tuple(pool.findings),
    )


def usable(host: Host) -> Iterator[int]:
    """GPUs that an instance can take."""
    return (gpu.index for gpu in (host.hardware or NO_HARDWARE).gpus if gpu.usable)


def distinct(hosts: Sequence[Host], pool: Pool) -> Iterator[Host]:
    """Each host once."""
    seen: set[str] = set()
    for host in hosts:
        if host.name in seen:
            pool.fault("host-twice", host.name, "the host is listed twice", "list each host once")
            continue
        seen.add(host.name)
        yield host


# --- groups of hosts ----------------------------------------------------------------------------------------


def group_hosts(role: str, hosts: Sequence[Host], wanted: Mapping[str, Request], pool: Pool) -> Iterator[Group]:
    """The hosts of a role in groups of `nnodes`, each group of one mind about what it runs."""
    waiting: dict[Request, list[Host]] = {}
    refused: set[Request] = set()
    for host in hosts:
        request = request_of(role, host, wanted, pool) if role in host.roles else None
        if request is None or request in refused:
            continue
        if not sound(request, pool):
            refused.add(request)
            continue
        if host.hardware is None and request.gpus_per_node:
            fix = "declare `hardware:` for it, or plan with its probe"
            pool.fault("hardware-unknown", host.name, f"{role} needs GPUs and the hardware is not known", fix)
            continue
        waiting.setdefault(request, []).append(host)
        if len(waiting[request]) == request.nnodes:
            yield Group(request, tuple(waiting.pop(request)))
    for request, left in waiting.items():
        names = ", ".join(host.name for host in left)
        message = f"{names}: {len(left)} host(s) left over, one {role} instance spans nnodes={request.nnodes}"
        fix = f"give {role} a multiple of {request.nnodes} hosts with equal settings"
        pool.fault("hosts-left-over", role, message, fix)


def request_of(role: str, host: Host, wanted: Mapping[str, Request], pool: Pool) -> Request | None:
    """What a host runs of a role: its own request before the deployment's."""
    own = next((request for request in host.requests if request.role == role), wanted.get(role))
    if own is None:
        pool.fault("role-undefined", host.name, f"is in group {role}, which nothing describes", f"configure {role}")
    return own


def sound(request: Request, pool: Pool) -> bool:
    """Whether a request's numbers go together."""
    faults = list(contradictions(request))
    for message in faults:
        pool.fault("parallelism", request.role, message)
    return not faults


def contradictions(request: Request) -> Iterator[str]:
    """Each rule between tp, pp, dp, ep and nnodes that a request breaks."""
    sizes = {name: getattr(request, name) for name in ("tp", "pp", "dp", "ep", "nnodes")}
    small = {name: size for name, size in sizes.items() if size < 1}
    if small or (request.instances is not None and request.instances < 0):
        yield f"got {small or {'instances': request.instances}}; must be at least 1"
        return
    ranks = request.tp * request.pp
    if ranks % request.nnodes:
        yield f"tp x pp = {ranks} must be a multiple of nnodes = {request.nnodes}"
    if request.tp % request.ep:
        yield f"tp = {request.tp} must be a multiple of ep = {request.ep}"
    if request.dp_attention and request.tp % request.dp:
        yield f"with attention DP, tp = {request.tp} must be a multiple of dp = {request.dp}"
    if request.dp > 1 and not request.dp_attention and request.nnodes > 1:
        yield f"dp = {request.dp} over nnodes = {request.nnodes} hosts needs attention DP"


# --- how many -----------------------------------------------------------------------------------------------


def count_instances(groups: Sequence[Group], pool: Pool) -> None:
    """Instances of each group: as asked; what is `auto` shares the rest in turns, prefill first."""
    room = {host: len(free) for host, free in pool.free.items()}
    for group in groups:
        group.count = asked(group)
        for host in group.hosts:
            room[host.name] -= group.count * group.request.gpus_per_node
    growing = [group for group in groups if group.request.instances is None and group.request.gpus is None]
    for group in growing:
        if group.request.gpus_per_node == 0:
            group.count = 1
    growing = [group for group in growing if group.request.gpus_per_node]
    while growing:
        growing = [group for group in growing if grow(group, room)]
    for group in groups:
        if group.count == 0 and group.request.instances is None:
            group.count = 1  # it does not fit: placing it says with which numbers
    limit_replicas(groups, pool)


def asked(group: Group) -> int:
    """The number a request names, itself or by the GPUs it lists."""
    request = group.request
    if request.instances is not None:
        return request.instances
    return len(request.gpus) // request.gpus_per_node if request.gpus and request.gpus_per_node else 0


def grow(group: Group, room: dict[str, int]) -> bool:
    """One more instance, where every host of the group has room."""
    share = group.request.gpus_per_node
    if any(room[host.name] < share for host in group.hosts):
        return False
    for host in group.hosts:
        room[host.name] -= share
    group.count += 1
    return True


def limit_replicas(groups: Sequence[Group], pool: Pool) -> None:
    """Keep the first `replicas` instances of a role; say when there are too few."""
    left = {group.request.role: group.request.replicas for group in groups}
    total = {role: sum(group.count for group in groups if group.request.role == role) for role in left}
    for role, replicas in left.items():
        if replicas is not None and total[role] < replicas:
            message = f"{replicas} replicas asked, the hosts of {role} hold {total[role]}"
            pool.fault("replicas", role, message, "add hosts, lower replicas, or raise instances")
    for group in groups:
        rest = left[group.request.role]
        if rest is not None:
            group.count = min(group.count, rest)
            left[group.request.role] = rest - group.count


def name_instances(groups: Sequence[Group]) -> None:
    """prefill-0, prefill-1, ... over the deployment, in host order."""
    next_index: dict[str, int] = {}
    for group in groups:
        start = next_index.get(group.request.role, 0)
        group.names = [f"{group.request.role}-{start + at}" for at in range(group.count)]
        next_index[group.request.role] = start + group.count


# --- which GPUs ---------------------------------------------------------------------------------------------


def place_groups(groups: Sequence[Group], pool: Pool) -> Iterator[Instance]:
    """Listed GPUs first, so that what goes by topology chooses among the rest."""
    for listed in (True, False):
        for group in groups:
            if (group.request.gpus is not None) is listed:
                yield from place_group(group, pool)


def place_group(group: Group, pool: Pool) -> Iterator[Instance]:
    """The instances of one group."""
    request = group.request
    if request.gpus is not None and not listed_enough(group, pool):
        return
    for at, name in enumerate(group.names):
        nodes = []
        for rank, host in enumerate(group.hosts):
            node = listed_node(at, rank, host, group, pool) if request.gpus is not None else None
            node = node or (free_node(name, rank, host, request, pool) if request.gpus is None else None)
            nodes.append(node)
        placed = tuple(node for node in nodes if node is not None)
        if len(placed) < len(group.hosts):
            pool.give_back(placed)
        else:
            yield Instance(name, request.role, int(name.rsplit("-", 1)[1]), placed, request)


def listed_enough(group: Group, pool: Pool) -> bool:
    """Whether `gpus:` lists what the instances need, no more and no fewer."""
    request, listed = group.request, len(group.request.gpus or ())
    need = request.gpus_per_node * group.count
    if len(set(request.gpus or ())) != listed:
        pool.fault("gpus-twice", group.where, f"{request.role}: gpus {list(request.gpus or ())} lists a GPU twice")
        return False
    if listed == need:
        return True
    sizes = f"tp x pp x dp / nnodes = {request.gpus_per_node} each"
    message = f"{request.role}: gpus lists {listed}, {group.count} instance(s) of {sizes} need {need}"
    pool.fault("gpus-count", group.where, message, f"list {need} GPUs, or change tp, pp or instances")
    return False


def listed_node(at: int, rank: int, host: Host, group: Group, pool: Pool) -> Node | None:
    """One host's share of an instance out of the GPUs that its request lists."""
    request, name = group.request, group.names[at]
    share = request.gpus_per_node
    gpus = (request.gpus or ())[at * share : (at + 1) * share]
    hardware = host.hardware or NO_HARDWARE
    absent = [gpu for gpu in gpus if gpu not in hardware.indices]
    open_to_us = {gpu for gpu in gpus if request.share_gpus and (host.name, gpu) in pool.shared}
    held = [gpu for gpu in gpus if gpu not in pool.free[host.name] | open_to_us and gpu not in absent]
    if absent:
        has = f"{len(hardware.gpus)} GPU(s) ({span(hardware.indices)})"
        pool.fault("gpu-absent", host.name, f"{name} lists GPU {span(absent)}, the host has {has}")
    for gpu in held:
        holder = pool.owner.get((host.name, gpu), "MIG")
        fix = "list other GPUs, or set share_gpus for both roles"
        pool.fault("gpu-overlap", host.name, f"GPU {gpu} is wanted by {name} and held by {holder}", fix)
    if absent or held:
        return None
    pool.take(host.name, gpus, name)
    pool.shared.update((host.name, gpu) for gpu in gpus if request.share_gpus)
    return Node(
        rank,
        host.name,
        gpus,
        choose.numa_nodes(hardware, gpus),
        spread_note(name, host, gpus, pool, "listed"),
    )


def free_node(name: str, rank: int, host: Host, request: Request, pool: Pool) -> Node | None:
    """One host's share of an instance by topology."""
    hardware, free = host.hardware or NO_HARDWARE, pool.free[host.name]
    choice = choose.choose(hardware, free, request.gpus_per_node)
    if choice is None:
        message = f"{len(free)} GPUs free on {host.name}, {name} needs {request.gpus_per_node}"
        holders = sorted({held for (where, _), held in pool.owner.items() if where == host.name})
        taken = f" ({', '.join(holders)} hold the others)" if holders else ""
        fix = "lower tp, pp or instances, or add GPUs or hosts"
        pool.fault("gpus-short", host.name, message + taken, fix)
        return None
    pool.take(host.name, choice.gpus, name)
    why = spread_note(name, host, choice.gpus, pool, "chosen") if choice.gpus else choice.why
    return Node(rank, host.name, choice.gpus, choose.numa_nodes(hardware, choice.gpus), why)


def spread_note(name: str, host: Host, gpus: tuple[int, ...], pool: Pool, how: str) -> str:
    """Why these GPUs; warns when ranks of one instance talk over a slower path than the host offers."""
    hardware = host.hardware or NO_HARDWARE
    why = choose.describe(hardware, gpus)
    if len(gpus) > 1 and why == "the whole host":
        linked = any(len(island) > 1 for island in hardware.nvlink_islands)
        over = "NVLink islands" if linked else "NUMA nodes"
        message = f"{name} takes GPUs {span(gpus)} over several {over}: its ranks share the slowest path"
        fix = "free GPUs of one island, or choose a smaller tp"
        pool.findings.append(Finding("placement.spread", "warning", host.name, message, fix))
    return f"{how}: {why}"


def span(gpus: Iterable[int]) -> str:
    """Indices, runs shortened: 0-3,6."""
    runs: list[list[int]] = []
    for gpu in sorted(gpus):
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "none"
