"""GPUs, ranks, ports and addresses in the plan."""

import pytest

from slipway.front import open_inventory
from slipway.local import local_facts
from tests.slipway.plan.site import DATA, ONE_HOST, campaign, flags, instance, model, opened, planned, probed, rules

R1 = {"hardware": "8xB200", "engine": {"version": "0.5.18"}, "model": model("deepseek-r1-fp4")}
SPAN = {"prefill": ["a", "b"], "decode": ["c", "d"], "router": ["a"]}
SPANNING = {**R1, "worker": {"tp": 16, "nnodes": 2}}


def test_the_default_inventory_keeps_its_ports(pytestconfig):
    default = open_inventory(pytestconfig.rootpath / "inventory.py", {"model.path": str(DATA / "checkpoints/tiny")})
    plan = default.plan(local_facts(default.deployment))

    ports = {one.name: dict(one.ports) for one in plan.instances}
    assert ports == {
        "prefill-0": {"http": 30000, "bootstrap": 8998},
        "decode-0": {"http": 30100},
        "router-0": {"http": 8000, "metrics": 29000},
    }
    assert all(one.reserved == {} for one in plan.instances)
    assert "--nccl-port" not in flags(plan, "prefill-0")
    assert {one.address for one in plan.instances} == {"127.0.0.1"}


def test_an_instance_over_two_hosts_is_one_service_on_each(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)

    names = [(one.name, one.host, one.rank, one.leader) for one in plan.of("prefill", "decode")]
    assert names == [
        ("prefill-0", "a", 0, "prefill-0"),
        ("prefill-0-rank1", "b", 1, "prefill-0"),
        ("decode-0", "c", 0, "decode-0"),
        ("decode-0-rank1", "d", 1, "decode-0"),
    ]
    first, second = flags(plan, "prefill-0"), flags(plan, "prefill-0-rank1")
    assert (first["--nnodes"], first["--node-rank"]) == ("2", "0")
    assert (second["--nnodes"], second["--node-rank"]) == ("2", "1")
    assert first["--dist-init-addr"] == second["--dist-init-addr"] == "a:20000"
    assert first["--host"] == "a"
    assert second["--host"] == "b"


def test_only_rank_0_serves_and_is_routed_to(tmp_path):
    plan = planned(tmp_path, SPAN, SPANNING)

    rank = instance(plan, "prefill-0-rank1")
    assert rank.serves_at == ""
    assert dict(rank.ports) == {"http": 30000}
    assert dict(rank.reserved) == {"nccl": 25000, "dist_init": 20000}
    router = " ".join(instance(plan, "router-0").argv)
    assert "--prefill http://a:30000 8998 --decode http://c:30000" in router
    assert "http://b:" not in router
    assert [one.name for one in plan.serving("prefill", "decode")] == ["prefill-0", "decode-0"]


def test_a_number_of_hosts_that_does_not_divide_is_refused(tmp_path):
    plan = planned(tmp_path, {**SPAN, "decode": ["c"]}, SPANNING)

    assert "placement.hosts-left-over" in rules(plan, "error")


@pytest.mark.parametrize(
    ("release", "spelt"),
    [("0.5.18", {"--dp-size": "8", "--enable-dp-attention": ""}), ("0.5.23", {"--attn-dp-size": "8"})],
)
def test_attention_dp_is_spelt_as_the_release_does_and_meets_on_a_port(tmp_path, release, spelt):
    settings = {**R1, "engine": {"version": release}, "worker": {"tp": 8, "dp": 8, "ep": 8}}
    plan = planned(tmp_path, {"unified": ["a"], "router": ["a"]}, settings)

    found = flags(plan, "unified-0")
    assert {name: found.get(name) for name in spelt} == spelt
    assert found["--dist-init-addr"] == "127.0.0.1:20000"
    assert found["--nccl-port"] == "25000"
    assert instance(plan, "unified-0").gpus == tuple(range(8))


def test_plain_dp_takes_gpus_of_its_own_and_finds_its_ports_itself(tmp_path):
    llama = {**R1, "model": model("llama-3.1-8b"), "worker": {"tp": 2, "dp": 4, "dp_attention": False}}
    plan = planned(tmp_path, {"unified": ["a"], "router": ["a"]}, llama)

    found = flags(plan, "unified-0")
    assert found["--dp-size"] == "4"
    assert not {"--nccl-port", "--dist-init-addr", "--enable-dp-attention"} & set(found)
    assert instance(plan, "unified-0").gpus == tuple(range(8))


