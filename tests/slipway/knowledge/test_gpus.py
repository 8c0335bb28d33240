"""GPUs by the name that nvidia-smi prints."""

import pytest

from slipway.knowledge import gpus


@pytest.mark.parametrize(
    ("printed", "identity", "arch", "capability", "nvlink"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000", "sm_120", "12.0", "none"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx_pro_6000", "sm_120", "12.0", "none"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx_pro_6000", "sm_120", "12.0", "none"),
        ("NVIDIA GeForce RTX 5090", "rtx_5090", "sm_120", "12.0", "none"),
        ("NVIDIA GeForce RTX 4090", "rtx_4090", "sm_89", "8.9", "none"),
        ("NVIDIA L40S", "l40s", "sm_89", "8.9", "none"),
        ("NVIDIA L4", "l4", "sm_89", "8.9", "none"),
        ("NVIDIA A100-SXM4-40GB", "a100_40", "sm_80", "8.0", "switch"),
        ("NVIDIA A100-SXM4-80GB", "a100_80", "sm_80", "8.0", "switch"),
        ("NVIDIA A100 80GB PCIe", "a100_80_pcie", "sm_80", "8.0", "bridge"),
        ("NVIDIA H100 80GB HBM3", "h100", "sm_90", "9.0", "switch"),
        ("NVIDIA H100 PCIe", "h100_pcie", "sm_90", "9.0", "bridge"),
        ("NVIDIA H200", "h200", "sm_90", "9.0", "switch"),
        ("NVIDIA H20", "h20", "sm_90", "9.0", "switch"),
        ("NVIDIA GH200 480GB", "gh200", "sm_90", "9.0", "none"),
        ("NVIDIA B200", "b200", "sm_100", "10.0", "switch"),
        ("NVIDIA B300 SXM6 AC", "b300", "sm_103", "10.3", "switch"),
        ("NVIDIA GB200", "gb200", "sm_100", "10.0", "rack"),
        ("NVIDIA GB300", "gb300", "sm_103", "10.3", "rack"),
        ("  nvidia gb10 ", "gb10", "sm_121", "12.1", "none"),
    ],
)
def test_names(printed, identity, arch, capability, nvlink):
    gpu = gpus.find(printed)
    assert (gpu.id, gpu.arch, gpu.capability, gpu.nvlink) == (identity, arch, capability, nvlink)
    assert gpu.bandwidth_gb_s > 0
    assert gpu.memory_gib or gpu.unified


@pytest.mark.parametrize("printed", ["", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Radeon", "NVIDIA L4*"])
def test_other_names_are_unknown(printed):
    assert gpus.find(printed) is None


def test_what_is_not_sure_is_left_out():
    assert "fp4" not in gpus.find("NVIDIA B300 SXM6 AC").dense_tflops
    assert gpus.get("gb10").memory_gib is None
    assert gpus.get("nope") is None


def test_faster_types_are_faster():
    for gpu in gpus.known():
        rates = [gpu.dense_tflops[name] for name in ("bf16", "fp8", "fp4") if name in gpu.dense_tflops]
        assert rates == sorted(rates), gpu.name
