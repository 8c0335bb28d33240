"""What the agent is asked of a plan: where, by which rungs, and with what to compare."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slipway.agent.verify.rungs import RUNGS
from slipway.config.validate import schema
from slipway.converge.wanted import wanted_on
from slipway.front import project_root
from slipway.plan.model import Plan
from slipway.plan.urls import url_of
from slipway.verify.rungs import rung_rows, rungs_at
from slipway.verify.subjects import (
    Asking,
    again_subject,
    controller_subject,
    decode_subject,
    router_subject,
    worker_subject,
)
from tests.slipway.plan.site import ONE_HOST, campaign, opened

FIELDS = {"chat_template_kwargs": {"enable_thinking": False}, "stop_token_ids": [1, 2]}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Any]:
    verify = {"rungs": {"burst": "skip", "repeats": "warn"}, "limits_s": {"pairs": 7}, "request_fields": FIELDS}
    site = opened(tmp_path_factory.mktemp("site"), ONE_HOST, {**campaign("0.5.20"), "verify": verify})
    return site.plan({}), site.deployment


def asking(planned: tuple[Plan, Any], **more: Any) -> Asking:
    plan, deployment = planned
    return Asking(plan, deployment.hosts[0].verify, **more)


def instance(plan: Plan, role: str) -> Any:
    return plan.serving(role)[0]


def test_the_table_the_agent_and_the_schema_name_the_same_rungs() -> None:
    names = {row.name for row in rung_rows()}
    verify = schema()["properties"]["verify"]["properties"]
    assert names - {"logs"} == set(RUNGS)
    assert names == set(verify["rungs"]["propertyNames"]["enum"]) == set(verify["limits_s"]["propertyNames"]["enum"])
    assert (project_root() / "docs/reference/verify.md").is_file()


def test_a_worker_is_compared_with_the_settings_of_the_plan(planned: tuple[Plan, Any]) -> None:
    plan, _ = planned
    decode = instance(plan, "decode")
    subject = worker_subject(asking(planned), wanted_on(plan, decode.host), decode)
    assert subject["settings"]["tp_size"] == 4
    assert subject["settings"]["disaggregation_mode"] == "decode"
    assert subject["release"] == "0.5.20"
    assert subject["env"]["CUDA_VISIBLE_DEVICES"] == decode.env["CUDA_VISIBLE_DEVICES"]
    assert subject["limits"]["memlock"] == "infinity"


def test_what_can_harm_the_engine_is_left_out_unless_it_is_asked_for() -> None:
    assert "samples" not in {row.name for row in rungs_at("router", {})}
    assert "samples" in {row.name for row in rungs_at("router", {"samples": "warn"})}


def test_levels_and_limits_of_the_configuration(planned: tuple[Plan, Any]) -> None:
    plan, deployment = planned
    router = instance(plan, "router")
    settings = deployment.host(router.host).router
    subject = router_subject(asking(planned), wanted_on(plan, router.host), router, settings)
    assert "burst" not in subject["rungs"]
    assert "repeats" in subject["lenient"]
    assert subject["limits_s"]["pairs"] == 7
    assert subject["limits_s"]["readiness"] > 30  # what has to settle gets the time for it on top
    assert not {"reference", "accuracy"} & set(subject["rungs"])
    assert subject["rungs"][:3] == ["process", "ports", "environment"]


def test_light_leaves_only_what_costs_little(planned: tuple[Plan, Any]) -> None:
    plan, deployment = planned
    router = instance(plan, "router")
    light = replace(asking(planned), light=True)
    subject = router_subject(light, wanted_on(plan, router.host), router, deployment.host(router.host).router)
    assert subject["rungs"] == ["process", "ports", "readiness", "workers", "completion", "known-answers"]


def test_decode_is_led_to_every_prefill(planned: tuple[Plan, Any]) -> None:
    plan, _ = planned
    decode, prefill = instance(plan, "decode"), instance(plan, "prefill")
    subject = decode_subject(asking(planned), wanted_on(plan, decode.host), decode)
    assert subject is not None
    port, host = prefill.ports["bootstrap"], prefill.serves_at.rpartition(":")[0]
    assert subject["prefills"] == [
        {"name": prefill.name, "bootstrap": f"{host}:{port}", "advertised": prefill.env["SGLANG_HOST_IP"]}
    ]


def test_the_key_is_in_what_asks_and_in_no_text(planned: tuple[Plan, Any]) -> None:
    plan, _ = planned
    asked = asking(planned, key="s3cret")
    assert "s3cret" not in repr(asked)
    assert controller_subject(asked, instance(plan, "router"))["key"] == "s3cret"


def test_a_server_with_a_certificate_is_asked_over_tls(planned: tuple[Plan, Any]) -> None:
    plan, _ = planned
    router = instance(plan, "router")
    tls = replace(router, argv=(*router.argv, "--tls-cert-path", "/etc/router.pem"))
    assert (url_of(router)[:5], url_of(tls)[:8]) == ("http:", "https://")


def test_after_the_load_it_must_be_the_same_process(planned: tuple[Plan, Any]) -> None:
    plan, _ = planned
    decode = instance(plan, "decode")
    subject = again_subject(asking(planned), wanted_on(plan, decode.host), decode, 42)
    assert (subject["rungs"], subject["expected_pid"]) == (["still-there"], 42)


def test_fields_of_any_depth_reach_the_host(planned: tuple[Plan, Any]) -> None:
    wanted = wanted_on(planned[0], "gpu1")
    subject = router_subject(asking(planned), wanted, instance(planned[0], "router"), planned[1].hosts[0].router)

    assert json.loads(json.dumps(subject))["fields"] == FIELDS
