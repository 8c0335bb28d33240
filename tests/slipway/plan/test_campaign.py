"""The campaign that the project comes from: DeepSeek-V4-Flash-NVFP4, TP 4 + 4, through the whole plan."""

import pytest

from tests.slipway.plan.site import ONE_HOST, campaign, flags, instance, made, planned, rules


def test_the_release_that_misreads_the_checkpoint_is_refused_with_the_reason(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.13"))

    (error,) = plan.errors
    assert error.rule == "quant-misread"
    assert "SGLang 0.5.13 reads this checkpoint as fp8" in error.message
    assert "really nvfp4" in error.message
    assert "0.5.14 or newer" in error.fix
    assert "pr-25820" in error.fix


@pytest.mark.parametrize(
    ("release", "patches", "hardware", "runner", "words"),
    [
        ("0.5.13", ["pr-25820"], "8xRTX PRO 6000", "marlin", "swiglu_limit 10"),
        ("0.5.18", [], "8xRTX PRO 6000", "marlin", "flashinfer_cutlass silently drops swiglu_limit 10 before 0.5.21"),
        ("0.5.23", [], "8xRTX PRO 6000", "flashinfer_cutlass", "honours swiglu_limit since 0.5.21"),
        ("0.5.18", [], "8xH200", "marlin", "ValueError on SM90"),
    ],
)
def test_the_runner_is_decided_by_architecture_checkpoint_and_release(
    tmp_path, release, patches, hardware, runner, words
):
    result = made(tmp_path, ONE_HOST, campaign(release, patches=patches, hardware=hardware))

    assert result.plan.errors == ()
    for name in ("prefill-0", "decode-0"):
        assert flags(result.plan, name)["--moe-runner-backend"] == runner
        choice = result.evidence.by_name[name].choices["moe_runner_backend"]
        assert choice.how == "table"
        assert words in choice.reason


def test_a_runner_without_a_kernel_is_refused_on_sm_120(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", moe_runner_backend="flashinfer_trtllm_routed"))

    assert set(rules(plan, "error")) == {"backend-forbidden"}
    assert "does not work on sm_120" in plan.errors[0].message
    assert "Slipway passes marlin" in plan.errors[0].fix


def test_the_same_runner_is_right_on_sm_100(tmp_path):
    settings = campaign("0.5.18", hardware="8xB200", moe_runner_backend="flashinfer_trtllm_routed")
    plan = planned(tmp_path, ONE_HOST, settings)

    assert plan.errors == ()
    assert flags(plan, "prefill-0")["--moe-runner-backend"] == "flashinfer_trtllm_routed"


def test_what_the_engine_does_anyway_is_not_passed(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", hardware="8xB200"))

    assert "--moe-runner-backend" not in flags(plan, "prefill-0")
    assert "--page-size" not in flags(plan, "prefill-0")


def test_gpus_are_halves_of_the_host_and_memory_is_reckoned(tmp_path):
    result = made(tmp_path, ONE_HOST, campaign("0.5.18"))

    assert instance(result.plan, "prefill-0").gpus == (0, 1, 2, 3)
    assert instance(result.plan, "decode-0").gpus == (4, 5, 6, 7)
    assert instance(result.plan, "decode-0").env["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    memory = result.evidence.by_name["decode-0"].memory
    assert 36 < memory.weights / 2**30 < 38
    assert memory.tokens > 1_000_000


def test_what_does_not_fit_is_refused_with_the_arithmetic(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.18", tp=1))

    assert "memory-does-not-fit" in rules(plan, "error")
    error = next(finding for finding in plan.errors if finding.rule == "memory-does-not-fit")
    assert "145.71 GiB of weights" in error.message
    assert "(0.9 of 94.33 GiB usable)" in error.message


def test_patches_are_part_of_the_build_and_no_patch_leaves_its_id_alone(tmp_path):
    plain = planned(tmp_path, ONE_HOST, campaign("0.5.13"))
    patched = planned(tmp_path, ONE_HOST, campaign("0.5.13", patches=["pr-25820"]))

    build = {one.kind: one for one in patched.hosts[0].builds}["sglang"]
    assert [patch.id for patch in build.patches] == ["pr-25820"]
    assert build.id != {one.kind: one for one in plain.hosts[0].builds}["sglang"].id
    assert "patches" not in {one.kind: one for one in plain.hosts[0].builds}["sglang"].inputs()
