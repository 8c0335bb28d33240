"""Workers that share a GPU: only where both say so, and only with memory for both."""

import pytest

from slipway.front import open_inventory
from tests.examples.golden import ROOT

ONE_GPU = {"hardware": "1xH200", "prefill.gpus": [0], "decode.gpus": [0]}


def findings(tmp_path, **more):
    """Of examples/h200-x2 on one GPU."""
    return open_inventory(ROOT / "examples/h200-x2/inventory.py", {**ONE_GPU, **more}).plan({}).findings


@pytest.mark.parametrize(
    ("settings", "rule", "says"),
    [
        ({}, "placement.gpu-overlap", "GPU 0 is wanted by decode-0 and held by prefill-0"),
        ({"prefill.share_gpus": True}, "placement.gpu-overlap", "wanted by decode-0"),
        ({"decode.share_gpus": True}, "placement.gpu-overlap", "wanted by decode-0"),
        (
            {"worker.share_gpus": True, "decode.mem_fraction_static": 0.8},
            "gpu-shared-memory",
            "add up to 1.00; must be at most 0.9",
        ),
        (
            {"worker.share_gpus": True, "worker.mem_fraction_static": None},
            "gpu-shared-memory",
            "prefill-0, decode-0 would take nearly all of its memory",
        ),
    ],
)
def test_what_is_refused(tmp_path, settings, rule, says):
    found = [finding for finding in findings(tmp_path, **settings) if finding.severity == "error"]

    assert [finding.rule for finding in found][:1] == [rule]
    assert says in found[0].message


def test_two_that_share_and_fit_are_planned_on_one_gpu(tmp_path):
    plan = open_inventory(ROOT / "examples/h200-x2/inventory.py", {**ONE_GPU, "worker.share_gpus": True}).plan({})

    assert plan.errors == ()
    assert {one.name: one.gpus for one in plan.of("prefill", "decode")} == {"prefill-0": (0,), "decode-0": (0,)}
    assert [finding.rule for finding in plan.findings if finding.severity == "warning"] == ["gpu-shared"]
