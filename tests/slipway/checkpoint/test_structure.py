"""Folders on disk: shards, headers, dtypes, tokenizer, samples. Headers only, and fast."""

import json
import struct
import time
from pathlib import Path

import pytest

from slipway.checkpoint import check_samples, inspect, read_folder, read_windows, samples_of
from slipway.checkpoint.headers import DTYPE_BITS, read_header
from slipway.checkpoint.sample import finite
from slipway.checkpoint.tables import table
from tests.slipway.checkpoint.checkpoints import files_of, rules, safetensors

ONES = struct.pack("<8H", *[0x3F80] * 8)
Q = "model.layers.0.self_attn.q_proj.weight"
DOWN = "model.layers.0.mlp.down_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound folder of two shards."""
    for name, text in files_of("tiny").items():
        (tmp_path / name).write_text(str(text))
    (tmp_path / "tokenizer.json").write_text("{}")
    shards = {"model-00001-of-00002.safetensors": Q, "model-00002-of-00002.safetensors": DOWN}
    for file, tensor in shards.items():
        (tmp_path / file).write_bytes(safetensors({tensor: ("BF16", [2, 4], ONES)}))
    index = {"metadata": {"total_size": 32}, "weight_map": {tensor: file for file, tensor in shards.items()}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    return tmp_path


def findings_of(folder: Path):
    return inspect(read_folder(folder), "tiny").findings


def test_a_sound_folder_has_no_findings(folder):
    assert findings_of(folder) == ()


def test_a_missing_shard_is_named(folder):
    (folder / "model-00002-of-00002.safetensors").unlink()
    found = findings_of(folder)

    assert rules(found) == ["checkpoint-shard-missing"]
    assert found[0].message == "1 of 2 weight files are missing, e.g. model-00002-of-00002.safetensors"


def test_a_gap_in_the_numbering_shows_without_an_index(folder):
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model-00001-of-00002.safetensors").unlink()

    assert rules(findings_of(folder)) == ["checkpoint-shard-missing"]


def test_no_weights_at_all_is_an_error(folder):
    for file in folder.glob("model*"):
        file.unlink()

    assert rules(findings_of(folder)) == ["checkpoint-weights-missing"]


def test_a_missing_config_names_the_fix(folder):
    (folder / "config.json").unlink()
    found = [item for item in findings_of(folder) if item.rule == "checkpoint-config-missing"]

    assert "fetch config.json of the same revision" in found[0].fix


def test_a_missing_tokenizer_and_template_are_told_apart(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "chat_template.jinja").unlink()

    assert [(item.rule, item.severity) for item in findings_of(folder)] == [
        ("checkpoint-tokenizer-missing", "error"),
        ("checkpoint-template-missing", "warning"),
    ]


def test_an_absent_folder_is_findings_not_a_traceback(tmp_path):
    assert "checkpoint-config-missing" in rules(findings_of(tmp_path / "nowhere"))


SHARD = "model-00001-of-00002.safetensors"


def header_file(entries: dict, data: bytes = ONES) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape=(2, 4), offsets=(0, 16), dtype="BF16"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


BROKEN = [
    (b"", "an empty file: truncated, or not a safetensors file"),
    (b"abc", "a header of -1 bytes in a file of 3: truncated, or not a safetensors file"),
    (struct.pack("<Q", 2**60) + b"{}", f"a header of {2**60} bytes in a file of 10: truncated"),
    (struct.pack("<Q", 4) + b"nope" + ONES, "the header is not JSON"),
    (struct.pack("<Q", 2) + b"[]", "the header is no JSON object"),
    (header_file({Q: entry()})[:-1], "shorter than its header says"),
    (header_file({Q: entry()}) + b"\0", "longer than its header says"),
    (header_file({Q: entry(shape=(2, 5))}), f"tensor '{Q}' is BF16 [2, 5] but 16 bytes long"),
    (header_file({Q: entry(offsets=(2, 18))}), f"a gap before tensor '{Q}': it begins at 2, not 0"),
    (
        header_file({Q: entry(), "x": entry(shape=(4,), offsets=(8, 16))}),
        "an overlap before tensor 'x': it begins at 8, not 16",
    ),
    (header_file({Q: entry(dtype="F12")}), f"tensor '{Q}' has dtype 'F12', which is unknown"),
    (header_file({Q: {"dtype": "BF16"}}), f"1 header entries are malformed, e.g. '{Q}'"),
    (header_file({Q: entry(shape=(-2, 4))}), "1 header entries are malformed"),
    (header_file({Q: entry(offsets=(0, 16, 17))}), "1 header entries are malformed"),
]


@pytest.mark.parametrize(("raw", "message"), BROKEN)
def test_a_broken_shard_is_named_with_its_fault(folder, raw, message):
    (folder / SHARD).write_bytes(raw)
    found = [item for item in findings_of(folder) if item.rule == "checkpoint-shard-broken"]

    assert [item.subject for item in found] == [SHARD]
    assert message in found[0].message
    assert "fetch it again" in found[0].fix


def test_tensors_and_index_must_agree(folder):
    (folder / SHARD).write_bytes(safetensors({"other.weight": ("BF16", [2, 4], ONES)}))
    found = [item for item in findings_of(folder) if item.rule == "checkpoint-index-disagrees"]

    assert [(item.severity, item.message) for item in found] == [
        ("error", f"the index names tensors that their file does not hold: 1, e.g. '{Q}'"),
        ("warning", "files hold tensors that the index does not name: 1, e.g. 'other.weight'"),
    ]


def test_an_index_never_reaches_outside_its_folder(folder):
    weights = {Q: "../../etc/passwd", DOWN: "model-00002-of-00002.safetensors", "x": 3}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))

    assert "checkpoint-index-entry" in rules(findings_of(folder))


