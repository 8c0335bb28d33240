"""What a checkpoint is, from its small files."""

import json

import pytest

from slipway.checkpoint import read_checkpoint, small_files
from tests.slipway.checkpoint.checkpoints import NAMES, changed, checkpoint_of, files_of, rules

GIB = 2**30
# family, attention kind, layers, heads, KV heads, head dim, context, dtype, eos, GB, shards, template
FACTS = {
    "deepseek-v4-flash-nvfp4": (
        "deepseek_v4", "dsa", 43, 64, 1, 512, 1048576, "bfloat16", (1,), 160.0, 76, "engine"),
    "deepseek-v4-flash-mxfp4": (
        "deepseek_v4", "dsa", 43, 64, 1, 512, 1048576, "bfloat16", (1,), 156.0, 46, "engine"),
    "deepseek-r1-fp8": ("deepseek_v3", "mla", 61, 128, 128, 192, 163840, "bfloat16", (1,), 688.6, 163, "file"),
    "deepseek-r1-fp4": ("deepseek_v3", "mla", 61, 128, 128, 192, 163840, "bfloat16", (1,), 413.0, 81, "file"),
    "deepseek-r1-w4afp8": ("deepseek_v3", "mla", 61, 128, 128, 192, 163840, "bfloat16", (1,), 362.0, 78, "file"),
    "gpt-oss-120b": (
        "gpt_oss", "swa", 36, 64, 8, 64, 131072, "bfloat16", (200002, 199999, 200012), 65.2, 14, "file"),
    "kimi-k2-int4": ("kimi_k2", "mla", 61, 64, 64, 192, 262144, "bfloat16", (163586,), 594.0, 62, "file"),
    "llama-3.1-8b": ("llama", "gqa", 32, 32, 8, 128, 131072, "bfloat16", (128001, 128008, 128009), 16.1, 4, "file"),
    "llama-3.3-70b-fp8": (
        "llama", "gqa", 80, 64, 8, 128, 131072, "bfloat16", (128001, 128008, 128009), 72.7, 15, "file"),
    "nemotron-h-mixed": ("nemotron_h", "hybrid", 52, 32, 2, 128, 262144, "bfloat16", (2, 11), 20.3, 5, "file"),
    "qwen2.5-72b-awq": ("qwen2", "gqa", 80, 64, 8, 128, 32768, "float16", (151645, 151643), 41.6, 11, "file"),
    "qwen2.5-72b-gptq": ("qwen2", "gqa", 80, 64, 8, 128, 32768, "float16", (151645, 151643), 41.6, 11, "file"),
    "qwen3-235b-fp8": ("qwen3_moe", "gqa", 94, 64, 4, 128, 262144, "bfloat16", (151645, 151643), 236.4, 24, "file"),
    "qwen3-235b-mixed": ("qwen3_moe", "gqa", 94, 64, 4, 128, 262144, "bfloat16", (151645, 151643), 137.0, 28, "file"),
    "tiny": ("llama", "gqa", 3, 4, 2, 32, 8192, "bfloat16", (6,), 0.0, 0, "file"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_small_files_say_what_the_model_is(name):
    checkpoint = checkpoint_of(name)
    shape = checkpoint.attention

    assert (
        checkpoint.model_family, shape.kind, shape.layers, shape.heads, shape.kv_heads, shape.head_dim,
        checkpoint.context_length, checkpoint.dtype, checkpoint.generation.eos_ids,
        round(checkpoint.total_bytes / 1e9, 1), checkpoint.shards, checkpoint.chat_template,
    ) == FACTS[name]  # fmt: skip
    assert checkpoint.findings == ()
    assert checkpoint.usable


def test_deepseek_v4_keeps_its_clamp_index_and_compression():
    checkpoint = checkpoint_of("deepseek-v4-flash-nvfp4")
    shape = checkpoint.attention

    assert checkpoint.swiglu_limit == 10.0
    assert checkpoint.total_bytes == 149 * GIB
    assert (checkpoint.experts.routed, checkpoint.experts.active, checkpoint.experts.shared) == (256, 6, 1)
    assert (shape.kv_lora_rank, shape.qk_nope_head_dim, shape.qk_rope_head_dim) == (0, 448, 64)
    assert (shape.index_heads, shape.index_head_dim, shape.index_topk) == (64, 128, 512)
    assert (shape.sliding_window, shape.compress_ratios.count(4), shape.compress_ratios.count(128)) == (128, 21, 20)
    assert checkpoint.mtp_layers == 1


def test_a_hybrid_stack_counts_each_sort_of_layer():
    checkpoint = checkpoint_of("nemotron-h-mixed")

    assert (checkpoint.attention.full_layers, checkpoint.attention.linear_layers) == (6, 23)
    assert (checkpoint.experts.moe_layers, checkpoint.experts.dense_layers) == (23, 0)


def test_a_window_model_counts_window_layers():
    shape = checkpoint_of("gpt-oss-120b").attention

    assert (shape.full_layers, shape.swa_layers, shape.sliding_window) == (18, 18, 128)


def test_sampling_defaults_come_from_generation_config():
    assert checkpoint_of("qwen3-235b-fp8").generation.defaults == (
        ("temperature", 0.7),
        ("top_p", 0.8),
        ("top_k", 20.0),
    )


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, 40960),
        ({"rope_type": "yarn", "factor": 4.0}, 163840),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 40960),
        ({"rope_type": "llama3", "factor": 8.0}, 40960),
        ({"type": "linear", "factor": 2}, 81920),
        ({"full_attention": {"factor": 8.0}}, 40960),
    ],
)
def test_context_length_follows_the_engines_rule_for_rope_scaling(scaling, expected):
    files = changed("qwen3-235b-fp8", "config.json", max_position_embeddings=40960, rope_scaling=scaling)

    assert read_checkpoint(files).context_length == expected


