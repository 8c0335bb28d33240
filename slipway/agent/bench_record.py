"""The result of a benchmark: the record of a cell, and the files of a label. docs/guides/bench-results.md tells it all.

Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
from typing import Any

from slipway.agent.files import write_whole

FORMAT = 1
RESULTS, REQUESTS, PROVENANCE, SWEEP, DONE = (
    "results.jsonl", "requests.jsonl", "provenance.json", "sweep.json", "done.json",
)  # fmt: skip


def cell_name(cell: dict[str, Any]) -> str:
    """1024-8192-c16: prompt tokens, output tokens, concurrency. The same cell has the same name in every label."""
    return f"{cell['input']}-{cell['output']}-c{cell['concurrency']}"


def arguments(sweep: dict[str, Any], cell: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, under the names of SGLang's own benchmark."""
    return {
        "tag": sweep["label"],
        "backend": "sglang-oai-chat" if sweep["api"] == "chat" else "sglang-oai",
        "dataset_name": "random",
        "request_rate": "inf",
        "max_concurrency": cell["concurrency"],
        "random_input_len": cell["input"],
        "random_output_len": cell["output"],
        "random_range_ratio": 1.0,
    }


def cell_record(sweep: dict[str, Any], cell: dict[str, Any], repeat: int, measured: dict[str, Any]) -> dict[str, Any]:
    """One line of results.jsonl. measured: figures, status, reasons and notes of the client, server and GPUs."""
    head = {"format": FORMAT, "label": sweep["label"], "repeat": repeat, "cell": cell_name(cell)}
    verdict = {name: measured[name] for name in ("status", "reasons", "notes")}
    asked = {"num_prompts": cell["prompts"], "warmups": cell["warmups"], **arguments(sweep, cell)}
    rest = {name: value for name, value in measured.items() if name not in (*verdict, "rows")}
    return {**head, **verdict, **asked, **rest, **per_gpu(measured, sweep["gpus"])}


def per_gpu(measured: dict[str, Any], gpus: dict[str, int]) -> dict[str, Any]:
    """Throughput over a number of GPUs that the key names; None where there is none of them.

    gpus: how many are in all, and how many compute prompts (prefill) and tokens (decode); unified workers do both.
    """
    return {
        "gpus": gpus,
        "total_throughput_per_gpu_all": over(measured["total_throughput"], gpus["all"]),
        "output_throughput_per_gpu_all": over(measured["output_throughput"], gpus["all"]),
        "input_throughput_per_gpu_prefill": over(measured["input_throughput"], gpus["prefill"]),
        "output_throughput_per_gpu_decode": over(measured["output_throughput"], gpus["decode"]),
    }


def over(amount: float | None, number: int) -> float | None:
    """A share; None of nothing, or of what was not measured."""
    return amount / number if number and amount is not None else None


def append_line(path: str, value: Any) -> None:
    """One JSON line at the end of a file, on the disk before this returns."""
    with open(path, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"  # a crash left half a line, which must not swallow this one
            file.write(b"\n" if torn else b"")
        file.write(json.dumps(value).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: str) -> list[Any]:
    """The JSON lines of a file; a torn last line, which a crash leaves, is left out."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except OSError:
        return []
    found = []
    for line in filter(None, lines):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def write_json(path: str, value: Any) -> None:
    """Whole or not at all."""
    write_whole(path, json.dumps(value, indent=1) + "\n")


def request_line(label: str, repeat: int, cell: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of requests.jsonl: the requests of a cell in the order in which they began. Times are seconds."""
    first = rows[0]["start"] if rows else 0.0
    return {
        "label": label, "repeat": repeat, "cell": cell,
        "starts": [round(row["start"] - first, 6) for row in rows],
        "latencies": [round(row["end"] - row["start"], 6) for row in rows],
        "ttfts": [None if row["ttft"] is None else round(row["ttft"], 6) for row in rows],
        "input_lens": [row["input"] for row in rows], "output_lens": [row["output"] for row in rows],
        "chunks": [row["chunks"] for row in rows], "errors": [row["error"] for row in rows],
    }  # fmt: skip
