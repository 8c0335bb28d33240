"""Explanations name the row that decides, what else holds, and where it is known from."""

import pytest

from slipway.knowledge import explain
from slipway.knowledge.backends import Request

HYBRID = Request("0.5.18", "sm_120", "DeepseekV4ForCausalLM", "mla", "fp8", True, "nvfp4", 10.0, role="prefill", tp=4)


def test_the_deciding_row_comes_with_reason_and_source():
    found = explain.explain("moe_runner_backend", HYBRID)
    (line,) = [line for line in found.lines if line.decides and line.table == "choice"]
    assert found.choice.value == "marlin"
    assert "Slipway passes marlin" in line.says
    assert "swiglu_limit 10" in line.says
    assert line.when == "class is nvfp4_hybrid_dsv4, arch is sm_120, clamp is present, release before 0.5.21"
    assert "0.5.21" in line.source
    assert line.confidence == "inferred"


def test_a_written_value_is_decided_by_its_verdict():
    request = Request(
        "0.5.18",
        "sm_120",
        "DeepseekV4ForCausalLM",
        quantization="fp8",
        hybrid_nvfp4=True,
        explicit={"moe_runner_backend": "flashinfer_trtllm_routed"},
    )
    found = explain.explain("--moe-runner-backend", request)
    (line,) = [line for line in found.lines if line.decides]
    assert line.table == "verdict"
    assert "forbidden" in line.says


def test_without_a_request_every_row_is_listed():
    found = explain.explain("attention_backend")
    assert len(found.lines) > 40
    assert {line.holds for line in found.lines} == {None}
    assert found.holding == ()


def test_variables_and_aliases_can_be_explained():
    (line,) = explain.explain("SGLANG_ENABLE_JIT_DEEPGEMM").lines
    assert line.table == "environment"
    assert explain.explain("transfer_backend").name == "disaggregation_transfer_backend"


def test_known_faults_are_listed():
    lines = explain.explain(
        "moe_runner_backend",
        Request("0.5.23", "sm_120", "DeepseekV4ForCausalLM", quantization="fp8", hybrid_nvfp4=True),
    ).holding
    assert "known bad" in [line.table for line in lines]


@pytest.mark.parametrize("name", explain.names())
def test_everything_named_can_be_explained(name):
    found = explain.explain(name, HYBRID)
    assert all(line.says and line.source and line.confidence for line in found.lines)


def test_an_unknown_name_says_what_is_known():
    with pytest.raises(KeyError, match="moe_runner_backend"):
        explain.explain("colour")
