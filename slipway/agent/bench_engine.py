"""Measures a cell with the engine's own benchmark, and gives its result the shape of the built-in client's.

Its own figures are kept under their names; what its release does not print is made from its details. It counts prompt
tokens by its tokenizer, without the chat template, and its warm-ups are copies of one prompt. Python 3.9+.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

from slipway.agent.bench_record import read_lines
from slipway.agent.load.clocks import Clocks
from slipway.agent.load.figures import CLIENT_BUSY, judged, record
from slipway.agent.load.target import TargetError

POLL_S = 0.5
COUNTED = re.compile(r"\b(\d+)/(\d+) \[")
BACKENDS = {"chat": "sglang-oai-chat", "completions": "sglang-oai"}
Tick = Callable[[list[dict[str, Any]], int], bool]


def measure(
    asked: dict[str, Any], cell: dict[str, Any], seed: str, folder: str, key: str, tick: Tick
) -> dict[str, Any]:
    """Run it once. asked: the sweep. key: the API key. Raises TargetError with its last words when it gives nothing."""
    output, log = os.path.join(folder, ".engine.jsonl"), os.path.join(folder, "engine.log")
    if os.path.exists(output):
        os.remove(output)
    clocks = Clocks()
    with open(log, "ab") as sink:
        begin = sink.tell()
        child = subprocess.Popen(
            command(asked, cell, seed, output), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            env={**os.environ, **environment(asked, key)},
        )  # fmt: skip
        used = followed(child, log, begin, tick)
    lines = read_lines(output)
    if child.returncode or not lines:
        raise TargetError(f"{asked['engine']['module']} ended with {child.returncode}: {last_words(log, begin)}")
    found = normalised(lines[-1], cell, used, asked)
    jumps = clocks.jumps()
    verdict = judged(found)
    verdict["notes"] += jumps["notes"]
    if jumps["reasons"]:
        verdict.update(status="void", reasons=[*verdict["reasons"], *jumps["reasons"]])
    times = {"started": clocks.iso(clocks.wall), "ended": clocks.iso(time.time()), "seed": seed}
    return {**found, **verdict, **times, "wall_start": time.time() - found["duration"]}


def command(asked: dict[str, Any], cell: dict[str, Any], seed: str, output: str) -> list[str]:
    """Its command line. Its seed is a number, made from ours."""
    engine, number = asked["engine"], sum(ord(char) * (at + 1) for at, char in enumerate(seed)) % 2**31
    options = {
        "backend": BACKENDS[asked["api"]], "base-url": asked["url"], "model": asked["model"],
        "tokenizer": engine["tokenizer"], "dataset-name": "random-ids", "random-input-len": cell["input"],
        "random-output-len": cell["output"], "random-range-ratio": 1, "num-prompts": cell["prompts"],
        "max-concurrency": cell["concurrency"], "warmup-requests": cell["warmups"], "seed": number,
        "output-file": output, "tag": asked["label"],
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    counted = {"stream_options": {"include_usage": True}, **asked["extra"]}  # else it takes the length it asked for
    words += ["--extra-request-body", json.dumps(counted)]
    return [
        engine["python"], "-m", engine["module"], *words, "--output-details",
        *([] if asked["ignore_eos"] else ["--disable-ignore-eos"]),
    ]  # fmt: skip


def environment(asked: dict[str, Any], key: str) -> dict[str, str]:
    """What it needs besides: its build's own variables, the key, and no proxy on the way to the plan's addresses."""
    return {**asked["engine"]["env"], "NO_PROXY": "*", "no_proxy": "*", **({"OPENAI_API_KEY": key} if key else {})}


def followed(child: subprocess.Popen[bytes], log: str, begin: int, tick: Tick) -> list[tuple[float, float]]:
    """Until it ends: (seconds, processor seconds) as they were seen, and progress told by its bar."""
    used: list[tuple[float, float]] = []
    seen = 0
    while child.poll() is None:
        used.append((time.monotonic(), cpu_of(child.pid)))
        counts = COUNTED.findall(tail(log, begin))
        done = int(counts[-1][0]) if counts else 0
        new, seen = max(0, done - seen), max(seen, done)
        tick([{"error": ""}] * new, 0)
        time.sleep(POLL_S)
    return used


def cpu_of(pid: int) -> float:
    """Processor seconds of a process so far; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tail(log: str, begin: int, size: int = 4096) -> str:
    """The end of what it has said in this cell."""
    with open(log, "rb") as file:
        file.seek(max(begin, os.path.getsize(log) - size))
        return file.read().decode("utf-8", "replace")


def last_words(log: str, begin: int) -> str:
    """Its last line that says something."""
    lines = [line.strip() for line in tail(log, begin).replace("\r", "\n").splitlines()]
    return next((line[:300] for line in reversed(lines) if line), "nothing was said")


def normalised(
    line: dict[str, Any], cell: dict[str, Any], used: list[tuple[float, float]], asked: dict[str, Any]
) -> Any:
    """Its line of figures as a record of ours."""
    rows = rows_of(line, cell)
    counted = record({"start": 0.0, "rows": rows, "gaps": gaps_of(line), "per_second": {}, "workers": []}, asked["slo"])
    own = {name: line[name] for name in counted if line.get(name) is not None}
    kept = {**counted, **own, "client": client(asked["engine"], used, line["duration"])}
    if kept["goodput"]:
        kept["goodput"]["request_goodput"] = kept["goodput"]["requests"] / line["duration"]
    return {**kept, "cached_tokens": None, "rows": rows}


def rows_of(line: dict[str, Any], cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Its arrays as rows. It does not say when a request began, so all begin at 0; the duration is its own."""
    details = zip(line["input_lens"], line["output_lens"], line["ttfts"], line["itls"], line["errors"])  # noqa: B905
    return [
        {
            "index": index, "start": 0.0, "end": ttft + sum(gaps), "error": reason(error), "ttft": ttft or None,
            "chunks": 1 + len(gaps) if tokens else 0, "finish": "", "characters": 0, "input": prompt, "output": tokens,
            "input_asked": cell["input"], "output_asked": cell["output"], "cached": None,
        }
        for index, (prompt, tokens, ttft, gaps, error) in enumerate(details)
    ]  # fmt: skip


def reason(error: str) -> str:
    """The last line of a traceback; what was lost without a word is a loss as well."""
    return error.strip().splitlines()[-1][:160] if error.strip() else ""


def gaps_of(line: dict[str, Any]) -> dict[int, int]:
    """Its gaps between chunks, counted by microseconds."""
    counts: dict[int, int] = {}
    for gaps in line["itls"]:
        for gap in gaps:
            counts[int(gap * 1e6)] = counts.get(int(gap * 1e6), 0) + 1
    return counts


def client(engine: dict[str, Any], used: list[tuple[float, float]], duration: float) -> dict[str, Any]:
    """What it used of a core over the measured part, which is its last; it is one process."""
    end = used[-1][0] if used else 0.0
    window = [row for row in used if row[0] >= end - duration]
    spent = window[-1][1] - window[0][1] if len(window) > 1 else 0.0
    share = spent / (window[-1][0] - window[0][0]) if len(window) > 1 else 0.0
    return {
        "name": "engine", "version": engine["module"], "processes": 1, "cpu_s": spent, "cpu_share_max": share,
        "waited_share_max": 0.0, "bound": share > CLIENT_BUSY,
    }  # fmt: skip
