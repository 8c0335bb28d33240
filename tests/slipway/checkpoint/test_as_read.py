"""Quantization as it is, and as each release reads it: one row a case."""

import json

import pytest

from slipway.checkpoint import LAYER_CLASSES, check_capability, check_quantization_flag, read_checkpoint
from slipway.checkpoint.tables import table
from slipway.checkpoint.versions import gates_of, version_key
from slipway.knowledge import gates, releases
from tests.slipway.checkpoint.checkpoints import changed, checkpoint_of, files_of, rules

# attention, mlp, experts, shared experts, lm_head; KV cache
REAL = {
    "deepseek-v4-flash-nvfp4": ("fp8+nvfp4", "fp8_block fp8_block nvfp4 fp8_block bfloat16", "fp8_e4m3"),
    "deepseek-v4-flash-mxfp4": ("fp8+mxfp4", "fp8_block fp8_block mxfp4 fp8_block bfloat16", "fp8_e4m3"),
    "deepseek-r1-fp8": ("fp8", "fp8_block fp8_block fp8_block fp8_block bfloat16", "auto"),
    "deepseek-r1-fp4": ("modelopt_fp4", "bfloat16 nvfp4 nvfp4 nvfp4 bfloat16", "fp8_e4m3"),
    "deepseek-r1-w4afp8": ("w4afp8", "fp8_block fp8_block int4 fp8_block bfloat16", "auto"),
    "gpt-oss-120b": ("mxfp4", "bfloat16 bfloat16 mxfp4 bfloat16 bfloat16", "auto"),
    "kimi-k2-int4": ("compressed-tensors", "bfloat16 bfloat16 int4 bfloat16 bfloat16", "auto"),
    "llama-3.1-8b": ("none", "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16", "auto"),
    "llama-3.3-70b-fp8": ("compressed-tensors", "fp8 fp8 fp8 fp8 bfloat16", "auto"),
    "nemotron-h-mixed": ("modelopt_mixed", "bfloat16 bfloat16 nvfp4 fp8 bfloat16", "fp8_e4m3"),
    "qwen2.5-72b-awq": ("awq_marlin", "int4 int4 int4 int4 float16", "auto"),
    "qwen2.5-72b-gptq": ("gptq_marlin", "int4 int4 int4 int4 float16", "auto"),
    "qwen3-235b-fp8": ("fp8", "fp8_block fp8_block fp8_block fp8_block bfloat16", "auto"),
    "qwen3-235b-mixed": ("modelopt_mixed", "fp8 bfloat16 nvfp4 bfloat16 bfloat16", "fp8_e4m3"),
    "tiny": ("none", "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16", "auto"),
}
V4, MIXED, NEMO = "deepseek-v4-flash-nvfp4", "qwen3-235b-mixed", "nemotron-h-mixed"
KV, BAD = "quant-kv-cache-declared", "quant-misread"
DOUBT = "quant-release-doubtful"
# checkpoint, release, patches -> method, scheme of the experts, hybrid, rules found
READINGS = [
    (V4, "0.5.13", (), "fp8", "fp8_block", False, [BAD]),
    (V4, "0.5.13.post1", (), "fp8", "fp8_block", False, [BAD]),
    (V4, "0.5.13", ("pr-25820",), "fp8", "nvfp4", True, []),
    (V4, "0.5.13", ("patches/PR-25820-dsv4-nvfp4.diff",), "fp8", "nvfp4", True, []),
    (V4, "0.5.13", ("pr-2582",), "fp8", "fp8_block", False, [BAD]),
    (V4, "0.5.14", (), "fp8", "nvfp4", True, []),
    (V4, "0.5.14rc1", (), "fp8", "fp8_block", False, [BAD, DOUBT]),
    (V4, "0.5.18", (), "fp8", "nvfp4", True, []),
    (V4, "0.5.23", (), "fp8", "nvfp4", True, []),
    (V4, "0.5.24", (), "fp8", "nvfp4", True, ["quant-release-unread"]),
    (V4, "0.5.9", (), "fp8", "fp8_block", False, ["quant-release-unread", BAD]),
    (V4, "c0bb04b67f", (), "fp8", "nvfp4", True, ["quant-release-unread"]),
    ("deepseek-v4-flash-mxfp4", "0.5.13", (), "fp8", "mxfp4", False, []),
    ("deepseek-v4-flash-mxfp4", "0.5.23", (), "fp8", "mxfp4", False, []),
    ("deepseek-r1-fp8", "0.5.13", (), "fp8", "fp8_block", False, []),
    ("deepseek-r1-fp4", "0.5.13", (), "modelopt_fp4", "nvfp4", False, [KV]),
    ("deepseek-r1-fp4", "0.5.23", (), "modelopt_fp4", "nvfp4", False, [KV]),
    ("deepseek-r1-w4afp8", "0.5.13", (), "w4afp8", "int4", False, []),
    ("deepseek-r1-w4afp8", "0.5.23", (), "w4afp8", "int4", False, []),
    ("gpt-oss-120b", "0.5.18", (), "mxfp4", "mxfp4", False, []),
    ("kimi-k2-int4", "0.5.13", (), "compressed-tensors", "int4", False, []),
    ("llama-3.1-8b", "0.5.18", (), "", "bfloat16", False, []),
    ("llama-3.3-70b-fp8", "0.5.18", (), "compressed-tensors", "fp8", False, []),
    ("qwen2.5-72b-awq", "0.5.18", (), "awq_marlin", "int4", False, []),
    ("qwen2.5-72b-gptq", "0.5.23", (), "gptq_marlin", "int4", False, []),
    (NEMO, "0.5.13", (), "modelopt_mixed", "nvfp4", False, [KV]),
    (NEMO, "0.5.23", (), "modelopt_mixed", "nvfp4", False, [KV]),
    (MIXED, "0.5.13", (), "w4afp8", "int4", False, [BAD, KV]),
    (MIXED, "0.5.14", (), "w4afp8", "int4", False, [BAD, KV]),
    (MIXED, "0.5.15", (), "modelopt_mixed", "nvfp4", False, [KV]),
    (MIXED, "0.5.13", ("pr-27906",), "modelopt_mixed", "nvfp4", False, [KV]),
    (MIXED, "0.5.18", (), "modelopt_mixed", "nvfp4", False, [KV]),
]


