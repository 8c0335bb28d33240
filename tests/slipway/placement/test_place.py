"""Which GPUs each instance gets, and what is told when it does not work out."""

from dataclasses import replace

import pytest

from slipway.hardware import parse
from slipway.placement import Host, Placement, Request, place
from slipway.placement.place import span
from tests.slipway.hardware.captures import capture
from tests.slipway.placement.cases import host, machine


def shown(placement: Placement) -> dict[str, str]:
    """instance -> `host:gpus host:gpus`."""
    return {
        instance.name: " ".join(f"{node.host}:{span(node.gpus)}" for node in instance.nodes)
        for instance in placement.instances
    }


PD = ("prefill", "decode")
R = Request

PLACED = [
    (
        "one PCIe box, TP 4 + 4: a NUMA node each",
        [host("h1", "8xRTX-PRO-6000", *PD)],
        [R("prefill", tp=4), R("decode", tp=4)],
        {"prefill-0": "h1:0-3", "decode-0": "h1:4-7"},
    ),
    (
        "prefill takes its GPUs first whatever the order of groups",
        [host("h1", "8xH200", "decode", "prefill")],
        [R("decode", tp=4), R("prefill", tp=4)],
        {"prefill-0": "h1:0-3", "decode-0": "h1:4-7"},
    ),
    (
        "auto on both roles shares in turns",
        [host("h1", "8xH200", *PD)],
        [R("prefill", tp=2, instances=None), R("decode", tp=2, instances=None)],
        {"prefill-0": "h1:0-1", "prefill-1": "h1:2-3", "decode-0": "h1:4-5", "decode-1": "h1:6-7"},
    ),
    (
        "auto fills what a fixed number leaves",
        [host("h1", "8xH200", *PD)],
        [R("prefill", tp=2, instances=1), R("decode", tp=2, instances=None)],
        {"prefill-0": "h1:0-1", "decode-0": "h1:2-3", "decode-1": "h1:4-5", "decode-2": "h1:6-7"},
    ),
    (
        "a small instance does not break a free NUMA node",
        [host("h1", "8xRTX-PRO-6000", *PD)],
        [R("prefill", tp=1, instances=2), R("decode", tp=4)],
        {"prefill-0": "h1:0", "prefill-1": "h1:1", "decode-0": "h1:4-7"},
    ),
    (
        "bridged pairs stay together",
        [host("h1", "8xH100-NVL", *PD)],
        [R("prefill", tp=1), R("decode", tp=2, instances=3)],
        {"prefill-0": "h1:0", "decode-0": "h1:2-3", "decode-1": "h1:4-5", "decode-2": "h1:6-7"},
    ),
    (
        "an NVLink island wins over a NUMA node",
        [host("h1", "GB300-NVL4", "unified")],
        [R("unified", tp=4)],
        {"unified-0": "h1:0-3"},
    ),
    (
        "listed GPUs, in the order listed",
        [host("h1", "8xH200", *PD)],
        [R("prefill", tp=2, gpus=(7, 6)), R("decode", tp=4)],
        {"prefill-0": "h1:6-7", "decode-0": "h1:0-3"},
    ),
    (
        "listed GPUs are set aside before topology chooses",
        [host("h1", "8xH200", *PD)],
        [R("prefill", tp=4), R("decode", tp=4, gpus=(0, 1, 2, 3))],
        {"prefill-0": "h1:4-7", "decode-0": "h1:0-3"},
    ),
    (
        "listed GPUs cut into instances",
        [host("h1", "8xH200", "unified")],
        [R("unified", tp=2, instances=None, gpus=(0, 1, 4, 5))],
        {"unified-0": "h1:0-1", "unified-1": "h1:4-5"},
    ),
    (
        "one instance over two hosts, ranks in host order",
        [host("h1", "8xH200", "prefill"), host("h2", "8xH200", "prefill"), host("h3", "8xH200", "decode")],
        [R("prefill", tp=16, nnodes=2), R("decode", tp=8)],
        {"prefill-0": "h1:0-7 h2:0-7", "decode-0": "h3:0-7"},
    ),
    (
        "two groups of two hosts",
        [host(f"h{n}", "8xB200", "decode") for n in range(4)],
        [R("decode", tp=8, pp=2, nnodes=2)],
        {"decode-0": "h0:0-7 h1:0-7", "decode-1": "h2:0-7 h3:0-7"},
    ),
    (
        "two instances on one pair of hosts",
        [host("h1", "8xH200", "decode"), host("h2", "8xH200", "decode")],
        [R("decode", tp=8, nnodes=2, instances=None)],
        {"decode-0": "h1:0-3 h2:0-3", "decode-1": "h1:4-7 h2:4-7"},
    ),
    (
        "names count over hosts",
        [host("h1", "8xH200", "decode"), host("h2", "8xH200", "decode")],
        [R("decode", tp=4, instances=2)],
        {"decode-0": "h1:0-3", "decode-1": "h1:4-7", "decode-2": "h2:0-3", "decode-3": "h2:4-7"},
    ),
    (
        "a host's own request replaces the deployment's",
        [host("h1", "8xH200", "decode"), host("h2", "4xL40S", "decode", requests=(R("decode", tp=2, instances=2),))],
        [R("decode", tp=8)],
        {"decode-0": "h1:0-7", "decode-1": "h2:0-1", "decode-2": "h2:2-3"},
    ),
    (
        "replicas stop early",
        [host(f"h{n}", "8xH200", "decode") for n in range(3)],
        [R("decode", tp=4, instances=None, replicas=3)],
        {"decode-0": "h0:0-3", "decode-1": "h0:4-7", "decode-2": "h1:0-3"},
    ),
    (
        "plain DP multiplies, attention DP shares",
        [host("h1", "8xH200", *PD)],
        [R("prefill", tp=2, dp=2), R("decode", tp=4, dp=4, dp_attention=True, ep=4)],
        {"prefill-0": "h1:0-3", "decode-0": "h1:4-7"},
    ),
    (
        "CPU instances and routers take none",
        [host("h1", "cpu", "prefill", "decode", "router")],
        [R("prefill", cpu=True), R("decode", cpu=True, instances=2), R("router")],
        {"prefill-0": "h1:none", "decode-0": "h1:none", "decode-1": "h1:none", "router-0": "h1:none"},
    ),
    (
        "auto without GPUs is one",
        [Host("h1", None, ("unified",))],
        [R("unified", cpu=True, instances=None)],
        {"unified-0": "h1:none"},
    ),
    ("nothing asked of no host", [], [], {}),
]


