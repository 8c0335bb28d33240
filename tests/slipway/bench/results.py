"""Results as a sweep leaves them, for tests: any figures, on any hardware."""

from __future__ import annotations

import json
from pathlib import Path


def cell(output: float, concurrency: int = 8, repeat: int = 0, **more) -> dict:
    """A record of a 1024/128 cell whose other figures follow from its output tok/s."""
    tpot = 1000 * concurrency / output
    row = {
        "input_len": 1024, "output_len": 128, "max_concurrency": concurrency, "num_prompts": 4 * concurrency,
        "repeat": repeat, "valid": True, "void": [], "marks": [], "duration": 10.0, "completed": 4 * concurrency,
        "output_throughput": output, "total_throughput": 9 * output, "input_throughput": 8 * output,
        "request_throughput": output / 128, "median_tpot_ms": tpot, "median_ttft_ms": 20.0 + concurrency,
        "p99_ttft_ms": 40.0 + concurrency, "median_e2e_latency_ms": 20.0 + concurrency + 127 * tpot,
        "gpus_all": 4, "gpus_prefill": 2, "gpus_decode": 2, "started": "2026-11-30T08:00:00Z",
    }  # fmt: skip
    return {**row, **more}


def void(concurrency: int = 8, repeat: int = 0, reason: str = "1 of 32 requests failed") -> dict:
    return cell(1.0, concurrency, repeat, valid=False, void=[reason])


def instance(name: str, **flags) -> dict:
    argv = ["python", "-m", "sglang.launch_server"]
    for key, value in flags.items():
        argv += [f"--{key.replace('_', '-')}", str(value)]
    return {"name": name, "host": "gpu1", "gpus": [0, 1], "build": "sglang-1", "argv": argv, "env": {}}


def provenance(**more) -> dict:
    host = {"name": "gpu1", "address": "gpu1", "manager": "systemd", "user": "slipway", "python": "3.12",
            "paths": {"root": "/opt/slipway"}, "builds": [], "checkpoint": None}  # fmt: skip
    plan = {"hosts": [host], "instances": [instance("decode-0", moe_runner_backend="marlin")], "decisions": []}
    found = {
        "schema": 1, "deployment": "demo", "release": 3, "simulated": False, "verified": True,
        "date": "2026-11-30T08:00:00Z", "plan": plan, "client": {"kind": "built-in", "version": "1"},
        "gpus": [{"host": "gpu1", "name": "NVIDIA H200", "count": 4, "driver": "580.159.04"}],
        "checkpoint": {"name": "org/model", "revision": "abc"}, "router": {"name": "smg", "version": "1.13.0"},
    }  # fmt: skip
    return {**found, **more}


def write(results: Path, label: str, cells: list, complete: bool = True, **more) -> Path:
    """A results folder; `more` replaces keys of the provenance."""
    folder = results / label
    folder.mkdir(parents=True)
    lines = [one if isinstance(one, str) else json.dumps(one) for one in cells]
    (folder / "cells.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "provenance.json").write_text(json.dumps({"label": label, **provenance(**more)}))
    if complete:
        (folder / "complete.json").write_text("{}")
    return folder