# What two tables say of one behaviour: the reading of checkpoints, and the backends.
SAID_TWICE = [
    ("hybrid_fp8_nvfp4", "hybrid_fp8_nvfp4_detection"),
    ("mixed_by_content", "modelopt_mixed_by_content"),
    ("modelopt_fp8_exact", "modelopt_mxfp8_by_name"),
    ("nvfp4_online", "nvfp4_online_method"),
]


@pytest.mark.parametrize(("here", "there"), SAID_TWICE)
@pytest.mark.parametrize("release", [str(release.version) for release in releases.known()])
def test_both_tables_of_releases_agree(here, there, release):
    assert gates_of(release).has(here) is gates.holds(there, release)


@pytest.mark.parametrize("name", REAL)
def test_quantization_as_it_really_is(name):
    real = checkpoint_of(name).quantization

    assert (real.method, " ".join(real.of(kind).name for kind in LAYER_CLASSES), real.kv_cache) == REAL[name]


@pytest.mark.parametrize(("name", "release", "patches", "method", "experts", "hybrid", "found"), READINGS)
def test_quantization_as_a_release_reads_it(name, release, patches, method, experts, hybrid, found):
    read = checkpoint_of(name).as_read(release, patches)

    assert (read.method, read.quantization.experts.name, read.hybrid) == (method, experts, hybrid)
    assert rules(read.findings) == found
    assert read.right == (BAD not in found)


def test_the_projects_own_misreading_is_explained_with_both_cures():
    finding = checkpoint_of(V4).as_read("0.5.13").findings[0]

    assert finding.severity == "error"
    assert finding.subject == V4
    assert finding.message == (
        "SGLang 0.5.13 reads this checkpoint as fp8 (experts: really nvfp4 (group 16), read as fp8_block); "
        "it lacks what detects FP8 checkpoints whose experts are NVFP4 (moe_quant_algo)"
    )
    assert finding.fix == "use SGLang 0.5.14 or newer, or apply patch pr-25820 to this release"
    assert "PR #25820" in finding.source