def test_dtypes_that_contradict_the_config_are_an_error(folder):
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (folder / "config.json").write_text(json.dumps(config))
    found = findings_of(folder)

    assert rules(found) == ["checkpoint-dtype-disagrees"] * 2
    assert found[0].message == "attention should be fp8_block by the config, but the files hold BF16 x 1"


def test_quantized_weights_without_a_config_are_an_error(folder):
    (folder / SHARD).write_bytes(safetensors({Q: ("F8_E4M3", [2, 8], ONES)}))

    assert "checkpoint-dtype-disagrees" in rules(findings_of(folder))


def sample_of(folder: Path):
    return check_samples(read_windows(folder, samples_of(inspect(read_folder(folder)).headers)))


def test_sound_samples_have_no_findings(folder):
    assert sample_of(folder) == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytes(16), f"tensor '{Q}' is all zero in a sample of 16 bytes"),
        (ONES[:14] + b"\x80\x7f", f"tensor '{Q}' has values that are not finite in a sample of 16 bytes"),
    ],
)
def test_zero_and_infinite_weights_are_found(folder, data, message):
    (folder / SHARD).write_bytes(safetensors({Q: ("BF16", [2, 4], data)}))

    assert [(item.rule, item.subject, item.message) for item in sample_of(folder)] == [
        ("checkpoint-sample-bad", SHARD, message)
    ]


def test_a_file_that_ends_while_it_is_sampled_is_found(folder):
    windows = samples_of(inspect(read_folder(folder)).headers)
    (folder / SHARD).write_bytes(b"")

    assert [item.message for item in check_samples(read_windows(folder, windows))] == [
        f"tensor '{Q}' cannot be read to its end"
    ]


@pytest.mark.parametrize(
    ("dtype", "data", "expected"),
    [
        ("F32", struct.pack("<2f", 1.0, -1e30), True),
        ("F32", struct.pack("<2f", 1.0, float("nan")), False),
        ("F16", struct.pack("<2e", 1.0, float("inf")), False),
        ("F8_E4M3", b"\x00\x7e", True),
        ("F8_E4M3", b"\x00\xff", False),
        ("F8_E5M2", b"\x7c", False),
        ("U8", b"\xff\xff", True),
    ],
)
def test_finite_knows_each_float(dtype, data, expected):
    assert finite(dtype, data) is expected


def test_samples_are_bounded(folder):
    header, _ = read_header(SHARD, (folder / SHARD).read_bytes(), (folder / SHARD).stat().st_size)
    windows = samples_of({SHARD: header}, tensors=4)

    assert sum(window.length for window in windows) <= 4 * 3 * 4096


def test_every_scheme_storage_is_a_known_dtype():
    stored = {name for row in table("quantization")["schemes"].values() for name in row["storage"]}
    assert stored <= set(DTYPE_BITS)


def test_a_149_gib_checkpoint_costs_little_more_than_parsing_its_headers(tmp_path):
    """76 sparse shards of 1.96 GiB. The bound is relative, so that a busy machine does not fail it.

    The real checkpoint has 138,320 tensors; so many were inspected in 2.3 times what json.loads takes.
    """
    for name, text in files_of("deepseek-v4-flash-nvfp4").items():
        (tmp_path / name).write_text(str(text))
    (tmp_path / "tokenizer.json").write_text("{}")
    names = _write_sparse_shards(tmp_path, 76, 150)
    index = {"metadata": {"total_size": 149 * 2**30}, "weight_map": names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    folder = read_folder(tmp_path)
    parsing = cpu_seconds(lambda: [json.loads(raw[8:]) for raw in folder.headers.values()])
    inspecting = cpu_seconds(lambda: inspect(read_folder(tmp_path)))
    result = inspect(folder)

    assert "checkpoint-shard-broken" not in rules(result.findings)
    assert sum(len(header.names) for header in result.headers.values()) == 76 * 150
    assert sum(len(raw) for raw in folder.headers.values()) < 4 * 2**20, "headers only"
    assert inspecting < 6 * parsing + 0.1


def cpu_seconds(work) -> float:
    """The better of two, without the garbage of other tests."""
    spent = []
    for _ in range(2):
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent)


def _write_sparse_shards(root: Path, shards: int, tensors: int) -> dict[str, str]:
    weights = {}
    length = 149 * 2**30 // shards // tensors & ~15
    for number in range(1, shards + 1):
        file = f"model-{number:05d}-of-{shards:05d}.safetensors"
        header = {
            f"layers.{number % 43}.ffn.experts.{number * tensors + item}.w1.weight": {
                "dtype": "U8", "shape": [16, length // 16], "data_offsets": [item * length, (item + 1) * length]
            }
            for item in range(tensors)
        }  # fmt: skip
        text = json.dumps(header).encode()
        with (root / file).open("wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            stream.truncate(8 + len(text) + tensors * length)
        weights |= dict.fromkeys(header, file)
    return weights
