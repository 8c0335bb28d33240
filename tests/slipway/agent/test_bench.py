"""The sweep as it runs on a host: it records each cell once, goes on where it was killed, and says what went wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipway.agent import bench_metrics
from slipway.agent.bench import news, state, with_server
from slipway.agent.bench_record import append_line, read_lines
from tests.slipway.agent.load.conftest import engine
from tests.slipway.agent.simulator.harness import ROOT

__all__ = ["engine"]
CAPTURES = Path(__file__).resolve().parents[2] / "data/bench"


def sweep(folder: Path, port: int, *cells: tuple[int, int], **more) -> Path:
    """A folder with what is asked: cells of (concurrency, prompts)."""
    folder.mkdir()
    url = f"http://127.0.0.1:{port}"
    rows = [{"input": 64, "output": 16, "concurrency": c, "prompts": n, "warmups": c} for c, n in cells]
    asked = {
        "label": "one", "api": "chat", "model": "tiny", "url": url, "cells": rows, "client": "builtin",
        "processes": 1, "slo": {"ttft_ms": 5000, "tpot_ms": None, "e2e_ms": None}, "details": True,
        "gpus": {"all": 4, "prefill": 4, "decode": 4}, "ignore_eos": True, "flush": True, "extra": {}, "seed": None,
        "workers": [{"name": "unified-0", "role": "unified", "url": url}], "tokenizer": None, "insecure": False,
        "ready_s": 0, "timeout_s": 30, "silence_s": 10, **more,
    }  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(asked))
    return folder


def run(folder: Path, repeat: int = 1) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "slipway.agent.bench", "run", str(folder), str(repeat)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)


def results(folder: Path) -> list[dict]:
    return read_lines(str(folder / "results.jsonl"))


def test_a_sweep_leaves_a_record_a_cell_its_requests_and_a_mark_at_the_end(engine, tmp_path):
    folder = sweep(tmp_path / "one", engine().port, (1, 2), (4, 8))

    said = run(folder, repeat=2).stdout

    lines = results(folder)
    assert [(line["cell"], line["repeat"], line["status"]) for line in lines] == [
        ("64-16-c1", 1, "valid"), ("64-16-c4", 1, "valid"), ("64-16-c1", 2, "valid"), ("64-16-c4", 2, "valid"),
    ]  # fmt: skip
    assert len({line["seed"] for line in lines}) == 4
    assert lines[1]["goodput"]["share"] == 1.0
    assert lines[1]["output_throughput_per_gpu_decode"] == lines[1]["output_throughput"] / 4
    assert lines[1]["server"]["generation_tokens"] == 8 * 16
    details = read_lines(str(folder / "requests.jsonl"))
    assert [len(line["ttfts"]) for line in details] == [2, 8, 2, 8]
    done = json.loads((folder / "done.json").read_text())
    assert {name: done[name] for name in ("repeat", "cells", "valid", "void")} == {
        "repeat": 2, "cells": 2, "valid": 2, "void": 0,
    }  # fmt: skip
    assert "cell 2/2 64-16-c4" in said
    assert "sweep one, repeat 2: 2 cells, 0 of them void" in said


def test_a_sweep_that_was_killed_goes_on_with_the_cell_that_is_open(engine, tmp_path):
    folder = sweep(tmp_path / "one", engine().port, (1, 2), (3, 400), (2, 4))
    words = [sys.executable, "-m", "slipway.agent.bench", "run", str(folder), "1"]
    first = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    while not results(folder):
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    (folder / "sweep.json").write_text((folder / "sweep.json").read_text().replace("400", "6"))
    kept = results(folder)
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"format": 1, "label": "on')  # what a power cut leaves of a record

    run(folder)

    assert [line["cell"] for line in results(folder)] == ["64-16-c1", "64-16-c3", "64-16-c2"]
    assert results(folder)[0] == kept[0]
    assert state(str(folder))["done"]["repeat"] == 1


def test_an_engine_that_is_gone_makes_void_cells_and_no_traceback(tmp_path):
    folder = sweep(tmp_path / "one", 1, (1, 2), (2, 4))

    done = run(folder)

    assert done.returncode == 0
    assert [line["status"] for line in results(folder)] == ["void", "void"]
    assert "does not answer" in results(folder)[0]["reasons"][0]
    assert results(folder)[0]["output_throughput"] is None
    assert "Traceback" not in done.stdout + done.stderr


def test_a_worker_that_is_restarted_in_the_middle_voids_the_cell():
    before = bench_metrics.parse('sglang:num_requests_total{a="b"} 40.0\nsglang:prompt_tokens_total{a="b"} 900.0')
    after = bench_metrics.parse('sglang:num_requests_total{a="b"} 3.0\nsglang:prompt_tokens_total{a="b"} 80.0')
    workers = [{"name": "decode-0", "role": "decode", "url": ""}]
    measured = {"status": "valid", "reasons": [], "notes": [], "cached_tokens": None, "total_input_tokens": 80}
    figures = {**bench_metrics.figures(workers, {"decode-0": before}, {"decode-0": after}), "cached_token_rate": None}

    found = with_server(measured, figures, [])

    assert found["status"] == "void"
    assert found["reasons"] == ["decode-0 was restarted in the middle of the cell"]


def test_the_pages_of_a_real_disaggregated_engine_are_understood():
    page = bench_metrics.parse((CAPTURES / "prefill-nixl-0.5.13.txt").read_text())
    workers = [{"name": "prefill-0", "role": "prefill", "url": ""}]

    found = bench_metrics.figures(workers, {"prefill-0": {}}, {"prefill-0": page})

    assert found["kv_transfers"] == 263
    assert found["kv_transfer_ms_mean"] == pytest.approx(5.748, abs=0.001)
    assert found["kv_transfer_gb_s_mean"] == pytest.approx(0.193, abs=0.001)
    assert found["cached_token_rate"] == pytest.approx(0.00664, abs=0.0001)
    assert (found["transfer_failures"], found["restarted"]) == (0.0, [])


def test_a_gauge_of_several_ranks_counts_each_group_once():
    lines = [
        f'sglang:gen_throughput{{dp_rank="{dp}",tp_rank="{tp}"}} {100 * dp + 50}' for dp in (0, 1) for tp in (0, 1)
    ]

    assert bench_metrics.gauge(bench_metrics.parse("\n".join(lines)), "gen_throughput") == 50 + 150
    assert bench_metrics.gauge(bench_metrics.parse("sglang:gen_throughput NaN"), "gen_throughput") is None


def test_a_line_after_half_a_line_is_whole(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"a": 1}\n{"b"')

    append_line(str(path), {"c": 3})

    assert read_lines(str(path)) == [{"a": 1}, {"c": 3}]


def test_news_are_whole_lines_from_where_one_has_read(tmp_path):
    (tmp_path / "log").write_text("one\ntwo\nthr")

    first = news(str(tmp_path), 0)
    with (tmp_path / "log").open("a") as file:
        file.write("ee\n")

    assert (first["lines"], first["job"]["state"]) == (["one", "two"], "absent")
    assert news(str(tmp_path), first["offset"])["lines"] == ["three"]


def test_gpus_are_sampled_until_the_deadline(tmp_path):
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\nwhile :; do cat {CAPTURES}/nvidia-smi-h200.csv; sleep 0.2; done\n")
    script.chmod(0o755)
    words = [sys.executable, "-m", "slipway.agent.bench_gpu", str(tmp_path / "bench/gpu.csv"), "0.5"]

    subprocess.run(words, cwd=ROOT, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, timeout=20)

    lines = (tmp_path / "bench/gpu.csv").read_text().splitlines()
    assert len(lines) > 16
    assert all(len(line.split(",")) == 7 for line in lines)