FP8_V4 = json.loads(files_of(V4)["config.json"])["quantization_config"]
LLAMA = "llama-3.1-8b"
W = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
ACTS = {"num_bits": 8, "type": "float"}
# quantization_config -> per release: method, experts' or mlp's scheme
DECLARED = [
    ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "0.5.13", "modelopt_fp8", "fp8", [BAD]),
    ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "0.5.18", "mxfp8", "mxfp8", []),
    ({"quant_algo": "FP8"}, "0.5.18", "modelopt_fp8", "fp8", []),
    ({"quant_algo": "FP8_PER_CHANNEL"}, "0.5.13", "modelopt_fp8", "fp8", [BAD]),
    ({"quant_algo": "FP8_PER_CHANNEL"}, "0.5.18", "", "bfloat16", ["quant-algorithm-unknown"]),
    ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, "0.5.13", "modelopt_fp4", "nvfp4", []),
    ({"quantization": {"quantization": {"quant_algo": "NVFP4"}}}, "0.5.18", "", "bfloat16", [BAD]),
    ({"quantization": {"quantization": {"quant_algo": "NVFP4"}}}, "0.5.23", "modelopt_fp4", "nvfp4", []),
    ({"quant_algo": "MIXED_PRECISION", "quantized_layers": None}, "0.5.18", "w4afp8", "fp8_block", []),
    ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {}}, "0.5.23", "w4afp8", "fp8_block", []),
    ({"quant_method": "w4afp8"}, "0.5.13", "w4afp8", "fp8_block", []),
    ({"quant_method": "mxfp8"}, "0.5.13", "mxfp8", "mxfp8", []),
    ({"quant_method": "fp8"}, "0.5.13", "fp8", "fp8", []),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv"}, "0.5.18", "awq", "int4", []),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False}, "0.5.18", "gptq", "int4", []),
    (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False},
        "0.5.23", "gptq", "int4", ["quant-method-unregistered"],
    ),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "0.5.23", "gptq_marlin", "int8", []),
    ({"quant_method": "fbgemm_fp8"}, "0.5.13", "fbgemm_fp8", "fp8", []),
    ({"quant_method": "fbgemm_fp8"}, "0.5.18", "fbgemm_fp8", "fp8", ["quant-method-unregistered"]),
    ({"quant_method": "nonesuch"}, "0.5.18", "nonesuch", "bfloat16", ["quant-method-unregistered"]),
    (
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": W}}},
        "0.5.18", "compressed-tensors", "bfloat16", [BAD, "quant-part-unknown"],
    ),
    (
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": W}}},
        "0.5.23", "compressed-tensors", "nvfp4", [],
    ),
    (
        {
            "quant_method": "compressed-tensors",
            "format": "nvfp4-pack-quantized",
            "config_groups": {"g": {"targets": ["Linear"], "weights": W, "input_activations": W}},
        },
        "0.5.13", "compressed-tensors", "nvfp4", [],
    ),
    (
        {
            "quant_method": "compressed-tensors",
            "kv_cache_scheme": {"num_bits": 8, "type": "float"},
            "config_groups": {
                "g": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}, "input_activations": ACTS}
            },
        },
        "0.5.18", "compressed-tensors", "int4", [KV],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "release", "method", "scheme", "found"), DECLARED)
def test_declarations_map_as_the_release_maps_them(declared, release, method, scheme, found):
    read = read_checkpoint(changed(LLAMA, "config.json", quantization_config=declared)).as_read(release)

    assert (read.method, read.quantization.mlp.name) == (method, scheme)
    assert rules(read.findings) == found


@pytest.mark.parametrize(
    ("keys", "release", "experts", "found"),
    [
        ({"routed_experts_quant_method": "mxfp4"}, "0.5.18", "fp8_block", [BAD]),
        ({"routed_experts_quant_method": "mxfp4"}, "0.5.23", "mxfp4", []),
        ({"store_dtype": "mxfp4"}, "0.5.18", "fp8_block", [BAD]),
        ({"store_dtype": "mxfp4"}, "0.5.23", "mxfp4", []),
    ],
)
def test_mxfp4_experts_of_other_families_need_a_new_release(keys, release, experts, found):
    config = {"quant_method": "fp8", "weight_block_size": [128, 128], **keys}
    files = changed("qwen3-235b-fp8", "config.json", quantization_config=config)
    del files["model.safetensors.index.json"]
    read = read_checkpoint(files).as_read(release)

    assert (read.quantization.experts.name, rules(read.findings)) == (experts, found)


def test_v4_with_fp8_experts_is_not_taken_for_fp4():
    config = {key: FP8_V4[key] for key in ("quant_method", "weight_block_size")}
    files = changed("deepseek-v4-flash-mxfp4", "config.json", quantization_config=config, expert_dtype="fp8")

    assert read_checkpoint(files).quantization.experts.name == "fp8_block"


def test_minimax_m3_needs_the_newest_release():
    config = {"quant_method": "mxfp8", "config_groups": {"e": {"format": "nvfp4-pack-quantized"}}}
    files = changed("qwen3-235b-fp8", "config.json", quantization_config=config)
    del files["model.safetensors.index.json"]
    checkpoint = read_checkpoint(files)

    assert checkpoint.as_read("0.5.18").method == "mxfp8"
    assert rules(checkpoint.as_read("0.5.18").findings) == [BAD]
    assert checkpoint.as_read("0.5.23").method == "minimax_m3_nvfp4"


def test_compression_config_comes_before_hf_quant_config():
    groups = {"g": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}, "input_activations": ACTS}}
    files = changed(
        LLAMA, "config.json", compression_config={"quant_method": "compressed-tensors", "config_groups": groups}
    )
    files["hf_quant_config.json"] = json.dumps({"quantization": {"quant_algo": "NVFP4"}})
    checkpoint = read_checkpoint(files)

    assert checkpoint.as_read("0.5.18").place == "config.json compression_config"
    assert rules(checkpoint.findings) == ["quant-files-disagree"]