def test_a_multimodal_config_is_read_through_its_text_part():
    config = json.loads(files_of("kimi-k2-int4")["config.json"])
    outer = {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "text_config": config}
    checkpoint = read_checkpoint({"config.json": json.dumps(outer)})

    assert (checkpoint.model_family, checkpoint.attention.kind, checkpoint.experts.routed) == ("kimi_k2", "mla", 384)
    assert checkpoint.quantization.experts.name == "int4"


def test_a_missing_config_is_an_error_that_names_the_fix():
    checkpoint = read_checkpoint({"tokenizer_config.json": "{}"})

    finding = next(item for item in checkpoint.findings if item.rule == "checkpoint-config-missing")
    assert (finding.severity, finding.subject) == ("error", "config.json")
    assert finding.fix == "fetch config.json of the same revision from the model's repository"
    assert not checkpoint.usable


def test_a_wrong_type_is_named_with_what_is_allowed():
    checkpoint = read_checkpoint(changed("llama-3.1-8b", "config.json", num_hidden_layers="many"))

    assert checkpoint.findings[0].message == "num_hidden_layers: got 'many'; must be a whole number"


def test_an_unknown_family_is_a_warning_and_still_read():
    files = changed("llama-3.1-8b", "config.json", model_type="brand_new", architectures=["BrandNewForCausalLM"])
    checkpoint = read_checkpoint(files)

    assert rules(checkpoint.findings) == ["checkpoint-family-unknown"]
    assert checkpoint.attention.layers == 32


def test_sizes_stand_in_for_a_missing_index():
    files = {name: text for name, text in files_of("tiny").items() if "index" not in name}
    checkpoint = read_checkpoint(files, {"model.safetensors": 1_300_000, "original/x.safetensors": 5})

    assert (checkpoint.total_bytes, checkpoint.shards) == (1_300_000, 1)


def test_only_small_files_are_fetched_for_a_plan():
    listed = {
        "README.md": 9_000,
        "config.json": 4_000,
        "hf_quant_config.json": 300,
        "generation_config.json": 100,
        "tokenizer.json": 11_000_000,
        "tokenizer_config.json": 9_000,
        "model.safetensors.index.json": 11_000_000,
        "model-00001-of-00002.safetensors": 5_000_000_000,
        "original/config.json": 10,
    }

    wanted = (
        "config.json",
        "hf_quant_config.json",
        "generation_config.json",
        "tokenizer_config.json",
        "model.safetensors.index.json",
    )
    assert small_files(listed) == wanted
    assert small_files(list(listed)) == wanted
    assert "config.json" not in small_files({**listed, "config.json": 10**9})