@pytest.mark.parametrize(("hosts", "requests", "expected"), [row[1:] for row in PLACED], ids=[row[0] for row in PLACED])
def test_placed(hosts, requests, expected):
    placement = place(hosts, requests)
    assert [finding for finding in placement.findings if finding.severity == "error"] == []
    assert shown(placement) == expected


FAULTS = [
    (
        "too few GPUs, with both numbers and the holder",
        [host("h1", "8xRTX-PRO-6000", *PD)],
        [R("prefill", tp=4), R("decode", tp=8)],
        "placement.gpus-short",
        "4 GPUs free on h1, decode-0 needs 8 (prefill-0 hold the others)",
    ),
    (
        "auto that does not fit once",
        [host("h1", "4xL40S", "unified")],
        [R("unified", tp=8, instances=None)],
        "placement.gpus-short",
        "4 GPUs free on h1, unified-0 needs 8",
    ),
    (
        "no GPU at all",
        [host("h1", "cpu", "unified")],
        [R("unified", tp=1)],
        "placement.gpus-short",
        "0 GPUs free on h1, unified-0 needs 1",
    ),
    (
        "hardware unknown",
        [Host("h1", None, ("unified",))],
        [R("unified")],
        "placement.hardware-unknown",
        "hardware is not known",
    ),
    (
        "GPU that is not there",
        [host("h1", "4xL40S", "unified")],
        [R("unified", tp=2, gpus=(3, 4))],
        "placement.gpu-absent",
        "unified-0 lists GPU 4, the host has 4 GPU(s) (0-3)",
    ),
    (
        "GPU wanted twice, both named",
        [host("h1", "8xH200", *PD)],
        [R("prefill", tp=2, gpus=(0, 1)), R("decode", tp=2, gpus=(1, 2))],
        "placement.gpu-overlap",
        "GPU 1 is wanted by decode-0 and held by prefill-0",
    ),
    (
        "list of the wrong length",
        [host("h1", "8xH200", "unified")],
        [R("unified", tp=4, gpus=(0, 1))],
        "placement.gpus-count",
        "gpus lists 2, 1 instance(s) of tp x pp x dp / nnodes = 4 each need 4",
    ),
    (
        "a GPU listed twice",
        [host("h1", "8xH200", "unified")],
        [R("unified", tp=2, gpus=(0, 0))],
        "placement.gpus-twice",
        "lists a GPU twice",
    ),
    (
        "hosts left over",
        [host(f"h{n}", "8xH200", "decode") for n in range(3)],
        [R("decode", tp=16, nnodes=2)],
        "placement.hosts-left-over",
        "h2: 1 host(s) left over, one decode instance spans nnodes=2",
    ),
    (
        "more replicas than fit",
        [host("h1", "8xH200", "decode")],
        [R("decode", tp=4, instances=None, replicas=5)],
        "placement.replicas",
        "5 replicas asked, the hosts of decode hold 2",
    ),
    (
        "tp x pp and nnodes",
        [host("h1", "8xH200", "decode")],
        [R("decode", tp=3, nnodes=2)],
        "placement.parallelism",
        "tp x pp = 3 must be a multiple of nnodes = 2",
    ),
    ("ep", [host("h1", "8xH200", "decode")], [R("decode", tp=4, ep=3)], "placement.parallelism", "ep = 3"),
    (
        "attention DP",
        [host("h1", "8xH200", "decode")],
        [R("decode", tp=4, dp=3, dp_attention=True)],
        "placement.parallelism",
        "dp = 3",
    ),
    (
        "plain DP over hosts",
        [host("h1", "8xH200", "decode"), host("h2", "8xH200", "decode")],
        [R("decode", tp=8, dp=2, nnodes=2)],
        "placement.parallelism",
        "needs attention DP",
    ),
    ("zero", [host("h1", "8xH200", "decode")], [R("decode", tp=0)], "placement.parallelism", "must be at least 1"),
    (
        "group without a description",
        [host("h1", "8xH200", "decode")],
        [],
        "placement.role-undefined",
        "is in group decode, which nothing describes",
    ),
    (
        "host listed twice",
        [host("h1", "8xH200", "decode"), host("h1", "8xH200", "decode")],
        [R("decode", tp=8)],
        "placement.host-twice",
        "listed twice",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hosts", "requests", "rule", "message"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_faults(hosts, requests, rule, message):
    placement = place(hosts, requests)
    (finding,) = [finding for finding in placement.findings if finding.rule == rule]
    assert finding.severity == "error"
    assert message in finding.message


def test_a_fault_does_not_take_the_sound_instances_along():
    placement = place([host("h1", "8xH200", *PD)], [R("prefill", tp=4), R("decode", tp=8)])
    assert shown(placement) == {"prefill-0": "h1:0-3"}
    assert placement.free == (("h1", (4, 5, 6, 7)),)


SPREAD = [
    ("8xRTX-PRO-6000", R("unified", tp=8), "NUMA nodes"),
    ("8xH100-NVL", R("unified", tp=8), "NVLink islands"),
    ("8xRTX-PRO-6000", R("unified", tp=2, gpus=(3, 4)), "GPUs 3-4 over several NUMA nodes"),
    ("8xH200", R("unified", tp=8), None),
    ("8xRTX-PRO-6000", R("unified", tp=4), None),
    ("4xL40S", R("unified", tp=4), None),
]


@pytest.mark.parametrize(("model", "request_", "message"), SPREAD)
def test_ranks_over_slow_paths_are_warned_of(model, request_, message):
    found = [finding.message for finding in place([host("h1", model, "unified")], [request_]).findings]
    assert [message in text for text in found] == ([True] if message else [])


def test_an_instance_that_lacks_room_on_one_host_holds_nothing_on_the_others():
    hosts = [host("h1", "8xH200", "decode"), host("h2", "4xL40S", "decode")]
    placement = place(hosts, [R("decode", tp=16, nnodes=2)])
    assert placement.instances == ()
    assert placement.free == (("h1", tuple(range(8))), ("h2", tuple(range(4))))
    assert [finding.message for finding in placement.findings] == ["4 GPUs free on h2, decode-0 needs 8"]


def test_mig_gpu_is_passed_over_and_refused():
    hardware = parse(capture("mig-on"))
    cut = Host("h1", hardware, ("unified",))
    assert shown(place([cut], [R("unified", tp=4)])) == {"unified-0": "h1:4-7"}
    (finding,) = place([cut], [R("unified", tp=2, gpus=(0, 1))]).findings
    assert finding.message == "GPU 1 is wanted by unified-0 and held by MIG"


def test_switched_pairs_of_a_pcie_box():
    hardware = parse(capture("rtx-pro-6000-x8"))
    placement = place([Host("h1", hardware, PD)], [R("prefill", tp=1), R("decode", tp=2, instances=3)])
    assert shown(placement) == {"prefill-0": "h1:0", "decode-0": "h1:2-3", "decode-1": "h1:4-5", "decode-2": "h1:6-7"}
    assert placement.by_name["decode-0"].nodes[0].why == "chosen: one PCIe switch"


def test_why_and_numa_are_told():
    (node,) = place([host("h1", "8xH200", "prefill")], [R("prefill", tp=4)]).instances[0].nodes
    assert (node.why, node.numa) == ("chosen: one NVLink island, one NUMA node", (0,))


def test_requests_by_role_may_be_a_mapping():
    request = R("decode", tp=8)
    hosts = [host("h1", "8xH200", "decode")]
    assert place(hosts, {"decode": request}) == place(hosts, [request])


def test_an_instance_tells_where_it_is():
    hosts = [host("h1", "8xH200", "prefill"), host("h2", "8xH200", "prefill")]
    placement = place(hosts, [R("prefill", tp=16, nnodes=2)])
    (instance,) = placement.of_role("prefill")
    assert (instance.host, instance.hosts, instance.nnodes, instance.gpu_count) == ("h1", ("h1", "h2"), 2, 16)
    assert [node.rank for node in instance.nodes] == [0, 1]
    assert placement.on_host("h2") == (instance,)
    assert instance.on("h3") is None


def test_unequal_hosts_do_not_share_an_instance():
    own = (R("decode", tp=8, nnodes=2),)
    hosts = [host("h1", "8xH200", "decode"), host("h2", "8xH200", "decode", requests=own)]
    rules = {finding.rule for finding in place(hosts, [R("decode", tp=16, nnodes=2)]).findings}
    assert rules == {"placement.hosts-left-over"}


def test_topology_unknown_still_places():
    bare = replace(machine("8xH200"), links=())
    assert shown(place([Host("h1", bare, ("unified",))], [R("unified", tp=4)])) == {"unified-0": "h1:0-3"}


@pytest.mark.parametrize(("gpus", "text"), [((), "none"), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((7, 6), "6-7")])
def test_span(gpus, text):
    assert span(gpus) == text
