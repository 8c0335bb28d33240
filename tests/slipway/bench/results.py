"""Results as a sweep leaves them, for tests: any figures, on any hardware."""

from __future__ import annotations

import json
from pathlib import Path


def cell(output: float, concurrency: int = 8, repeat: int = 1, **more) -> dict:
    """A record of a 1024/128 cell whose other figures follow from its output tok/s."""
    tpot = 1000 * concurrency / output
    row = {
        "format": 1, "label": "", "repeat": repeat, "cell": f"1024-128-c{concurrency}", "status": "valid",
        "reasons": [], "notes": [], "random_input_len": 1024, "random_output_len": 128,
        "max_concurrency": concurrency, "num_prompts": 4 * concurrency, "warmups": 2, "request_rate": "inf",
        "duration": 10.0, "completed": 4 * concurrency, "output_throughput": output, "total_throughput": 9 * output,
        "input_throughput": 8 * output, "request_throughput": output / 128, "median_tpot_ms": tpot,
        "median_ttft_ms": 20.0 + concurrency, "p99_ttft_ms": 40.0 + concurrency,
        "median_e2e_latency_ms": 20.0 + concurrency + 127 * tpot, "p99_e2e_latency_ms": 60.0 + concurrency + 127 * tpot,
        "accept_length": None, "tok_s_per_user": {"mean": 1000 / tpot, "median": 1000 / tpot},
        "gpus": {"all": 4, "prefill": 2, "decode": 2}, "total_throughput_per_gpu_all": 9 * output / 4,
        "output_throughput_per_gpu_all": output / 4, "output_throughput_per_gpu_decode": output / 2,
        "server": {"gen_throughput_mean": output * 0.98, "restarted": []}, "started": "2026-11-30T08:00:00Z",
    }  # fmt: skip
    return {**row, **more}


def void(concurrency: int = 8, repeat: int = 1, reason: str = "1 of 32 requests failed") -> dict:
    return cell(1.0, concurrency, repeat, status="void", reasons=[reason])


def repeats(*outputs: float, concurrency: int = 8, **more) -> list[dict]:
    return [cell(output, concurrency, repeat, **more) for repeat, output in enumerate(outputs, 1)]


def provenance(**more) -> dict:
    settings = {"moe_runner_backend": "marlin", "tp": 2}
    place = {"host": "gpu1", "gpus": [0, 1]}
    found = {
        "format": 1, "deployment": "demo", "simulated": False, "plan": "0a1b",
        "engine": {"kind": "sglang", "version": "0.5.23", "device": "cuda"}, "builds": {"sglang-1": {}}, "patches": [],
        "checkpoint": {"name": "org/model", "served_name": "model", "revision": "abc", "path": "/srv/model"},
        "settings": {"prefill": dict(settings), "decode": dict(settings)},
        "environment": {"prefill-0": {"A": "1"}, "decode-0": {"A": "1"}},
        "topology": {"prefill": [{"instance": "prefill-0", **place}], "decode": [{"instance": "decode-0", **place}]},
        "gpus": {"all": 4, "prefill": 2, "decode": 2},
        "hosts": {"gpu1": {"hardware": "4 x NVIDIA H200", "driver": "580.159.04", "kernel": "6.8"}},
        "router": {"version": "smg 1.13.0", "policy": "round_robin"}, "client": {"name": "builtin", "api": "chat"},
        "runs": [{"repeat": 1, "release": 3, "ended": "2026-11-30T08:00:00Z", "verified": True}],
    }  # fmt: skip
    return {**found, **more}


def write(bench: Path, label: str, cells: list, complete: bool = True, **more) -> Path:
    """A results folder; `more` replaces keys of the provenance."""
    folder = bench / label
    folder.mkdir(parents=True)
    lines = [one if isinstance(one, str) else json.dumps({**one, "label": label}) for one in cells]
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "provenance.json").write_text(json.dumps({"label": label, **provenance(**more)}))
    if complete:
        last = max((one["repeat"] for one in cells if isinstance(one, dict)), default=1)
        (folder / "done.json").write_text(json.dumps({"repeat": last}))
    return folder