def test_auto_fills_the_host(tmp_path):
    llama = {**R1, "model": model("llama-3.1-8b"), "worker": {"tp": 2, "instances": "auto"}}
    plan = planned(tmp_path, {"unified": ["a"], "router": ["a"]}, llama)

    assert [one.gpus for one in plan.of("unified")] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [one.ports["http"] for one in plan.of("unified")] == [30000, 30001, 30002, 30003]
    assert len(plan.decisions) == 1


def test_listed_gpus_are_honoured_and_a_gpu_is_given_once(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18"), prefill={"prefill": {"gpus": [4, 5, 6, 7]}})
    assert instance(plan, "prefill-0").gpus == (4, 5, 6, 7)
    assert instance(plan, "decode-0").gpus == (0, 1, 2, 3)

    twice = planned(tmp_path, ONE_HOST, campaign("0.5.18", gpus=[0, 1, 2, 3]), prefill={})
    assert "placement.gpu-overlap" in rules(twice, "error")


def test_too_few_gpus_are_told_with_their_numbers(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", tp=8))

    error = next(finding for finding in plan.errors if finding.rule == "placement.gpus-short")
    assert "decode-0 needs 8" in error.message


def test_hosts_that_were_not_asked_go_by_name_and_asked_ones_by_address(tmp_path):
    groups = {"prefill": ["a"], "decode": ["b"], "router": ["a"]}
    plan = planned(tmp_path, groups, campaign("0.5.18", tp=8))
    assert [host.address for host in plan.hosts] == ["a", "b"]
    assert "address-assumed" in rules(plan, "note")

    configured = planned(tmp_path, groups, campaign("0.5.18", tp=8), a={"address": "0.0.0.0"})
    assert "placement.address-unroutable" in rules(configured, "error")


def test_ports_of_two_users_clash(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18"), router={"router": {"metrics_port": 8000}})

    assert "placement.port-clash" in rules(plan, "error")


def shared_port(folder, groups, worker_port=8790, **more):
    """Findings about ports where workers of all hosts listen on the default of model.share_port."""
    settings = {"engine": {"kind": "simulator"}, "model": {"repo": "org/model"}, "worker": {"port": worker_port}}
    plan = planned(folder, groups, settings, **more)
    return [(one.rule, one.severity, one.message) for one in plan.findings if "port" in one.rule]


TWO_HOSTS = {"prefill": ["a"], "decode": ["b"], "router": ["a"]}


def test_the_port_for_the_checkpoint_of_hosts_that_share_it_clashes_with_a_worker_s(tmp_path):
    assert shared_port(tmp_path, TWO_HOSTS) == [
        ("placement.port-clash", "error", "port 8790 on a is wanted by prefill-0 (http) and model.share_port (share)"),
        ("placement.port-clash", "error", "port 8790 on b is wanted by decode-0 (http) and model.share_port (share)"),
    ]


@pytest.mark.parametrize(
    ("groups", "more"),
    [
        pytest.param(ONE_HOST, {}, id="one host"),
        pytest.param(TWO_HOSTS, {"b": {"model": {"share": False}}}, id="one does not share"),
        pytest.param(TWO_HOSTS, {"b": {"model": {"repo": "org/other"}}}, id="another checkpoint"),
        pytest.param(TWO_HOSTS, {name: {"model": {"repo": None, "host_path": "/m"}} for name in "ab"}, id="lies there"),
        pytest.param(
            TWO_HOSTS, {"a": {"model": {"share_port": 8791}}, "b": {"model": {"share_port": 8792}}}, id="other ports"
        ),
    ],
)
def test_where_nothing_is_shared_or_elsewhere_the_port_is_free_for_workers(tmp_path, groups, more):
    assert shared_port(tmp_path, groups, **more) == []


def test_a_captured_host_is_placed_by_its_own_topology(tmp_path):
    settings = {**campaign("0.5.23"), "hardware": None}
    plan = opened(tmp_path, ONE_HOST, settings).plan({"gpu1": probed("rtx-pro-6000-x8")})

    assert instance(plan, "prefill-0").gpus == (0, 1, 2, 3)
    assert "RTX PRO 6000" in plan.hosts[0].hardware
