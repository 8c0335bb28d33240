"""Every listener has a port, no two share one, and clashes name both sides."""

from dataclasses import replace

import pytest

from slipway.hardware import Listener
from slipway.placement import Host, PortRanges, Request, check_listeners, place, plan_ports
from slipway.placement.ports import InstancePorts
from tests.slipway.placement.cases import host, machine

R = Request
PDR = ("prefill", "decode", "router")
ONE_BOX = place([host("h1", "8xH200", *PDR)], [R("prefill", tp=2, instances=2), R("decode", tp=4), R("router")])


def ports_of(placement, **options):
    plan = plan_ports(placement, **options)
    assert plan.findings == ()
    return plan.by_instance


def test_one_box():
    assert ports_of(ONE_BOX) == {
        "prefill-0": InstancePorts("prefill-0", http=30000, bootstrap=8998, nccl=25000),
        "prefill-1": InstancePorts("prefill-1", http=30001, bootstrap=8999, nccl=25001),
        "decode-0": InstancePorts("decode-0", http=30002, nccl=25002),
        "router-0": InstancePorts("router-0", router=8000, metrics=29000),
    }


def test_bootstrap_ports_differ_over_the_deployment_http_ports_need_not():
    placement = place([host(f"h{n}", "8xH200", "prefill") for n in range(3)], [R("prefill", tp=8)])
    ports = ports_of(placement).values()
    assert [entry.bootstrap for entry in ports] == [8998, 8999, 9000]
    assert [entry.http for entry in ports] == [30000, 30000, 30000]


def test_attention_dp_over_two_hosts_takes_its_block_on_both():
    hosts = [host(f"h{n}", "8xH200", "decode") for n in range(2)]
    plan = plan_ports(place(hosts, [R("decode", tp=8, dp=8, dp_attention=True, nnodes=2, instances=2)]))
    assert [entry.dist_init for entry in plan.ports] == [20000, 20016]
    first = [use.port for use in plan.on_host("h1") if use.instance == "decode-0" and "dist_init" in use.purpose]
    assert first == [20000, 20001, 20002, 20003, 20004, 20005, 20006, 20013]
    assert {use.purpose for use in plan.on_host("h1")} >= {"http", "nccl", "dist_init", "dist_init+6", "dist_init+13"}


def test_plain_tp_over_two_hosts_meets_on_one_port():
    hosts = [host(f"h{n}", "8xH200", "decode") for n in range(2)]
    plan = plan_ports(place(hosts, [R("decode", tp=16, nnodes=2)]))
    assert [(use.host, use.purpose, use.port) for use in plan.uses if "dist" in use.purpose] == [
        ("h0", "dist_init", 20000),
        ("h1", "dist_init", 20000),
    ]


def test_plain_dp_chooses_its_own_nccl_ports():
    (entry,) = plan_ports(place([host("h1", "8xH200", "decode")], [R("decode", tp=2, dp=4)])).ports
    assert entry == InstancePorts("decode-0", http=30000)


def test_optional_listeners_make_room_for_one_another():
    request = R("prefill", tp=1, instances=3, listens=("engine_info", "encoder"))
    ports = ports_of(place([host("h1", "8xH200", "prefill")], [request])).values()
    assert [entry.engine_info for entry in ports] == [6789, 6790, 6791]
    taken = [entry.bootstrap for entry in ports] + [entry.encoder for entry in ports]
    assert len(set(taken)) == 6


def test_ranges():
    ranges = PortRanges(http=31000, bootstrap=9500, nccl=26000, router=8080, metrics=29100)
    ports = ports_of(ONE_BOX, ranges=ranges)
    assert ports["prefill-1"] == InstancePorts("prefill-1", http=31001, bootstrap=9501, nccl=26001)
    assert ports["router-0"] == InstancePorts("router-0", router=8080, metrics=29100)


def test_a_role_may_start_elsewhere():
    requests = [R("prefill", tp=4), R("decode", tp=4, first_ports=(("http", 31000),))]
    ports = ports_of(place([host("h1", "8xH200", "prefill", "decode")], requests))
    assert [entry.http for entry in ports.values()] == [30000, 31000]


def test_overlapping_ranges_still_do_not_collide():
    plan = plan_ports(ONE_BOX, PortRanges(30000, 30000, 30000, 30000, 30000, 30000))
    assert plan.findings == ()
    assert len({use.port for use in plan.uses}) == len(plan.uses)
    assert plan.by_instance["router-0"].router == 30000  # what clients were told comes first


def test_fixed_ports_are_kept_and_others_walk_around_them():
    ports = ports_of(ONE_BOX, fixed={("decode-0", "http"): 30000, ("prefill-0", "bootstrap"): 9100})
    assert [ports[name].http for name in ("decode-0", "prefill-0", "prefill-1")] == [30000, 30001, 30002]
    assert [ports[name].bootstrap for name in ("prefill-0", "prefill-1")] == [9100, 8998]


