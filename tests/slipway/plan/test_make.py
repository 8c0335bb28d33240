"""The plan as a value: what rules see, that it is plain data, and that no configuration breaks it."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.config.errors import InvalidConfigError
from slipway.front import open_groups
from slipway.plan.model import to_json
from tests.slipway.plan.site import ONE_HOST, campaign, made, opened, planned, rules
from tests.slipway.plan.test_layout import SPAN, SPANNING


def test_equal_inputs_give_equal_plans(tmp_path):
    one = opened(tmp_path, ONE_HOST, campaign("0.5.18"))

    assert json.dumps(to_json(one.plan({}))) == json.dumps(to_json(one.plan({})))


def test_evidence_has_every_worker_once_with_its_hosts(tmp_path):
    evidence = made(tmp_path, SPAN, SPANNING).evidence

    assert [entry.instance.name for entry in evidence.instances] == ["prefill-0", "decode-0"]
    assert [len(entry.hardware) for entry in evidence.instances] == [2, 2]
    assert [(p.instance.name, d.instance.name) for p, d in evidence.pairs()] == [("prefill-0", "decode-0")]
    assert evidence.of("prefill")[0].arch == "sm_100"
    assert evidence.addresses == {"a": "a", "b": "b", "c": "c", "d": "d"}
    assert set(evidence.hardware) == {"a", "b", "c", "d"}


def test_workers_that_are_alike_are_decided_once(tmp_path):
    groups = {"prefill": [f"p{i}" for i in range(6)], "decode": ["d0", "d1"], "router": ["d0"]}
    result = made(tmp_path, groups, campaign("0.5.18"), p5={"prefill": {"mem_fraction_static": 0.8}})

    assert [len(decision.instances) for decision in result.plan.decisions] == [5, 1, 2]
    assert result.decided["prefill-0"] is result.decided["prefill-4"]
    assert result.decided["prefill-0"] is not result.decided["prefill-5"]


def test_a_deployment_needs_both_roles(tmp_path):
    plan = planned(tmp_path, {"prefill": ["gpu1"], "router": ["gpu1"]}, campaign("0.5.18"))

    assert "topology" in rules(plan, "error")


def test_a_router_of_the_older_package_is_refused_with_what_took_its_place(tmp_path):
    plan = planned(tmp_path, ONE_HOST, {**campaign("0.5.18"), "router": {"version": "0.3.2"}})

    (told,) = [finding for finding in plan.findings if finding.rule == "router-unknown"]
    assert told.severity == "error"
    assert told.message == "no build recipe for router.version 0.3.2: it is a release of the smg package"
    assert told.fix.startswith("use 1.13.0; the older sglang-router (0.3.2 and before) is not installed here")


def test_a_waiver_reaches_the_plan_and_its_typo_is_told(tmp_path):
    settings = {**campaign("0.5.18"), "waive": {"known-bad": "all-reduce was measured", "known-bat": "all-reduce too"}}
    plan = planned(tmp_path, ONE_HOST, settings)

    assert "waive-unknown" in rules(plan, "error")
    assert {finding.severity for finding in plan.findings if finding.rule == "known-bad"} == {"note"}


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70),
    st.sampled_from([2**40, 0.5, -1.5, "", "auto", "marlin", "ü", "8xH100"]),
    st.lists(st.integers(-1, 9), max_size=3),
    st.dictionaries(st.sampled_from(["gpu", "count", "tp"]), st.integers(), max_size=2),
)
KEYS = st.sampled_from(
    [f"worker.{key}" for key in ("tp", "pp", "dp", "ep", "nnodes", "instances", "gpus", "port", "dp_attention")]
    + [f"worker.{key}" for key in ("moe_runner_backend", "mem_fraction_static", "page_size", "quantization")]
    + [
        "worker.server_args.tp",
        "worker.server_args.speculative_algorithm",
        "worker.server_args.x",
        "worker.env.SGLANG_X",
    ]
    + ["hardware", "address", "engine.version", "engine.device", "engine.patches", "model.facts", "model.host_path"]
    + ["router.port", "prefill.bootstrap_port", "decode.kv_cache_dtype", "engine.kind"]
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    opened(folder, SPAN, campaign("0.5.18"))
    return folder


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(overrides=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), groups=st.sampled_from([SPAN, ONE_HOST]))
def test_no_configuration_ends_in_a_traceback(base, overrides, groups):
    try:
        plan = open_groups(base / "inventory.py", groups, overrides).plan({})
    except InvalidConfigError as error:
        assert str(error)
    else:
        json.dumps(to_json(plan))
        assert replace(plan) == plan
