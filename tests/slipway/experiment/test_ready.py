"""The experiments that ship: each planned offline, with what the plan refuses and why."""

from pathlib import Path

import pytest

from slipway.experiment.load import load_experiment
from slipway.experiment.planning import plan_experiment
from slipway.experiment.showing import plan_lines

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = sorted(path.stem for path in (ROOT / "experiments").glob("*.yml"))
# What the plan refuses of each, with the rule that does; nothing of those that are not named.
REFUSED = {
    "campaign": {
        "release_0_5_13": "quant-misread", "runner-trtllm": "backend-forbidden", "mtp-eagle": "speculation-unsupported",
    },
    "simulator": {"no_such_flag": "flag-unknown"},
}  # fmt: skip


def planned(name, **data):
    """Without asking a host, this machine included."""
    experiment = load_experiment(ROOT / "experiments", name)
    return experiment, plan_experiment(experiment, ROOT / experiment.inventory, data, lambda opened: {})


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_refused_is_refused_for_the_reason_that_is_known(name):
    _, found = planned(name)

    refused = {one.variant.name: one.refused for one in found if one.refused}

    assert set(refused) == set(REFUSED.get(name, {})), refused
    for variant, rule in REFUSED.get(name, {}).items():
        assert f"[{rule}]" in refused[variant]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_other_variant_changes_the_plan(name):
    _, found = planned(name)

    assert [one.variant.name for one in found[1:] if not one.refused and not one.differs] == []


def test_the_campaign_s_levers_reach_the_command_lines():
    _, found = planned("campaign")
    by = {one.variant.name: "\n".join(one.differs) for one in found}

    assert "~ --moe-runner-backend flashinfer_cutlass -> marlin" in by["runner-marlin"]
    assert "+ env NCCL_PROTO LL" in by["nccl-low_latency"]
    assert "+ --ep-size 4" in by["experts-ep4"]
    assert "--disable-cuda-graph" in by["graphs-off"]
    assert "flashinfer_mxfp4" in by["checkpoint-mxfp4"]
    assert "--speculative-algorithm EAGLE" in by["mxfp4_mtp"]
    assert "instance prefill-0" in by["experts-ep4"]
    assert "instance decode-0" in by["experts-ep4"]


def test_aggregated_uses_the_same_gpus():
    _, found = planned("aggregated")

    assert [one.inventory.name for one in found] == ["inventory.py", "aggregated.py", "aggregated.py"]
    assert "+ instance unified-1" in found[1].differs
    assert "+ instance unified-1" not in found[2].differs
    assert "- instance prefill-0" in found[1].differs


def test_a_variant_that_changes_nothing_is_refused(tmp_path):
    (tmp_path / "x.yml").write_text("about: what is to be found out\nvariants: [{name: a, set: {worker: {tp: 1}}}]")

    found = plan_experiment(load_experiment(tmp_path, "x"), ROOT / "inventory.py", {}, lambda opened: {})

    assert "its plan is the baseline's" in found[1].refused


def test_a_wrong_key_of_a_variant_is_told_as_config_errors_are(tmp_path):
    (tmp_path / "x.yml").write_text("about: what is to be found out\nvariants: [{name: a, set: {worker: {tpp: 1}}}]")

    found = plan_experiment(load_experiment(tmp_path, "x"), ROOT / "inventory.py", {}, lambda opened: {})

    assert "tpp: got unknown key" in found[1].refused
    assert "did you mean tp?" in found[1].refused


def test_an_unknown_patch_is_refused(tmp_path):
    (tmp_path / "x.yml").write_text("about: what is to be found out\nvariants: [{name: a, patches: [pr-1]}]")

    found = plan_experiment(load_experiment(tmp_path, "x"), ROOT / "inventory.py", {}, lambda opened: {})

    assert "pr-1" in found[1].refused


def test_the_listing_says_what_each_variant_sets_and_changes():
    text = "\n".join(plan_lines(*planned("campaign")))

    assert "10 of 13 measured, 3 round(s) each, interleaved, sweep origin" in text
    assert "refused: runner-trtllm: moe_runner_backend flashinfer_trtllm does not work on sm_120" in text
    assert "nccl-ring" in text
