"""Backends: what the engine would pick and what Slipway passes, one row a fact."""

from dataclasses import replace

import pytest

from slipway.knowledge import backends
from slipway.knowledge.backends import Request, resolve

PATCHED = frozenset({"pr-25820"})
HYBRID = Request("0.5.18", "sm_120", "DeepseekV4ForCausalLM", "mla", "fp8", True, "nvfp4", 10.0, role="prefill", tp=4)
NATIVE = replace(HYBRID, hybrid_nvfp4=False, experts="mxfp4")
GPT_OSS = Request("0.5.18", "sm_90", "GptOssForCausalLM", "swa", "mxfp4", experts="mxfp4", attention_sinks=True)
DENSE = Request("0.5.18", "sm_90", "LlamaForCausalLM", "gqa", experts="none")
MOE = Request("0.5.18", "sm_90", "MixtralForCausalLM", "gqa", experts="bfloat16")
R1 = Request("0.5.18", "sm_100", "DeepseekV3ForCausalLM", "mla", "fp8", experts="fp8_block")
KIMI_INT4 = replace(R1, quantization="compressed-tensors", experts="int4")


def chosen(request, name):
    found = [choice for choice in resolve(request) if choice.name == name]
    return found[0] if found else None


def with_explicit(request, **explicit):
    return replace(request, explicit=explicit)


# The campaign that the project comes from, and its neighbours: DeepSeek-V4-Flash-NVFP4.
@pytest.mark.parametrize(
    ("release", "arch", "patches", "value", "how", "words"),
    [
        ("0.5.13", "sm_120", PATCHED, "marlin", "table", "swiglu_limit 10"),
        ("0.5.14", "sm_120", frozenset(), "marlin", "table", "swiglu_limit 10"),
        (
            "0.5.18",
            "sm_120",
            frozenset(),
            "marlin",
            "table",
            "flashinfer_cutlass silently drops swiglu_limit 10 before 0.5.21",
        ),
        ("0.5.20", "sm_120", frozenset(), "marlin", "table", "Marlin honours the clamp"),
        ("0.5.21", "sm_120", frozenset(), "flashinfer_cutlass", "table", "since 0.5.21"),
        ("0.5.23", "sm_120", frozenset(), "flashinfer_cutlass", "table", "since 0.5.21"),
        ("0.5.23", "sm_121", frozenset(), "flashinfer_cutlass", "table", "since 0.5.21"),
        ("0.5.18", "sm_90", frozenset(), "marlin", "table", "ValueError on SM90"),
        ("0.5.23", "sm_90", frozenset(), "marlin", "table", "ValueError on SM90"),
        ("0.5.13", "sm_90", PATCHED, "marlin", "table", "ValueError on SM90"),
        ("0.5.18", "sm_100", frozenset(), "flashinfer_trtllm_routed", "engine default", "validated"),
        ("0.5.23", "sm_103", frozenset(), "flashinfer_trtllm_routed", "engine default", "validated"),
    ],
)
def test_campaign(release, arch, patches, value, how, words):
    request = replace(HYBRID, release=release, arch=arch, patches=patches)
    choice = chosen(request, "moe_runner_backend")
    assert (choice.value, choice.how, choice.auto_value) == (value, how, "flashinfer_trtllm_routed")
    assert words in choice.reason
    assert [p for p in backends.problems(resolve(request)) if p.severity == "error"] == []


@pytest.mark.parametrize("release", ["0.5.13", "0.5.13.post1"])
@pytest.mark.parametrize("arch", ["sm_90", "sm_100", "sm_120"])
def test_campaign_unpatched_is_refused_with_the_reason(release, arch):
    choices = resolve(replace(HYBRID, release=release, arch=arch))
    (error,) = [problem for problem in backends.problems(choices) if problem.severity == "error"]
    assert error.kind == "checkpoint-misread"
    assert f"SGLang {release} reads this hybrid FP8 + NVFP4 checkpoint as plain fp8" in error.message
    assert "0.5.14 or newer" in error.fix
    assert "pr-25820" in error.fix
    assert "25820" in error.source