def test_modelslim_is_the_last_resort():
    files = files_of(LLAMA) | {"quant_model_description.json": json.dumps({"model_quant_type": "W8A8"})}

    assert read_checkpoint(files).as_read("0.5.18").method == "modelslim"


def test_hf_quant_config_that_contradicts_config_json_is_an_error():
    files = files_of(V4)
    files["config.json"] = changed(V4, "config.json", quantization_config={"quant_method": "fp8"})["config.json"]
    checkpoint = read_checkpoint(files)

    assert rules(checkpoint.findings) == ["quant-index-disagrees", "quant-files-disagree"]
    assert checkpoint.quantization.experts.name == "nvfp4", "tensor names are believed before the config"
    assert checkpoint.as_read("0.5.23").quantization.experts.name != "nvfp4"
    assert rules(checkpoint.as_read("0.5.23").findings) == [BAD]


def test_a_hybrid_without_group_size_is_read_by_no_release():
    config = {key: value for key, value in FP8_V4.items() if key != "group_size"}
    checkpoint = read_checkpoint(changed(V4, "config.json", quantization_config=config))

    assert "quant-hybrid-incomplete" in rules(checkpoint.findings)
    assert rules(checkpoint.as_read("0.5.23").findings) == [BAD]


def test_an_index_that_ends_early_is_reported():
    files = changed("llama-3.1-8b", "config.json", num_hidden_layers=40)

    assert rules(read_checkpoint(files).findings) == ["checkpoint-layers-missing"]


def test_a_mixed_nemotron_without_a_map_is_refused():
    files = files_of(NEMO)
    files["hf_quant_config.json"] = json.dumps({"quantization": {"quant_algo": "MIXED_PRECISION"}})
    read = read_checkpoint(files).as_read("0.5.13")

    assert "quant-mixed-empty" in rules(read.findings)


def test_an_algorithm_that_only_newer_releases_run_is_named():
    document = json.loads(files_of(MIXED)["hf_quant_config.json"])
    document["quantization"]["quantized_layers"]["model.layers.*.self_attn"] = {"quant_algo": "FP8_PB_WO"}
    files = files_of(MIXED) | {"hf_quant_config.json": json.dumps(document)}

    assert "quant-part-unknown" in rules(read_checkpoint(files).as_read("0.5.18").findings)
    assert rules(read_checkpoint(files).as_read("0.5.23").findings) == [KV]


@pytest.mark.parametrize(
    ("name", "release", "given", "accepted"),
    [
        (V4, "0.5.13", "fp8", True),
        (V4, "0.5.13", "modelopt_fp4", False),
        (V4, "0.5.18", "modelopt_fp4", True),
        ("llama-3.3-70b-fp8", "0.5.18", "w8a8_fp8", True),
        ("llama-3.3-70b-fp8", "0.5.18", "fp8", False),
        ("llama-3.1-8b", "0.5.18", "fp8", True),
        ("qwen2.5-72b-awq", "0.5.18", "", True),
    ],
)
def test_the_quantization_flag_must_fit_the_checkpoint(name, release, given, accepted):
    found = check_quantization_flag(checkpoint_of(name).as_read(release), given)

    assert rules(found) == ([] if accepted else ["quant-flag-mismatch"])


@pytest.mark.parametrize(
    ("name", "capability", "accepted"),
    [
        ("deepseek-r1-w4afp8", 9.0, True),
        ("deepseek-r1-w4afp8", 8.9, False),
        ("llama-3.3-70b-fp8", 8.9, True),
        ("llama-3.3-70b-fp8", 8.0, False),
        (V4, 12.0, True),
        (LLAMA, 7.5, True),
    ],
)
def test_the_methods_capability_floor_is_checked(name, capability, accepted):
    found = check_capability(checkpoint_of(name).as_read("0.5.18"), capability, "gpu 0")

    assert rules(found) == ([] if accepted else ["quant-capability"])


def test_every_gate_is_ordered_used_and_sourced():
    rows = table("quantization")
    text = json.dumps({key: value for key, value in rows.items() if key != "gates"})
    in_code = {"hybrid_fp8_nvfp4", "nested_unwrapped", "routed_experts_method", "minimax_m3_nvfp4"}

    for name, gate in rows["gates"].items():
        assert version_key(gate["last_without"]) < version_key(gate["since"]), name
        assert gate["source"] and gate["what"], name
        assert name in in_code or f'"{name}"' in text, name


def test_every_scheme_that_a_row_names_exists():
    rows = table("quantization")
    named = [row[key] for row in rows["methods"].values() for key in ("scheme", "experts") if key in row]
    named += [row["scheme"] for kind in ("groups", "name_hints") for row in rows[kind]]
    named += [row["scheme"] for row in rows["mixed_algos"].values()]

    assert set(named) <= set(rows["schemes"])
