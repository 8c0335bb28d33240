"""The memory arithmetic against sums done by hand, real logs and a verified cell."""

from dataclasses import replace

import pytest

from slipway.memory import Layout, Use, plan_memory, weights_per_gpu
from slipway.memory.assumed import assumed, gib
from slipway.memory.kv import request_state, token_cost
from slipway.memory.weights import measured_scale, weight_parts
from tests.slipway.checkpoint.checkpoints import NAMES, checkpoint_of, rules

MIB, GIB = 2**20, 2**30
H200 = 143_771 * MIB
RTX_PRO_6000 = 97_887 * MIB
CONTEXT = 1_360_000_000
V4 = "deepseek-v4-flash-nvfp4"

# Bytes of KV that one token costs on one GPU, summed by hand.
TOKENS = [
    # 8 KV heads, K and V of 128 in bf16, 32 layers; split by TP, at least one head a rank
    ("llama-3.1-8b", Layout(), "auto", 8 * (128 + 128) * 2 * 32),
    ("llama-3.1-8b", Layout(tp=4), "auto", 2 * (128 + 128) * 2 * 32),
    ("llama-3.1-8b", Layout(tp=16), "auto", 1 * (128 + 128) * 2 * 32),
    ("llama-3.1-8b", Layout(tp=4), "fp8_e4m3", 2 * (128 + 128) * 1 * 32),
    ("llama-3.1-8b", Layout(tp=4, attn_dp=4), "auto", 8 * (128 + 128) * 2 * 32),
    ("llama-3.1-8b", Layout(tp=1, pp=4), "auto", 8 * (128 + 128) * 2 * 8),
    # 94 layers do not divide by 4: the largest stage has 24
    ("qwen3-235b-fp8", Layout(tp=4, pp=4), "auto", 1 * 256 * 2 * 24),
    # nvfp4: 4 bits and one byte of scale for 16 elements
    ("llama-3.1-8b", Layout(), "nvfp4", 8 * 256 * 0.5625 * 32),
    # MLA: a latent of 512 and 64 rotary elements on every rank, whatever the TP
    ("deepseek-r1-fp8", Layout(tp=8), "auto", (512 + 64) * 2 * 61),
    ("deepseek-r1-fp8", Layout(tp=16), "auto", (512 + 64) * 2 * 61),
    # the checkpoint declares an FP8 KV cache, so auto is one byte
    ("deepseek-r1-fp4", Layout(tp=8), "auto", (512 + 64) * 1 * 61),
    # with the MTP layer as draft, 62 layers keep KV
    ("deepseek-r1-fp8", Layout(tp=8, speculative=True), "auto", (512 + 64) * 2 * 62),
    # gpt-oss: 18 full layers, 18 window layers that keep 0.8 of the tokens
    ("gpt-oss-120b", Layout(tp=2), "auto", 4 * (64 + 64) * 2 * (18 + 0.8 * 18)),
    # Nemotron-H: 6 attention layers of 52 keep KV; FP8 by the checkpoint
    ("nemotron-h-mixed", Layout(tp=2), "auto", 1 * (128 + 128) * 1 * 6),
]


@pytest.mark.parametrize(("name", "layout", "dtype", "expected"), TOKENS)
def test_kv_bytes_of_a_token(name, layout, dtype, expected):
    cost = token_cost(checkpoint_of(name), layout, Use(H200, kv_cache_dtype=dtype))

    assert cost.bytes == pytest.approx(expected)


def test_the_real_engine_allocates_what_the_arithmetic_says():
    """captures/h200/agg.log: 4 layers, bf16, 262,144 tokens: K 0.25 GB and V 0.25 GB."""
    tiny = checkpoint_of("tiny")
    shape = replace(tiny.attention, layers=4, full_layers=4, kv_heads=4, head_dim=32, v_head_dim=32)
    cost = token_cost(replace(tiny, attention=shape), Layout(), Use(H200))

    assert cost.bytes * 262_144 == 0.5 * GIB


def test_deepseek_v4_follows_the_engines_pools():
    """584 B a latent (448 FP8, 64 bf16, 8 of scales), 132 B an index key, rings of 8 rows in a page of 256."""
    cost = token_cost(checkpoint_of(V4), Layout(tp=4), Use(RTX_PRO_6000))
    window = 0.1 * 584 * 43
    fours = 21 * (584 / 4 + 132 / 4)
    many = 20 * 584 / 128
    rings = 0.1 * (8 / 256) * 21 * (2 * 2 * 512 * 4 + 2 * 2 * 128 * 4)

    assert cost.bytes == pytest.approx(window + fours + many + rings)
    assert cost.bytes == pytest.approx(7033.45)


