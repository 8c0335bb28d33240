"""Traces read, added up and shown: a real one of the CPU engine, and a synthetic one with a known truth."""

import gzip
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from slipway.agent.simulator.profiler import PITCH_US, STEP, trace
from slipway.knowledge.kernel_groups import group_of
from slipway.profile import TraceError, breakdown, events, picture, table_lines

CPU = Path(__file__).parents[2] / "data/profile/cpu-decode.trace.json.gz"
STEPS = 50


def simulated(steps=STEPS):
    return json.dumps(trace(steps)).encode()


def pieces(data, size):
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [7, 4096, 10**7])
@pytest.mark.parametrize("packed", [True, False])
def test_events_are_the_same_however_the_bytes_come(size, packed):
    data = simulated(3)

    found = list(events(pieces(gzip.compress(data) if packed else data, size)))

    assert found == json.loads(data)["traceEvents"]


def test_names_that_are_no_ascii_survive_being_cut():
    data = (
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "\u00b5\u65e5\U0001f600", "ts": 1, "dur": 2}]}'.encode()
    )

    assert next(events(pieces(data, 1)))["name"] == "\u00b5\u65e5\U0001f600"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (simulated()[:-200], "ends in the middle"),
        (gzip.compress(simulated())[:300], "ends in the middle"),
        (b"\x1f\x8b" + b"no gzip at all" * 9, "damaged"),
        (b"[1, 2, 3]", "no traceEvents"),
        (b"", "no traceEvents"),
    ],
)
def test_what_is_no_whole_trace_says_so(data, words):
    with pytest.raises(TraceError, match=words):
        list(events([data]))


def test_shares_calls_and_idle_time_are_those_that_were_put_in():
    found = breakdown(events([simulated()]))

    step = sum(length for _, _, length in STEP)
    shares = {share.name: (round(share.us), share.calls, round(share.part, 6)) for share in found.kernels}
    assert found.device == "gpu"
    assert shares == {name: (length * STEPS, STEPS, round(length / step, 6)) for name, _, length in STEP}
    assert found.busy_us == pytest.approx(step * STEPS)
    assert found.span_us == pytest.approx(PITCH_US * (STEPS - 1) + step)
    assert found.steps == (("DECODE bs=1", STEPS),)


def test_groups_add_up_and_stand_in_the_table():
    found = breakdown(events([simulated()]))

    parts = {share.name: round(share.part, 3) for share in found.groups}
    assert parts == {"attention": 0.3, "moe": 0.06, "gemm": 0.45, "communication": 0.15, "other": 0.04}
    lines = table_lines(found, most=2)
    assert lines[0].startswith("12.4 ms from first to last, GPU busy 10.0 ms, idle 19.7%; 50 x DECODE bs=1")
    assert any(line.split()[:4] == ["GEMM", "4.500", "45.0%", "50"] for line in lines)
    assert lines[-1].split() == ["2.500", "25.0%", "200", "4", "more"]


def test_kernels_that_run_side_by_side_are_not_busy_twice():
    rows = [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": tid, "ts": 0, "dur": 100} for tid in (1, 2)]

    found = breakdown(rows)

    assert (found.total_us, found.busy_us) == (200, 100)


def test_the_real_trace_of_the_cpu_engine_counts_each_operator_without_what_it_calls():
    found = breakdown(events([CPU.read_bytes()]))

    times = {share.name: share for share in found.kernels}
    assert found.device == "cpu"
    assert found.steps == (("DECODE bs=1", 4),)
    assert times["aten::linear"].us < times["aten::mm"].us  # it contains the mm
    assert found.total_us == pytest.approx(found.busy_us, rel=0.05)  # one thread: own times fill the busy time
    assert "aten::mm" in "\n".join(table_lines(found, most=5))


# As they stand in traces of GPUs: sglang#22440 and #22353, and public profiles of sglang, vLLM and TRT-LLM.
NAMES = {
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2"
    ", cute::tuple<cute::C<1> > > > >": "attention",
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u>(Params)": "attention",
    "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64MultiCtasKvVarSeqQ8Kv128StaticSwapsAbForGen": "attention",
    "_fwd_grouped_kernel_stage1": "attention",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication",
    "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>": "communication",
    "void moe::dev::routing::routingCustom::routingIndicesClusterKernel": "moe",
    "void moe_align_block_size_kernel<int>": "moe",
    "fused_moe_kernel": "moe",
    "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeI": "moe",
    "nvjet_tst_64x16_64x16_2x1_v_bz_splitK_TNT": "gemm",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel": "gemm",
    "void marlin::Marlin<__nv_bfloat16, 4, 256>": "gemm",
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>": "gemm",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >": "other",
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>": "other",
    "act_and_mul_kernel": "other",
    "Memset (Device)": "other",
}  # fmt: skip


@pytest.mark.parametrize(("name", "group"), NAMES.items())
def test_kernels_of_real_gpus_are_grouped(name, group):
    assert group_of(name) == group


def test_the_picture_is_one_svg_with_every_group_and_no_markup_from_names():
    rows = [{"ph": "X", "cat": "kernel", "name": "<script>x</script>&gemm", "pid": 0, "tid": 1, "ts": 0, "dur": 5}]

    text = picture(breakdown(rows), "decode-0 <b>")

    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert "<script>" not in text
    for word in ("attention", "MoE", "GEMM 100.0%", "communication", "other"):
        assert word in text
