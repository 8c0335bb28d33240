"""Whatever is asked: no GPU and no port is given twice, and the same question has the same answer."""

import time
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.placement import Host, Placement, PortRanges, Request, place, plan_addresses, plan_ports
from slipway.placement.model import WORKERS
from tests.slipway.placement.cases import host, machine

SMALL = st.sampled_from([1, 1, 1, 2, 2, 4, 8])
MODELS = ["8xRTX-PRO-6000", "8xH200", "GB300-NVL4", "DGX-Spark", "8xH100-NVL", "4xL40S", "cpu"]
ROLE_SETS = st.lists(st.sampled_from([*WORKERS, "router"]), unique=True, max_size=4)


@st.composite
def requests(draw: Any) -> list[Request]:
    return [
        Request(
            role,
            tp=draw(SMALL | st.integers(-1, 9)),
            pp=draw(st.sampled_from([1, 1, 2])),
            dp=draw(st.sampled_from([1, 1, 2, 4])),
            dp_attention=draw(st.booleans()),
            ep=draw(st.sampled_from([1, 1, 2])),
            nnodes=draw(st.sampled_from([1, 1, 2, 3])),
            instances=draw(st.none() | st.integers(0, 3)),
            gpus=draw(st.none() | st.lists(st.integers(-1, 9), max_size=8).map(tuple)),
            cpu=draw(st.sampled_from([False, False, False, True])),
            replicas=draw(st.none() | st.integers(0, 4)),
            listens=draw(st.sampled_from([(), ("engine_info", "encoder")])),
        )
        for role in (*WORKERS, "router")
    ]


@st.composite
def hosts(draw: Any) -> list[Host]:
    size = draw(st.integers(0, 5))
    models = [draw(st.none() | st.sampled_from(MODELS)) for _ in range(size)]
    return [
        Host(f"h{at}", machine(model) if model else None, tuple(draw(ROLE_SETS)), f"10.0.0.{at + 1}")
        for at, model in enumerate(models)
    ]


def taken(placement: Placement) -> Counter:
    return Counter((node.host, gpu) for instance in placement.instances for node in instance.nodes for gpu in node.gpus)


@settings(max_examples=60, deadline=None)
@given(hosts(), requests())
def test_gpus_are_given_once_and_none_is_lost(inventory, wanted):
    placement = place(inventory, wanted)
    given_away = taken(placement)
    assert all(count == 1 for count in given_away.values())
    free = {(name, gpu) for name, gpus in placement.free for gpu in gpus}
    there = {(entry.name, gpu) for entry in inventory if entry.hardware for gpu in entry.hardware.indices}
    assert set(given_away) | free == there
    assert not set(given_away) & free
    for instance in placement.instances:
        assert len(set(instance.hosts)) == instance.nnodes == instance.request.nnodes
        assert all(len(node.gpus) == instance.request.gpus_per_node for node in instance.nodes)
        assert [node.rank for node in instance.nodes] == list(range(instance.nnodes))
    assert len(placement.by_name) == len(placement.instances)
    assert place(inventory, wanted) == placement


RANGES = st.builds(
    PortRanges,
    **{
        name: st.sampled_from([base, 30000, 8998])
        for name, base in [
            ("http", 30000),
            ("bootstrap", 8998),
            ("dist_init", 20000),
            ("nccl", 25000),
            ("router", 8000),
        ]
    },
)
FIXED = st.dictionaries(
    st.tuples(st.sampled_from(["prefill-0", "decode-0", "router-0"]), st.sampled_from(["http", "bootstrap", "nccl"])),
    st.integers(-1, 70000) | st.sampled_from([30000, 30001, 8998]),
    max_size=4,
)


@settings(max_examples=40, deadline=None)
@given(hosts(), requests(), RANGES, FIXED)
def test_ports_are_given_once(inventory, wanted, ranges, fixed):
    plan = plan_ports(place(inventory, wanted), ranges, fixed)
    assert all(count == 1 for count in Counter((use.host, use.port) for use in plan.uses).values())
    assert all(0 < use.port <= 65535 for use in plan.uses)
    bootstraps = [(entry.bootstrap) for entry in plan.ports if entry.bootstrap is not None]
    if not fixed:
        assert len(set(bootstraps)) == len(bootstraps)
    assert plan == plan_ports(place(inventory, wanted), ranges, fixed)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.builds(Host, name=st.text(max_size=5), address=st.text(max_size=12) | st.ip_addresses().map(str)), max_size=4
    )
)
def test_any_address_is_used_or_refused(inventory):
    plan = plan_addresses(inventory)
    told = {entry.host for entry in plan.addresses} | {found.subject for found in plan.findings}
    assert {entry.name for entry in inventory} <= told


def test_256_hosts_in_under_300_ms():
    many = [host(f"h{n}", "8xH200", "prefill", "decode", address=f"10.0.{n // 200}.{n % 200 + 1}") for n in range(256)]
    asked = [Request(role, tp=1, instances=None) for role in ("prefill", "decode")]
    spent = []
    for _ in range(3):
        start = time.process_time()
        placement = place(many, asked)
        plan = plan_ports(placement)
        plan_addresses(many)
        spent.append(time.process_time() - start)
    assert (len(placement.instances), plan.findings) == (2048, ())
    assert min(spent) < 0.3