def test_deepseek_v4_keeps_state_for_each_request():
    """256 requests and one spare, rings of 128 rows, one ring and a row more, whole blocks of 128 rows."""
    rows = -(-(257 * 128 + 128 + 1) // 128) * 128

    assert request_state(checkpoint_of(V4), Layout(tp=4), Use(RTX_PRO_6000)).bytes == rows * 2 * 512 * 4 * 20
    assert request_state(checkpoint_of("llama-3.1-8b"), Layout(), Use(H200)).bytes == 0


def test_a_dsa_model_adds_its_index_keys():
    checkpoint = checkpoint_of("deepseek-r1-fp8")
    shape = replace(checkpoint.attention, kind="dsa", index_head_dim=128, index_heads=64, index_topk=2048)
    dsa = replace(checkpoint, attention=shape)

    assert token_cost(dsa, Layout(tp=8), Use(H200)).bytes == ((512 + 64) * 2 + 132) * 61
    assert token_cost(dsa, Layout(tp=8), Use(H200, kv_cache_dtype="fp8_e4m3")).bytes == (656 + 132) * 61


# Published parameter counts, in billions, with the MTP layers that the files hold.
PARAMETERS = {
    "llama-3.1-8b": 8.03,
    "llama-3.3-70b-fp8": 70.55,
    "qwen2.5-72b-awq": 72.70,
    "qwen3-235b-fp8": 235.09,
    "gpt-oss-120b": 116.8,
    "deepseek-r1-fp8": 682.5,
    "kimi-k2-int4": 1026.4,
    "nemotron-h-mixed": 31.6,
}


@pytest.mark.parametrize(("name", "billions"), PARAMETERS.items())
def test_shapes_give_the_published_parameter_count(name, billions):
    parts = weight_parts(checkpoint_of(name), Layout())

    assert sum(part.parameters for part in parts) / 1e9 == pytest.approx(billions, rel=0.002)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_explain_the_size_of_every_checkpoint(name):
    checkpoint = checkpoint_of(name)

    assert measured_scale(weight_parts(checkpoint, Layout()), checkpoint.total_bytes) == pytest.approx(1, abs=0.05)


def test_weights_of_a_dense_model_by_hand():
    """Llama-3.1-8B at TP 4: queries and outputs, keys and values, MLP, embedding, head; all bf16."""
    hidden, layers = 4096, 32
    attention = layers * (2 * hidden * 4096 + 2 * hidden * 1024)
    mlp = layers * 3 * hidden * 14336
    vocabulary = 2 * 128256 * hidden
    checkpoint = checkpoint_of("llama-3.1-8b")
    by_hand = 2 * (attention + mlp + vocabulary)

    assert weights_per_gpu(replace(checkpoint, total_bytes=by_hand), Layout(tp=4)) == pytest.approx(by_hand / 4)


def test_keys_and_values_are_copied_when_ranks_outnumber_heads():
    checkpoint = replace(checkpoint_of("llama-3.1-8b"), total_bytes=0)
    keys = 2 * 32 * 2 * 4096 * 1024

    saved = weights_per_gpu(checkpoint, Layout(tp=8)) - weights_per_gpu(checkpoint, Layout(tp=16))
    others = sum(part.total_bytes for part in weight_parts(checkpoint, Layout())) - keys
    assert saved == pytest.approx(others / 8 - others / 16)


def test_expert_weights_are_the_same_by_ep_and_by_tp():
    """NVFP4: 4 bits and one byte a group of 16, so 0.5625 bytes a weight."""
    checkpoint = checkpoint_of(V4)
    by_hand = 43 * 256 * 3 * 4096 * 2048 * 0.5625 / 4

    for layout in (Layout(tp=4), Layout(tp=4, ep=4), Layout(tp=4, ep=2)):
        experts = next(part for part in weight_parts(checkpoint, layout) if part.label == "experts")
        assert experts.gpu_bytes == pytest.approx(by_hand)


def test_experts_that_do_not_divide_are_rounded_up():
    checkpoint = checkpoint_of(V4)
    few = replace(checkpoint, experts=replace(checkpoint.experts, routed=6))
    experts = next(part for part in weight_parts(few, Layout(tp=4, ep=4)) if part.label == "experts")

    assert experts.gpu_bytes == pytest.approx(43 * 2 * 3 * 4096 * 2048 * 0.5625)


def test_data_parallel_attention_keeps_whole_attention_and_embedding():
    checkpoint = checkpoint_of("deepseek-r1-fp8")
    whole = {part.label: part for part in weight_parts(checkpoint, Layout(tp=8, attn_dp=8))}
    split = {part.label: part for part in weight_parts(checkpoint, Layout(tp=8))}

    assert whole["attention, split"].gpu_bytes == 8 * split["attention, split"].gpu_bytes
    assert whole["embedding"].gpu_bytes == 8 * split["embedding"].gpu_bytes
    assert whole["experts"].gpu_bytes == split["experts"].gpu_bytes


def test_a_pipeline_counts_its_largest_stage():
    checkpoint = replace(checkpoint_of("deepseek-r1-fp8"), total_bytes=0)
    stage = {part.label: part for part in weight_parts(checkpoint, Layout(pp=2))}

    assert stage["experts"].gpu_bytes == pytest.approx(stage["experts"].total_bytes * 31 / 61)
    assert stage["embedding"].gpu_bytes == 129280 * 7168 * 2
    assert stage["output head"].gpu_bytes == 0


def test_the_draft_layer_is_loaded_only_when_it_is_used():
    checkpoint = checkpoint_of("deepseek-r1-fp8")

    assert weights_per_gpu(checkpoint, Layout(tp=8)) < weights_per_gpu(checkpoint, Layout(tp=8, speculative=True))


def test_tokens_that_fit_by_hand():
    """Llama-3.1-8B on one H200 at 0.85: what the weights leave, over 131,072 bytes a token, whole pages of 64."""
    use = Use(H200, mem_fraction_static=0.85, page_size=64)
    plan = plan_memory(checkpoint_of("llama-3.1-8b"), Layout(), use)
    left = 0.85 * (H200 - CONTEXT) - 16_060_522_496

    assert plan.weights == pytest.approx(16_060_522_496)
    assert plan.kv == pytest.approx(left)
    assert plan.tokens == int(left / 131_072 / 64) * 64
    assert (plan.fits, plan.kv_dtype, plan.findings) == (True, "bfloat16", ())


def test_the_projects_campaign_fits():
    """DeepSeek-V4-Flash-NVFP4 at TP 4 on RTX PRO 6000."""
    plan = plan_memory(checkpoint_of(V4), Layout(tp=4), Use(RTX_PRO_6000, mem_fraction_static=0.85, page_size=256))

    assert plan.fits
    assert 36 * GIB < plan.weights < 38 * GIB
    assert plan.tokens > 5 * 1_048_576
    assert plan.tokens % 256 == 0


def test_the_cookbooks_verified_cell_fits_without_a_warning():
    """RTX PRO 6000, DSV4-Flash MXFP4, TP 2, 0.92, graphs up to 32 (sglang.md H)."""
    use = Use(RTX_PRO_6000, mem_fraction_static=0.92, cuda_graph_max_bs=32, page_size=256)
    plan = plan_memory(checkpoint_of("deepseek-v4-flash-mxfp4"), Layout(tp=2), use)

    assert plan.fits
    assert [item.severity for item in plan.findings] == ["note"]


def test_hybrid_models_give_part_of_the_room_to_states():
    use = Use(H200, mem_fraction_static=0.8)
    plan = plan_memory(checkpoint_of("nemotron-h-mixed"), Layout(), use)
    room = 0.8 * (H200 - CONTEXT) - plan.weights

    assert plan.kv == pytest.approx(room / 1.9)


def test_the_breakdown_can_be_followed():
    plan = plan_memory(checkpoint_of("llama-3.1-8b"), Layout(tp=2), Use(H200, mem_fraction_static=0.85))
    lines = {line.label: line for line in plan.lines}
    before = [line.label for line in plan.lines].index("static memory")

    assert sum(line.bytes for line in plan.lines[:before]) == plan.weights
    assert lines["KV of one token"].expression == "4 KV heads x (128 + 128) x 2 B x 32 layers"
    assert lines["dense MLP"].expression.startswith("5,637,144,576 x 2 B (bfloat16) / 2")
    words = "static memory 118.26 GiB 0.85 x (150,754,820,096 B - 1,360,000,000 B context)"
    assert " ".join(str(lines["static memory"]).split()) == words
    assert sum(line.bytes for line in plan.lines if line.label.startswith("reserve")) == plan.reserve_needed


def test_an_automatic_fraction_leaves_the_reserve():
    """H200, TP 1: 512 MiB + 8192 tokens x 1.5 MiB + 1/8 GiB + graphs up to 256 x 2 MiB."""
    plan = plan_memory(checkpoint_of("llama-3.1-8b"), Layout(), Use(H200))
    needed = 512 * MIB + 8192 * 1.5 * MIB + 128 * MIB + 512 * MIB

    assert plan.reserve_needed == needed
    assert plan.fraction == int((1 - needed / H200) * 1000) / 1000
    assert plan.reserve_left >= plan.reserve_needed
    assert plan.findings == ()


def test_a_small_gpu_has_the_engines_smaller_defaults():
    plan = plan_memory(checkpoint_of("tiny"), Layout(), Use(16 * GIB))
    lines = {line.label: line.expression for line in plan.lines}

    assert lines["reserve: activations"] == "2048 chunk tokens x 1.5 MiB"
    assert lines["reserve: CUDA graphs"] == "up to batch 8 x 2 MiB"


def test_what_cannot_fit_is_refused_with_the_arithmetic():
    plan = plan_memory(checkpoint_of("deepseek-r1-fp8"), Layout(tp=4), Use(H200, mem_fraction_static=0.9), "prefill")

    assert not plan.fits
    assert [(item.rule, item.severity, item.subject) for item in plan.findings] == [
        ("memory-does-not-fit", "error", "prefill")
    ]
    assert plan.findings[0].message == (
        "does not fit: 158.43 GiB of weights a GPU (tp 4, pp 1) against 125.22 GiB static (0.9 of 139.13 GiB usable)"
    )
    assert plan.findings[0].fix.startswith("use 8 GPUs (tp x pp) instead of 4")


def test_a_larger_fraction_is_proposed_where_it_is_enough():
    plan = plan_memory(checkpoint_of("llama-3.3-70b-fp8"), Layout(), Use(80 * GIB, mem_fraction_static=0.8))

    assert rules(plan.findings) == ["memory-does-not-fit"]
    assert plan.findings[0].fix.startswith("set mem_fraction_static to 0.91 or more")


@pytest.mark.parametrize(
    ("name", "layout", "use", "expected"),
    [
        (
            "llama-3.3-70b-fp8", Layout(), Use(80 * GIB, mem_fraction_static=0.88),
            ["memory-context-too-long", "memory-tight"],
        ),
        ("llama-3.1-8b", Layout(), Use(24 * GIB, mem_fraction_static=0.85), ["memory-context-too-long"]),
        ("llama-3.1-8b", Layout(), Use(24 * GIB, mem_fraction_static=0.85, context_length=8192), []),
        ("llama-3.1-8b", Layout(), Use(H200, mem_fraction_static=0.99), ["memory-reserve-tight"]),
        ("qwen3-235b-fp8", Layout(tp=8), Use(H200), ["memory-kv-copied"]),
        ("deepseek-r1-fp8", Layout(tp=8), Use(H200), []),
        ("llama-3.1-8b", Layout(tp=3), Use(H200), ["memory-layout"]),
        ("llama-3.1-8b", Layout(tp=4, attn_dp=3), Use(H200), ["memory-layout"]),
        ("qwen3-235b-fp8", Layout(tp=4, ep=3), Use(H200), ["memory-layout"]),
        ("llama-3.1-8b", Layout(tp=0), Use(H200), ["memory-layout"]),
        ("llama-3.1-8b", Layout(pp=64), Use(H200), ["memory-layout"]),
        ("llama-3.1-8b", Layout(), Use(0), ["memory-setting"]),
        ("llama-3.1-8b", Layout(), Use(H200, mem_fraction_static=1.5), ["memory-setting"]),
    ],
)  # fmt: skip
def test_tight_and_wrong_layouts_are_named(name, layout, use, expected):
    found = plan_memory(checkpoint_of(name), layout, use).findings

    assert rules(item for item in found if item.severity != "note" or item.rule == "memory-kv-copied") == expected


def test_a_size_that_the_shapes_do_not_explain_is_split_evenly_and_said():
    checkpoint = replace(checkpoint_of("llama-3.1-8b"), total_bytes=40 * 10**9)
    plan = plan_memory(checkpoint, Layout(tp=4), Use(H200))

    assert rules(plan.findings) == ["memory-shapes-differ"]
    assert plan.weights == 10 * 10**9
    assert plan.lines[0].expression == "40,000,000,000 B of files / (4 tp x 1 pp)"


def test_an_unknown_model_is_refused_not_guessed():
    checkpoint = replace(checkpoint_of("tiny"), attention=replace(checkpoint_of("tiny").attention, layers=0))

    assert rules(plan_memory(checkpoint, Layout(), Use(H200)).findings) == ["memory-unknown-model"]


def test_every_assumption_says_how_sure_it_is():
    rows = [row for key, row in assumed().items() if isinstance(row, dict) and key not in ("reserve", "kv_dtypes")]
    rows += list(assumed()["reserve"].values())

    assert {row["confidence"] for row in rows} <= {"measured", "source", "inferred"}


@pytest.mark.parametrize(("count", "text"), [(3, "3 B"), (5 * MIB, "5.00 MiB"), (1536 * MIB, "1.50 GiB")])
def test_bytes_are_printed_for_people(count, text):
    assert gib(count) == text