@pytest.mark.parametrize("release", ["0.5.13", "0.5.18", "0.5.23"])
def test_campaign_trtllm_routed_is_refused_on_sm120_and_right_on_sm100(release):
    request = with_explicit(
        replace(HYBRID, release=release, patches=PATCHED), moe_runner_backend="flashinfer_trtllm_routed"
    )
    (error,) = chosen(request, "moe_runner_backend").problems
    assert (error.severity, error.kind) == ("error", "backend-forbidden")
    assert "flashinfer_trtllm_routed does not work on sm_120" in error.message
    assert "Slipway passes" in error.fix
    right = chosen(replace(request, arch="sm_100"), "moe_runner_backend")
    assert (right.value, right.how, right.problems) == ("flashinfer_trtllm_routed", "explicit", ())


def test_campaign_cutlass_with_a_clamp_is_wrong_before_0_5_21():
    request = with_explicit(HYBRID, moe_runner_backend="flashinfer_cutlass")
    problems = chosen(request, "moe_runner_backend").problems
    assert ("error", "backend-wrong-answers") in [(p.severity, p.kind) for p in problems]
    later = chosen(replace(request, release="0.5.21"), "moe_runner_backend").problems
    assert [p.severity for p in later] == ["note"]


def test_campaign_no_speculation_on_sm120():
    problems = chosen(replace(HYBRID, speculative="EAGLE"), "moe_runner_backend").problems
    assert [(p.severity, p.kind) for p in problems] == [("error", "speculation-unsupported")]


def test_campaign_quantization_fp8_argument_is_refused():
    errors = chosen(with_explicit(HYBRID, quantization="fp8"), "quantization").problems
    assert "error" in [p.severity for p in errors]


