"""The engine's own benchmark: how it is called, and its line made into a record like the built-in client's."""

import json
from pathlib import Path

import pytest

from slipway.agent.bench_engine import COUNTED, command, normalised
from slipway.agent.load.figures import judged

CAPTURED = Path(__file__).resolve().parents[2] / "data/bench/bench_serving-0.5.13.json"
CELL = {"input": 32, "output": 8, "concurrency": 2, "prompts": 4, "warmups": 1}
ASKED = {
    "engine": {"python": "/venv/bin/python", "module": "sglang.bench_serving", "tokenizer": "/model", "env": {}},
    "api": "chat", "url": "http://10.0.0.1:8000", "model": "tiny", "label": "one", "ignore_eos": True,
    "extra": {"top_p": 1}, "slo": {"ttft_ms": 75, "tpot_ms": None, "e2e_ms": None},
}  # fmt: skip


def record(**more) -> dict:
    line = {**json.loads(CAPTURED.read_text()), **more}
    found = normalised(line, CELL, [(0.0, 10.0), (9.7, 14.0), (10.0, 14.27)], ASKED)
    return {**found, **judged(found)}


def test_its_own_figures_are_kept_and_what_it_does_not_print_is_made_from_its_details():
    line, found = json.loads(CAPTURED.read_text()), record()

    assert found["status"] == "valid"
    for key in ("duration", "output_throughput", "mean_ttft_ms", "p99_tpot_ms", "median_e2e_latency_ms"):
        assert found[key] == line[key]
    assert "p90_ttft_ms" not in line
    assert line["median_ttft_ms"] < found["p90_ttft_ms"] < line["p99_ttft_ms"]
    assert (found["goodput"]["requests"], found["failed"]) == (2, 0)
    assert found["client"]["cpu_share_max"] == pytest.approx(0.9)
    assert found["client"]["bound"] is True


def test_a_request_that_it_lost_voids_the_cell():
    errors = ["", "Traceback (most recent call last):\n  ...\naiohttp.ClientError: gone", "", ""]

    found = record(errors=errors, completed=3, total_input_tokens=96, total_output_tokens=24)

    assert found["status"] == "void"
    assert found["reasons"] == ["1 of 4 requests failed: aiohttp.ClientError: gone"]


def test_answers_of_another_length_void_the_cell():
    assert "another length" in record(output_lens=[8, 8, 8, 5])["reasons"][0]


def test_it_is_asked_for_a_closed_loop_of_fixed_lengths_and_for_the_servers_own_count():
    words = command(ASKED, CELL, "seed", "/out.jsonl")
    options = dict(zip(words[3:-1:2], words[4::2], strict=False))

    assert words[:3] == ["/venv/bin/python", "-m", "sglang.bench_serving"]
    assert (options["--max-concurrency"], options["--num-prompts"]) == ("2", "4")
    assert (options["--random-input-len"], options["--random-output-len"]) == ("32", "8")
    assert options["--random-range-ratio"] == "1"
    assert json.loads(options["--extra-request-body"]) == {"stream_options": {"include_usage": True}, "top_p": 1}
    assert "--disable-ignore-eos" not in words
    assert "--disable-ignore-eos" in command({**ASKED, "ignore_eos": False}, CELL, "seed", "/out.jsonl")


def test_its_bar_tells_how_far_it_is():
    assert COUNTED.findall(" 25%|##   | 48/192 [00:10<00:31,  4.5it/s]")[-1] == ("48", "192")
