"""The bound of decode by memory bandwidth: hand arithmetic on real checkpoints' files."""

import json
from pathlib import Path

import pytest

from slipway.checkpoint import read_checkpoint, read_folder
from slipway.knowledge import gpus
from slipway.memory import Layout
from slipway.memory.roofline import read_roofline, roofline
from slipway.plan.model import to_json

DATA = Path(__file__).parents[2] / "data/checkpoints"
H200 = gpus.find("NVIDIA H200")


def checkpoint(name):
    read = read_folder(DATA / name)
    return read_checkpoint(read.files, read.sizes, name)


def test_a_dense_model_reads_all_its_weights_but_the_embedding_each_step():
    found = roofline(checkpoint("llama-3.3-70b-fp8"), Layout(tp=4), H200)

    whole = checkpoint("llama-3.3-70b-fp8").total_bytes - 128256 * 8192 * 2  # the embedding, bfloat16
    assert found.bytes_read() * 4 == pytest.approx(whole, rel=0.001)
    assert found.bytes_read(64) == found.bytes_read()
    assert found.user_speed() == pytest.approx(4 * 4800e9 / whole, rel=0.001)


def test_a_token_reads_its_own_experts_and_a_large_batch_all_of_them():
    found = roofline(checkpoint("deepseek-v4-flash-nvfp4"), Layout(tp=4), H200)

    assert (found.routed, found.active) == (256, 6)
    assert found.bytes_read(1) == pytest.approx(found.always + found.experts * 6 / 256)
    assert found.bytes_read(1) < found.bytes_read(8) < found.bytes_read(64)
    assert found.bytes_read(100000) == pytest.approx(found.always + found.experts)
    assert any("6/256 chosen" in line for line in found.lines)


def test_speculation_raises_the_bound_by_the_most_tokens_of_a_step_and_reads_no_draft():
    plain = roofline(checkpoint("deepseek-r1-fp4"), Layout(tp=8), H200)
    drafting = roofline(checkpoint("deepseek-r1-fp4"), Layout(tp=8, speculative=True), H200, tokens_a_step=4)

    assert drafting.user_speed() == pytest.approx(4 * plain.user_speed())
    assert "speculation: at most 4 tokens a step" in drafting.lines


def test_without_a_bandwidth_there_is_no_bound():
    assert roofline(checkpoint("gpt-oss-120b"), Layout(), None) is None


def test_it_is_read_back_from_a_recorded_plan():
    found = roofline(checkpoint("gpt-oss-120b"), Layout(tp=2), H200)

    assert read_roofline(json.loads(json.dumps(to_json(found)))) == found
    assert read_roofline(None) is None