# Automatic MoE runner: sglang.md C5. (request, release, arch, value, auto, how)
RUNNERS = [
    (NATIVE, "0.5.13", "sm_120", "marlin", "marlin"),
    (NATIVE, "0.5.15", "sm_120", "marlin", "marlin"),
    (NATIVE, "0.5.16", "sm_120", "flashinfer_mxfp4", "flashinfer_mxfp4"),
    (NATIVE, "0.5.18", "sm_90", "flashinfer_mxfp4", "unknown"),
    (NATIVE, "0.5.19", "sm_90", "flashinfer_mxfp4", "flashinfer_mxfp4"),
    (NATIVE, "0.5.18", "sm_100", "flashinfer_mxfp4", "unknown"),
    (NATIVE, "0.5.23", "sm_100", "flashinfer_mxfp4", "flashinfer_mxfp4"),
    (GPT_OSS, "0.5.13", "sm_80", "triton_kernel", "triton_kernel"),
    (GPT_OSS, "0.5.18", "sm_89", "triton_kernel", "triton_kernel"),
    (GPT_OSS, "0.5.18", "sm_90", "triton_kernel", "triton_kernel"),
    (GPT_OSS, "0.5.18", "sm_100", "flashinfer_mxfp4", "flashinfer_mxfp4"),
    (GPT_OSS, "0.5.13", "sm_120", "triton_kernel", "triton_kernel"),
    (GPT_OSS, "0.5.14", "sm_120", "marlin", "marlin"),
    (GPT_OSS, "0.5.16", "sm_120", "marlin", "marlin"),
    (GPT_OSS, "0.5.17", "sm_120", "flashinfer_mxfp4", "flashinfer_mxfp4"),
    (replace(GPT_OSS, tp=4, ep=4), "0.5.18", "sm_90", None, "unknown"),
    (MOE, "0.5.18", "sm_80", "triton", "triton"),
    (MOE, "0.5.18", "sm_86", "triton", "triton"),
    (MOE, "0.5.18", "sm_89", "triton", "triton"),
    (MOE, "0.5.18", "sm_90", "triton", "triton"),
    (MOE, "0.5.18", "sm_100", "triton", "triton"),
    (MOE, "0.5.18", "sm_120", "triton", "triton"),
    (replace(MOE, model_class="Qwen3MoeForCausalLM"), "0.5.23", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (R1, "0.5.18", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (R1, "0.5.18", "sm_103", "flashinfer_trtllm", "flashinfer_trtllm"),
    (R1, "0.5.18", "sm_90", "triton", "triton"),
    (R1, "0.5.18", "sm_89", "triton", "triton"),
    (R1, "0.5.18", "sm_120", "triton", "triton"),
    (with_explicit(R1, moe_a2a_backend="deepep"), "0.5.18", "sm_90", "deep_gemm", "deep_gemm"),
    (replace(R1, model_class="MixtralForCausalLM"), "0.5.18", "sm_100", "triton or deep_gemm", "triton or deep_gemm"),
    (replace(R1, quantization="modelopt_fp8"), "0.5.18", "sm_90", "triton", "triton"),
    (replace(R1, quantization="modelopt_fp8"), "0.5.18", "sm_120", "triton", "triton"),
    (replace(R1, quantization="modelopt_fp8"), "0.5.18", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (replace(R1, quantization="modelopt_fp8"), "0.5.18", "sm_80", None, "unknown"),
    (replace(R1, quantization="mxfp8"), "0.5.18", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (replace(R1, quantization="mxfp8"), "0.5.18", "sm_90", None, "unknown"),
    (replace(R1, quantization="modelopt_fp4"), "0.5.18", "sm_80", "marlin", "marlin"),
    (replace(R1, quantization="modelopt_fp4"), "0.5.18", "sm_89", "marlin", "marlin"),
    (replace(R1, quantization="modelopt_fp4"), "0.5.18", "sm_90", "marlin", "marlin"),
    (replace(R1, quantization="modelopt_fp4"), "0.5.18", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (replace(R1, quantization="modelopt_fp4"), "0.5.18", "sm_120", "flashinfer_cutlass", "flashinfer_trtllm"),
    (replace(R1, quantization="modelopt_fp4", swiglu_limit=7.0), "0.5.20", "sm_120", "marlin", "flashinfer_trtllm"),
    (
        replace(R1, quantization="modelopt_fp4", swiglu_limit=7.0),
        "0.5.21",
        "sm_120",
        "flashinfer_cutlass",
        "flashinfer_trtllm",
    ),
    (
        replace(R1, quantization="modelopt_fp4", explicit={"quantization": "modelopt_fp4"}),
        "0.5.18",
        "sm_120",
        "flashinfer_cutlass",
        "flashinfer_cutlass",
    ),
    (
        replace(R1, quantization="modelopt_fp4", model_class="MiniMaxM2ForCausalLM"),
        "0.5.23",
        "sm_100",
        "flashinfer_trtllm_routed",
        "flashinfer_trtllm_routed",
    ),
    (replace(R1, quantization="modelopt_mixed"), "0.5.18", "sm_90", "marlin", "marlin"),
    (replace(R1, quantization="modelopt_mixed"), "0.5.18", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (replace(R1, quantization="modelopt_mixed"), "0.5.18", "sm_120", "flashinfer_cutlass", "flashinfer_cutlass"),
    (KIMI_INT4, "0.5.18", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (KIMI_INT4, "0.5.18", "sm_90", "marlin", "marlin"),
    (KIMI_INT4, "0.5.18", "sm_120", "marlin", "marlin"),
    (replace(KIMI_INT4, model_class="MixtralForCausalLM"), "0.5.18", "sm_100", "marlin", "marlin"),
    (replace(KIMI_INT4, model_class="MixtralForCausalLM"), "0.5.19", "sm_100", "triton", "triton"),
    (replace(MOE, quantization="awq_marlin"), "0.5.18", "sm_80", "marlin", "marlin"),
    (replace(MOE, quantization="gptq_marlin"), "0.5.18", "sm_89", "marlin", "marlin"),
    (replace(MOE, quantization="awq"), "0.5.18", "sm_100", "marlin", "marlin"),
    (
        replace(MOE, quantization="w4afp8"),
        "0.5.18",
        "sm_90",
        "cutlass w4a8 path of the method",
        "cutlass w4a8 path of the method",
    ),
    (
        replace(MOE, quantization="compressed-tensors", experts="nvfp4"),
        "0.5.18",
        "sm_100",
        "cutlass path of the scheme",
        "cutlass path of the scheme",
    ),
    (
        replace(MOE, quantization="compressed-tensors", experts="nvfp4"),
        "0.5.18",
        "sm_120",
        "cutlass path of the scheme",
        "cutlass path of the scheme",
    ),
    (replace(MOE, quantization="compressed-tensors", experts="int8"), "0.5.18", "sm_90", None, "unknown"),
    (replace(MOE, quantization="nvfp4_online"), "0.5.14", "sm_100", "flashinfer_trtllm", "flashinfer_trtllm"),
    (DENSE, "0.5.18", "sm_90", "none", "none"),
    (MOE, "0.5.13", "cpu", None, "unknown"),
    (MOE, "0.5.18", "sm_75", None, "unknown"),
]


@pytest.mark.parametrize(("request_", "release", "arch", "value", "auto"), RUNNERS)
def test_moe_runner(request_, release, arch, value, auto):
    choice = chosen(replace(request_, release=release, arch=arch), "moe_runner_backend")
    assert (choice.value, choice.auto_value) == (value, auto)
    assert choice.reason
    assert choice.source


def test_modelopt_fp4_on_sm120_also_names_the_quantization():
    flags = backends.passed_flags(resolve(replace(R1, quantization="modelopt_fp4", arch="sm_120", role="unified")))
    assert flags == {"quantization": "modelopt_fp4", "moe_runner_backend": "flashinfer_cutlass"}


# What no GPU of that generation can do, refused. (request, arch, kind, words)
@pytest.mark.parametrize(
    ("request_", "arch", "kind", "words"),
    [
        (replace(MOE, quantization="mxfp8"), "sm_90", "quantization-unsupported", "10.0"),
        (replace(MOE, quantization="mxfp8"), "sm_120", "backend-missing", "no MoE runner for mxfp8"),
        (replace(MOE, quantization="modelopt_fp8"), "sm_86", "quantization-unsupported", "8.9"),
        (replace(MOE, quantization="w4afp8"), "sm_89", "quantization-unsupported", "9.0"),
        (replace(MOE, quantization="nvfp4_online"), "sm_120", "quantization-unsupported", "SM100 and SM103"),
        (replace(MOE, quantization="compressed-tensors", experts="nvfp4"), "sm_90", "quantization-unsupported", "10.0"),
        (NATIVE, "sm_89", "model-unsupported", "DeepSeek-V4"),
        (replace(R1, model_class="DeepseekV32ForCausalLM", attention="dsa"), "sm_89", "model-unsupported", "DSA"),
    ],
)
def test_what_cannot_run_is_refused(request_, arch, kind, words):
    problems = backends.problems(resolve(replace(request_, arch=arch)))
    errors = [problem for problem in problems if problem.severity == "error"]
    assert kind in [problem.kind for problem in errors]
    assert words in errors[0].message
    assert all(problem.fix for problem in errors)


@pytest.mark.parametrize(("arch", "severity"), [("sm_100", "warning"), ("sm_120", "warning")])
def test_w4afp8_is_unverified_above_sm90(arch, severity):
    (problem,) = chosen(replace(MOE, quantization="w4afp8", arch=arch), "moe_runner_backend").problems
    assert problem.severity == severity


# Attention defaults: sglang.md C3.
ALL = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
DSA = replace(R1, model_class="DeepseekV32ForCausalLM", attention="dsa")
ATTENTION = [
    (DENSE, ALL, "flashinfer flashinfer fa3 trtllm_mha flashinfer"),
    (DENSE, ("sm_86", "sm_103", "sm_121", "cpu", "sm_75"), "flashinfer trtllm_mha flashinfer torch_native -"),
    (replace(DENSE, attention_sinks=True), ALL, "triton triton fa3 trtllm_mha triton"),
    (replace(DENSE, speculative="EAGLE", speculative_topk=4), ALL[2:4], "flashinfer flashinfer"),
    (replace(DENSE, speculative="EAGLE", speculative_topk=1), ALL[2:4], "fa3 trtllm_mha"),
    (replace(R1, model_class="DeepseekV2ForCausalLM"), ALL, "triton triton fa3 flashinfer triton"),
    (R1, (*ALL, "sm_103"), "triton triton fa3 trtllm_mla triton trtllm_mla"),
    (replace(R1, model_class="KimiK25ForConditionalGeneration"), ALL, "triton triton fa3 trtllm_mla triton"),
    (GPT_OSS, ALL, "triton triton fa3 trtllm_mha triton"),
    (replace(DENSE, model_class="Llama4ForConditionalGeneration"), ALL, "triton triton fa3 trtllm_mha triton"),
    (replace(DENSE, model_class="Gemma4ForCausalLM"), ALL, "triton triton triton trtllm_mha triton"),
    (NATIVE, ALL, "- - dsv4 dsv4 dsv4"),
    (DSA, ALL, "- - dsa dsa dsa"),
    (replace(DSA, model_class="GlmMoeDsaForCausalLM"), ALL, "- - dsa dsa dsa"),
    (replace(DENSE, attention="hybrid"), ALL[2:3], "-"),
    (replace(DENSE, attention="swa"), ALL[2:3], "-"),
]


@pytest.mark.parametrize(("request_", "arches", "values"), ATTENTION)
def test_attention(request_, arches, values):
    found = [chosen(replace(request_, arch=arch), "attention_backend") for arch in arches]
    assert " ".join(choice.value or "-" for choice in found) == values
    assert all(choice.value or choice.auto_value == "unknown" for choice in found)


@pytest.mark.parametrize(
    ("request_", "arch", "page", "kv"),
    [
        (NATIVE, "sm_120", 256, "fp8_e4m3"),
        (replace(R1, model_class="DeepseekV32ForCausalLM", attention="dsa", role="decode"), "sm_90", 64, "bfloat16"),
        (replace(R1, model_class="DeepseekV32ForCausalLM", attention="dsa", role="decode"), "sm_100", 64, "fp8_e4m3"),
        (replace(R1, model_class="DeepseekV32ForCausalLM", attention="dsa", role="decode"), "sm_120", 64, "fp8_e4m3"),
        (R1, "sm_100", 64, "auto"),
        (R1, "sm_90", 1, "auto"),
        (DENSE, "sm_100", 64, "auto"),
        (DENSE, "sm_120", 1, "auto"),
        (replace(R1, quantization="modelopt_fp4", kv_cache_quant="fp8"), "sm_100", 64, "fp8_e4m3"),
    ],
)
def test_page_size_and_kv_dtype(request_, arch, page, kv):
    request_ = replace(request_, arch=arch)
    assert chosen(request_, "page_size").value == page
    assert chosen(request_, "kv_cache_dtype").value == kv


def test_roles_name_the_kv_dtype_of_dsa_because_gpus_differ():
    dsa = replace(R1, model_class="DeepseekV32ForCausalLM", attention="dsa")
    assert chosen(dsa, "kv_cache_dtype").how == "engine default"
    assert chosen(replace(dsa, role="prefill"), "kv_cache_dtype").how == "table"


@pytest.mark.parametrize(
    ("quantization", "arch", "release", "setting", "value"),
    [
        ("modelopt_fp4", "sm_90", "0.5.18", "fp4_gemm_backend", "marlin"),
        ("modelopt_fp4", "sm_100", "0.5.18", "fp4_gemm_backend", "flashinfer_cutedsl"),
        ("modelopt_fp4", "sm_120", "0.5.18", "fp4_gemm_backend", "flashinfer_cutlass"),
        ("fp8", "sm_120", "0.5.13", "fp8_gemm_backend", "triton"),
        ("fp8", "sm_120", "0.5.15", "fp8_gemm_backend", "triton"),
        ("fp8", "sm_120", "0.5.16", "fp8_gemm_backend", "cutlass"),
        ("fp8", "sm_120", "0.5.18", "fp8_gemm_backend", "cutlass"),
        ("fp8", "sm_90", "0.5.18", "fp8_gemm_backend", "deep_gemm"),
        ("fp8", "sm_89", "0.5.18", "fp8_gemm_backend", "triton"),
    ],
)
def test_dense_gemm(quantization, arch, release, setting, value):
    assert chosen(replace(MOE, quantization=quantization, arch=arch, release=release), setting).value == value


# Values that a user may write. (request, arch, setting, value, severity or None)
EXPLICIT = [
    (R1, "sm_120", "attention_backend", "trtllm_mla", "error"),
    (R1, "sm_100", "attention_backend", "trtllm_mla", None),
    (R1, "sm_90", "attention_backend", "trtllm_mla", "error"),
    (R1, "sm_90", "attention_backend", "flashmla", None),
    (DENSE, "sm_120", "attention_backend", "fa3", "error"),
    (DENSE, "sm_100", "attention_backend", "fa3", "error"),
    (DENSE, "sm_90", "attention_backend", "fa3", None),
    (DENSE, "sm_90", "attention_backend", "trtllm_mha", "error"),
    (DENSE, "sm_90", "decode_attention_backend", "trtllm_mha", None),
    (DENSE, "sm_90", "prefill_attention_backend", "trtllm_mha", "error"),
    (replace(DENSE, release="0.5.19"), "sm_90", "attention_backend", "trtllm_mha", None),
    (replace(DENSE, release="0.5.19"), "sm_120", "attention_backend", "trtllm_mha", None),
    (DENSE, "sm_90", "attention_backend", "triton", None),
    (DENSE, "sm_90", "attention_backend", "flex_attention", "warning"),
    (DENSE, "sm_90", "attention_backend", "auto", None),
    (replace(DENSE, release="0.5.13"), "cpu", "attention_backend", "triton", "error"),
    (replace(DENSE, release="0.5.13"), "cpu", "attention_backend", "torch_native", None),
    (NATIVE, "sm_120", "attention_backend", "flashinfer", "error"),
    (NATIVE, "sm_120", "kv_cache_dtype", "fp8_e5m2", "error"),
    (NATIVE, "sm_120", "kv_cache_dtype", "bfloat16", "warning"),
    (DENSE, "sm_90", "kv_cache_dtype", "nvfp4", "error"),
    (DENSE, "sm_100", "kv_cache_dtype", "nvfp4", None),
    (DENSE, "sm_90", "kv_cache_dtype", "fp8_e4m3", None),
    (NATIVE, "sm_120", "page_size", 64, "error"),
    (NATIVE, "sm_120", "page_size", 256, None),
    (replace(NATIVE, release="0.5.23"), "sm_100", "dsv4_attn_backend", "trtllm", "error"),
    (replace(NATIVE, release="0.5.23", role="unified"), "sm_100", "dsv4_attn_backend", "trtllm", None),
    (R1, "sm_90", "moe_runner_backend", "deep_gemm", None),
    (R1, "sm_90", "moe_runner_backend", "flashinfer_trtllm", "error"),
    (R1, "sm_120", "moe_runner_backend", "cutlass", None),
    (R1, "sm_89", "moe_runner_backend", "cutlass", "error"),
    (replace(R1, tp=8, ep=8), "sm_120", "moe_runner_backend", "cutlass", "error"),
    (R1, "sm_120", "moe_runner_backend", "flashinfer_cutlass", "error"),
    (R1, "sm_90", "moe_runner_backend", "humming", "warning"),
    (GPT_OSS, "sm_80", "moe_runner_backend", "marlin", "error"),
    (replace(GPT_OSS, driver="595.10"), "sm_100", "moe_runner_backend", "triton_kernel", "error"),
    (replace(GPT_OSS, driver="580.159.04"), "sm_100", "moe_runner_backend", "triton_kernel", None),
    (replace(GPT_OSS, release="0.5.16"), "sm_120", "moe_runner_backend", "flashinfer_mxfp4", "error"),
    (replace(GPT_OSS, release="0.5.17"), "sm_120", "moe_runner_backend", "flashinfer_mxfp4", None),
    (replace(NATIVE, release="0.5.15"), "sm_120", "moe_runner_backend", "flashinfer_mxfp4", "error"),
    (replace(HYBRID, release="0.5.14"), "sm_100", "moe_runner_backend", "flashinfer_cutedsl", "error"),
    (replace(HYBRID, release="0.5.15"), "sm_100", "moe_runner_backend", "flashinfer_cutedsl", None),
    (replace(HYBRID, release="0.5.16"), "sm_100", "moe_runner_backend", "cutlass", "error"),
    (replace(R1, quantization="modelopt_fp4"), "sm_121", "moe_runner_backend", "cutlass", "error"),
    (
        replace(R1, quantization="modelopt_mixed", release="0.5.15"),
        "sm_100",
        "moe_runner_backend",
        "flashinfer_trtllm_routed",
        "error",
    ),
    (R1, "sm_120", "moe_a2a_backend", "megamoe", "error"),
    (R1, "sm_120", "moe_a2a_backend", "deepep", "error"),
    (DENSE, "sm_90", "moe_runner_backend", "triton", None),
    (DENSE, "sm_90", "disaggregation_transfer_backend", "nixl", None),
    (DENSE, "cpu", "disaggregation_transfer_backend", "nixl", "error"),
    (replace(DENSE, role="prefill"), "sm_90", "disaggregation_transfer_backend", "fake", "error"),
    (R1, "sm_120", "fp8_gemm_backend", "deep_gemm", "error"),
    (R1, "sm_90", "fp8_gemm_runner_backend", "cutlass", "error"),
    (replace(R1, release="0.5.15"), "sm_90", "fp8_gemm_backend", "cutlass", None),
    (replace(R1, release="0.5.13"), "sm_120", "fp8_gemm_backend", "cutlass", None),
]


@pytest.mark.parametrize(("request_", "arch", "setting", "value", "severity"), EXPLICIT)
def test_explicit_values(request_, arch, setting, value, severity):
    request_ = with_explicit(replace(request_, arch=arch), **{setting: value})
    choice = chosen(request_, setting.replace("fp8_gemm_runner", "fp8_gemm"))
    worst = next((p.severity for p in backends.problems((choice,)) if p.severity != "note"), None)
    assert worst == severity
    assert value == "auto" or (choice.value, choice.how) == (value, "explicit")


def test_an_explicit_choice_still_says_what_the_engine_would_do():
    choice = chosen(with_explicit(DENSE, attention_backend="triton"), "attention_backend")
    assert choice.auto_value == "fa3"


@pytest.mark.parametrize(
    ("request_", "explicit", "kind"),
    [
        (
            replace(R1, quantization="modelopt_fp4", tp=8, ep=4),
            {"moe_runner_backend": "flashinfer_cutlass"},
            "expert-parallel",
        ),
        (replace(R1, tp=8), {"moe_a2a_backend": "pplx", "moe_runner_backend": "triton"}, "backend-combination"),
        (replace(R1, tp=8), {"moe_a2a_backend": "flashinfer", "moe_runner_backend": "triton"}, "backend-combination"),
        (replace(DENSE, arch="sm_90"), {"attention_backend": "fa3", "kv_cache_dtype": "fp8_e5m2"}, "silent-fallback"),
        (R1, {"attention_backend": "trtllm_mla", "kv_cache_dtype": "fp8_e5m2"}, "backend-combination"),
    ],
)
def test_combinations(request_, explicit, kind):
    assert kind in [problem.kind for problem in backends.problems(resolve(with_explicit(request_, **explicit)))]


def test_a2a_says_that_it_sets_ep():
    (note,) = chosen(
        with_explicit(replace(R1, arch="sm_90", tp=8), moe_a2a_backend="deepep"), "moe_a2a_backend"
    ).problems
    assert (note.severity, note.fix) == ("note", "write ep: 8")


def test_cpu():
    choices = resolve(replace(DENSE, release="0.5.13", arch="cpu", role="prefill"))
    assert backends.passed_flags(choices) == {
        "device": "cpu",
        "attention_backend": "torch_native",
        "disaggregation_transfer_backend": "mooncake_tcp",
        "grammar_backend": "none",
    }
    assert backends.environment(choices) == {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}
    assert [p for p in backends.problems(choices) if p.severity == "error"] == []


@pytest.mark.parametrize(
    ("release", "role", "severity"),
    [
        ("0.5.13", "decode", None),
        ("0.5.15.post1", "unified", None),
        ("0.5.15.post1", "decode", "warning"),
        ("0.5.16", "unified", "error"),
        ("0.5.18", "unified", "warning"),
        ("0.5.23", "unified", "error"),
    ],
)
def test_cpu_by_release(release, role, severity):
    (choice,) = [c for c in resolve(replace(DENSE, release=release, arch="cpu", role=role)) if c.name == "device"]
    assert ([p.severity for p in choice.problems] or [None]) == [severity]


def test_sm121_overrides():
    spark = replace(HYBRID, arch="sm_121")
    assert backends.environment(resolve(spark)) == {
        "NCCL_NVLS_ENABLE": "0",
        "SGLANG_ENABLE_JIT_DEEPGEMM": "0",
        "SGLANG_OPT_USE_TILELANG_INDEXER": "1",
    }
    assert "SGLANG_ENABLE_JIT_DEEPGEMM" not in backends.environment(resolve(replace(spark, release="0.5.21")))
    draft = chosen(replace(R1, arch="sm_121", speculative="EAGLE"), "speculative_moe_runner_backend")
    assert draft.value == "marlin"


def test_gb200_environment():
    found = backends.environment(resolve(replace(R1, role="prefill", gpu="gb200")))
    assert found["MC_FORCE_MNNVL"] == "1"
    assert backends.environment(resolve(replace(R1, role="prefill", gpu="b200"))) == {}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(R1, quantization="modelopt_fp4"), "26324"),
        (replace(R1, quantization="modelopt_fp4", arch="sm_120"), "2723"),
        (replace(MOE, model_class="Glm4MoeLiteForCausalLM", arch="sm_120"), "18874"),
        (replace(R1, model_class="DeepseekV32ForCausalLM", attention="dsa", arch="sm_120"), "23657"),
        (replace(DENSE, arch="sm_89", gpu="l40s", role="decode"), "23272"),
        (replace(DENSE, arch="sm_120", gpu="rtx_pro_6000", role="decode"), "1999"),
        (replace(MOE, quantization="w4afp8", experts="nvfp4", release="0.5.13"), "27906"),
    ],
)
def test_known_bad(request_, words):
    found = [problem for problem in backends.problems(resolve(request_)) if problem.kind == "known-bad"]
    assert words in " ".join(problem.source for problem in found)
    assert all(problem.fix for problem in found)


def test_an_unknown_gpu_is_said_once_and_nothing_is_guessed():
    choices = resolve(replace(R1, arch="sm_75"))
    assert [p.kind for p in backends.problems(choices)] == ["architecture-unknown"]
    assert chosen(replace(R1, arch="sm_75"), "moe_runner_backend").confidence == "unknown"


@pytest.mark.parametrize(("release", "applied"), [("0.5.99", "0.5.99"), ("c0bb04b67f", "0.5.23"), ("0.4.9", "0.4.9")])
def test_an_unknown_release_is_said(release, applied):
    (problem,) = [p for p in backends.problems(resolve(replace(DENSE, release=release))) if p.kind == "release-unknown"]
    assert f"the rows of {applied} were applied" in problem.message


def test_problems_come_errors_first():
    severities = [
        p.severity
        for p in backends.problems(
            resolve(with_explicit(replace(HYBRID, release="0.5.23", gpu="rtx_pro_6000"), attention_backend="fa3"))
        )
    ]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert severities[0] == "error"


@pytest.mark.parametrize(
    ("release", "patches", "refused"), [("0.5.14", (), True), ("0.5.14", ("pr-27906",), False), ("0.5.15", (), False)]
)
def test_mixed_precision_is_misread_before_0_5_15(release, patches, refused):
    request = replace(MOE, quantization="modelopt_mixed", release=release, patches=frozenset(patches))
    assert ("checkpoint-misread" in [p.kind for p in backends.problems(resolve(request))]) is refused