FIXED = [
    (
        {("prefill-0", "http"): 30000, ("decode-0", "http"): 30000},
        "error",
        "placement.port-clash",
        "port 30000 on h1 is wanted by prefill-0 (http) and decode-0 (http)",
    ),
    (
        {("prefill-0", "bootstrap"): 8000, ("router-0", "router"): 8000},
        "error",
        "placement.port-clash",
        "port 8000 on h1 is wanted by router-0 (router) and prefill-0 (bootstrap)",
    ),
    ({("decode-0", "http"): 0}, "error", "placement.port-range", "http port 0 must be from 1 to 65535"),
    ({("decode-0", "http"): 70000}, "error", "placement.port-range", "http port 70000 must be from 1 to 65535"),
    ({("decode-0", "bootstrap"): 9000}, "warning", "placement.port-unused", "which decode-0 does not listen on"),
    ({("nobody-0", "http"): 9000}, "warning", "placement.port-unused", "which nobody-0 does not listen on"),
    ({("decode-0", "http"): 40000}, "warning", "placement.port-ephemeral", "http port 40000 of decode-0 is in the"),
]


@pytest.mark.parametrize(("fixed", "severity", "rule", "message"), FIXED)
def test_fixed_faults(fixed, severity, rule, message):
    (finding,) = plan_ports(ONE_BOX, fixed=fixed).findings
    assert (finding.severity, finding.rule) == (severity, rule)
    assert message in finding.message


@pytest.mark.parametrize(
    ("port", "rule", "message"),
    [
        (30001, "port-clash", "port 30001 on h1 is wanted by prefill-1 (http) and model.share_port (share)"),
        (8999, "port-clash", "port 8999 on h1 is wanted by prefill-1 (bootstrap) and model.share_port (share)"),
        (25000, "port-clash", "port 25000 on h1 is wanted by prefill-0 (nccl) and model.share_port (share)"),
        (8000, "port-clash", "port 8000 on h1 is wanted by router-0 (router) and model.share_port (share)"),
        (29000, "port-clash", "port 29000 on h1 is wanted by router-0 (metrics) and model.share_port (share)"),
        (40000, "port-ephemeral", "share port 40000 of model.share_port is in the ephemeral range 32768-60999"),
        (70000, "port-range", "share port 70000 must be from 1 to 65535"),
    ],
)
def test_where_others_take_the_checkpoint_nothing_else_may_listen(port, rule, message):
    plan = plan_ports(ONE_BOX, sharing={"h1": port})
    assert [(finding.rule, finding.message) for finding in plan.findings] == [(f"placement.{rule}", message)]
    assert plan.by_instance == ports_of(ONE_BOX), "nothing that serves moves for it"


def test_a_free_port_for_the_checkpoint_is_planned_beside_the_others():
    plan = plan_ports(ONE_BOX, sharing={"h1": 8790})
    assert plan.findings == ()
    assert [use.port for use in plan.on_host("h1") if use.purpose == "share"] == [8790]


def test_a_range_that_ends_too_soon():
    findings = plan_ports(ONE_BOX, PortRanges(http=65534)).findings
    assert [finding.message for finding in findings if finding.rule == "placement.ports-exhausted"] == [
        "no http port is free from 65534 to 65535"
    ]


def test_ephemeral_range_is_told_once_a_purpose():
    (finding,) = plan_ports(ONE_BOX, PortRanges(nccl=50000)).findings
    assert "nccl port 50000 of prefill-0 and 2 more is in the ephemeral range" in finding.message


def listening(*listeners: Listener) -> Host:
    return Host("h1", replace(machine("8xH200"), listeners=listeners), PDR)


def test_ports_that_others_hold_now():
    nginx = Listener(8000, "0.0.0.0", 12, "nginx: master process")
    twice = Listener(8000, "::", 12, "nginx: master process")
    own = Listener(30000, "0.0.0.0", 99, "python3 -m sglang.launch_server")
    other = Listener(22, "0.0.0.0", 1, "sshd")
    plan = plan_ports(ONE_BOX)
    (finding,) = check_listeners(plan, [listening(nginx, twice, own, other)], lambda _, found: found.pid == 99)
    assert finding.message == "port 8000, planned for router-0 (router), is held by nginx: master process (pid 12)"
    assert check_listeners(plan, [Host("h1")], lambda *_: False) == []


def test_a_holder_that_may_not_be_seen():
    (finding,) = check_listeners(plan_ports(ONE_BOX), [listening(Listener(30001))], lambda *_: False)
    assert "held by another process (pid unknown)" in finding.message
