"""Runs a sweep: every cell that is not recorded yet, in order, one line of results.jsonl each.

usage: bench run FOLDER REPEAT    up to this repeat; FOLDER/sweep.json says what; prints progress, writes done.json last
       bench state FOLDER         one JSON line: what the folder holds
       bench forget FOLDER        remove the API key, should it still be there
       bench news JOB OFFSET      one JSON line: what the job has said since, and how it is

Killed at any point, it goes on with the first cell that has no record. The API key, if there is one, lies in
FOLDER/key, readable by its owner alone, and is removed at the end. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from slipway.agent import bench_engine, bench_metrics
from slipway.agent.bench_record import (
    DONE,
    REQUESTS,
    RESULTS,
    SWEEP,
    append_line,
    cell_name,
    cell_record,
    read_lines,
    request_line,
    write_json,
)
from slipway.agent.job import status as job_status
from slipway.agent.load.cell import Cell, Client
from slipway.agent.load.clocks import Clocks
from slipway.agent.load.crew import CrewError
from slipway.agent.load.figures import CACHED_SHARE, judged, record
from slipway.agent.load.prompts import vocabulary_of
from slipway.agent.load.target import Shape, Target, TargetError, target_of

SAMPLE_S, READY_POLL_S = 2.0, 2.0
KEY, CA = "key", "ca.pem"
NOTHING = {"start": 0.0, "rows": [], "gaps": {}, "per_second": {}, "workers": []}


class Sweep:
    """One repeat of a sweep in its folder."""

    def __init__(self, folder: str, repeat: int) -> None:
        self.folder, self.repeat = folder, repeat
        with open(os.path.join(folder, SWEEP), encoding="utf-8") as file:
            self.asked: dict[str, Any] = json.load(file)
        self.cells: list[dict[str, Any]] = self.asked["cells"]
        self.seed = f"{self.asked['seed'] or time.time()}/{repeat}"
        self._client: Client | None = None
        self._pace: list[float] = []  # seconds of a round of a cell, by output token

    def client(self) -> Client:
        """The built-in client; one for all cells, as it learns how many tokens words make. Raises TargetError."""
        if self._client is None:
            self._client = Client(endpoint(self.folder, self.asked), vocabulary_of(self.asked["tokenizer"]))
        return self._client

    def recorded(self) -> dict[str, dict[str, Any]]:
        """Cells of this repeat that are done."""
        lines = read_lines(os.path.join(self.folder, RESULTS))
        return {line["cell"]: line for line in lines if line.get("repeat") == self.repeat}

    def run(self) -> int:
        """Every cell that is left; the number of void ones of the repeat."""
        done = self.recorded()
        for number, cell in enumerate(self.cells):
            if cell_name(cell) not in done:
                found = self._cell(number, cell)
                append_line(os.path.join(self.folder, RESULTS), found)
                self._say_cell(found)
        ended = list(self.recorded().values())
        void = sum(line["status"] == "void" for line in ended)
        mark = {"repeat": self.repeat, "cells": len(ended), "valid": len(ended) - void, "void": void}
        write_json(os.path.join(self.folder, DONE), {**mark, "ended": Clocks.iso(time.time())})
        print(f"sweep {self.asked['label']}, repeat {self.repeat}: {len(ended)} cells, {void} of them void", flush=True)
        return int(void)

    def _cell(self, number: int, cell: dict[str, Any]) -> dict[str, Any]:
        try:
            measured = Measurement(self, number, cell).run()
        except (TargetError, CrewError, OSError) as error:
            measured = void(f"the cell could not be measured: {error}", f"{self.seed}/{cell_name(cell)}")
        rows = measured["rows"]
        if self.asked["details"] and rows:
            line = request_line(self.asked["label"], self.repeat, cell_name(cell), rows)
            append_line(os.path.join(self.folder, REQUESTS), line)
        return cell_record(self.asked, cell, self.repeat, measured)

    def _say_cell(self, found: dict[str, Any]) -> None:
        if found["output_throughput"]:
            rounds = max(1, found["num_prompts"] / found["max_concurrency"])
            self._pace.append(found["duration"] / rounds / found["random_output_len"])
        shown = f"{found['output_throughput'] or 0:.1f} tok/s out, {found['median_ttft_ms'] or 0:.1f} ms TTFT"
        print(f"{found['cell']}: {found['status']}, {shown}", *found["reasons"], *found["notes"], sep="; ", flush=True)

    def left_s(self, after: int) -> float | None:
        """Seconds that the cells after number `after` may take, going by the slowest so far."""
        if not self._pace:
            return None
        rounds = (cell["output"] * max(1, cell["prompts"] / cell["concurrency"]) for cell in self.cells[after + 1 :])
        return float(max(self._pace) * sum(rounds))


class Measurement:
    """One cell of a sweep, with what surrounds the client's part of it."""

    def __init__(self, sweep: Sweep, number: int, cell: dict[str, Any]) -> None:
        self._sweep, self._number, self._asked = sweep, number, cell
        asked = sweep.asked
        shape = Shape(asked["api"], asked["model"], cell["output"], True, asked["ignore_eos"], asked["extra"])
        self._cell = Cell(
            shape, cell["input"], cell["concurrency"], cell["prompts"], f"{sweep.seed}/{cell_name(cell)}",
            processes=asked["processes"], timeout_s=asked["timeout_s"], silence_s=asked["silence_s"], slo=asked["slo"],
        )  # fmt: skip
        target = endpoint(sweep.folder, asked)
        self._asker = bench_metrics.Asker(target.key, target.context)
        self._watch = bench_metrics.Watch(asked["workers"], self._asker)
        self._seen = self._failed = 0
        self._sampled = self._said = 0.0

    def run(self) -> dict[str, Any]:
        """Calibrate, warm up, flush, measure. Raises TargetError, CrewError, OSError."""
        measured, notes = (self._by_engine if self._sweep.asked["client"] == "engine" else self._by_own)()
        return with_server(measured, self._watch.end(), notes)

    def _by_own(self) -> tuple[dict[str, Any], list[str]]:
        cell, client = self._cell, self._sweep.client()
        words = self._calibrated(client)
        self._say(f"{self._asked['warmups']} warm-ups")
        lost = client.warm(cell, words, self._asked["warmups"]) if self._asked["warmups"] else 0
        notes = [f"{lost} of {self._asked['warmups']} warm-ups failed"] if lost else []
        notes += self._ready()
        return client.measure(cell, words, self._tick), notes

    def _calibrated(self, client: Client) -> int:
        """How many words a prompt has; waits for an endpoint that does not answer, as after a restart."""
        cell, end = self._cell, time.monotonic() + self._sweep.asked["ready_s"]
        while True:
            self._say("calibrating the prompts")
            try:
                return client.calibrate(cell.shape, cell.input, cell.seed)
            except TargetError as error:
                if time.monotonic() > end:
                    raise
                self._say(f"waiting: {error}")
            time.sleep(READY_POLL_S)

    def _by_engine(self) -> tuple[dict[str, Any], list[str]]:
        """Its warm-ups come after our look at the workers, as it is one process for both."""
        folder, asked = self._sweep.folder, self._sweep.asked
        self._say(f"starting {asked['engine']['module']}")
        notes = self._ready()
        key = read_key(folder)
        return bench_engine.measure(asked, self._asked, self._cell.seed, folder, key, self._tick), notes

    def _ready(self) -> list[str]:
        """Fresh caches, and a look at the workers; what could not be done of it."""
        asked = self._sweep.asked
        notes = bench_metrics.flush(asked["workers"], self._asker.post) if asked["flush"] else []
        self._watch.begin()
        self._began = time.monotonic()
        return notes

    def _tick(self, rows: list[dict[str, Any]], tokens: int) -> bool:
        now = time.monotonic()
        self._seen += len(rows)
        self._failed += sum(bool(row["error"]) for row in rows)
        if now - self._sampled >= SAMPLE_S:
            self._sampled = now
            self._watch.sample()
        if now - self._said >= 1.0:
            self._said = now
            self._progress(now - self._began, tokens)
        return True

    def _progress(self, spent: float, tokens: int) -> None:
        wanted = self._asked["prompts"]
        left = spent / self._seen * (wanted - self._seen) if self._seen else None
        after = self._sweep.left_s(self._number)
        whole = left + after if left is not None and after is not None else None
        text = f"{self._seen}/{wanted} requests, {tokens / spent if spent > 0.1 else 0:.0f} tok/s"
        text += f", {self._failed} failed" if self._failed else ""
        self._say(f"{text}, cell {span(left)} left, sweep {span(whole)} left")

    def _say(self, text: str) -> None:
        place = f"cell {self._number + 1}/{len(self._sweep.cells)} {cell_name(self._asked)}"
        print(f"{place}: {text}", flush=True)


def with_server(measured: dict[str, Any], server: dict[str, Any] | None, notes: list[str]) -> dict[str, Any]:
    """Add what the workers say, and what follows from it."""
    measured["notes"] += notes
    share = server.pop("cached_token_rate") if server else None
    accepted = server.pop("accept_length", None) if server else None
    if measured.get("accept_length") is None:
        measured["accept_length"] = accepted
    if measured["cached_tokens"] is not None and measured["total_input_tokens"]:
        share = measured["cached_tokens"] / measured["total_input_tokens"]
    measured.update(server=server, cached_token_rate=share, gpu=None)
    if share and share >= CACHED_SHARE and measured["cached_tokens"] is None:
        each = share * measured["total_input_tokens"] / max(1, measured["completed"])
        measured["notes"].append(f"{share:.1%} of the prompt tokens came from the prefix cache, {each:.0f} a request")
    if server is None:
        measured["notes"].append("no worker gives metrics: enable_metrics is off, or they cannot be reached from here")
        return measured
    lost = server["transfer_failures"]
    gone = [f"{name} was restarted in the middle of the cell" for name in server["restarted"]]
    if gone or lost:
        gone += [f"{lost:.0f} KV transfers failed, by the workers' own count"] if lost else []
        measured.update(status="void", reasons=[*measured["reasons"], *gone])
    return measured


def void(reason: str, seed: str) -> dict[str, Any]:
    """What is recorded of a cell that could not be measured."""
    counted = record(NOTHING)
    now = Clocks.iso(time.time())
    verdict = {**judged(counted), "status": "void", "reasons": [reason]}
    more = {"server": None, "cached_token_rate": None, "gpu": None, "started": now, "ended": now, "seed": seed}
    return {**verdict, **counted, **more, "rows": []}


def endpoint(folder: str, asked: dict[str, Any]) -> Target:
    """Where the requests go. Raises TargetError."""
    ca = os.path.join(folder, CA)
    return target_of(asked["url"], read_key(folder), asked["insecure"], ca if os.path.exists(ca) else "")


def read_key(folder: str) -> str:
    """The API key, '' when there is none."""
    try:
        with open(os.path.join(folder, KEY), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def span(seconds: float | None) -> str:
    """A time to wait in words."""
    if seconds is None:
        return "?"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def state(folder: str) -> dict[str, Any]:
    """What a label's folder holds: {} when it is not there."""
    if not os.path.isdir(folder):
        return {}
    found: dict[str, Any] = {}
    for name in (SWEEP, "provenance.json", DONE):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found[name.partition(".")[0]] = json.load(file)
        except (OSError, ValueError):
            found[name.partition(".")[0]] = None
    found["files"] = sorted(os.listdir(folder))
    return found


def news(job: str, offset: int) -> dict[str, Any]:
    """Whole lines of a job's log from an offset on, the offset after them, and the job's status."""
    status = job_status(job)
    try:
        with open(os.path.join(job, "log"), "rb") as file:
            file.seek(offset)
            data = file.read(65536)
    except OSError:
        data = b""
    whole = data.rpartition(b"\n")[0]
    lines = whole.decode("utf-8", "replace").splitlines()
    return {"lines": lines, "offset": offset + (len(whole) + 1 if whole else 0), "job": {"rc": None, **status}}


def forget(folder: str) -> dict[str, Any]:
    """The API key is not kept."""
    if os.path.exists(os.path.join(folder, KEY)):
        os.remove(os.path.join(folder, KEY))
    return {}


def ended_repeats(folder: str) -> int:
    """How many repeats came to their end."""
    return int((state(folder)["done"] or {}).get("repeat", 0))


def main(arguments: list[str]) -> int:
    """Run one call."""
    folder = arguments[1]
    if arguments[0] == "news":
        print(json.dumps(news(folder, int(arguments[2]))))
        return 0
    if arguments[0] != "run":
        print(json.dumps({"state": state, "forget": forget}[arguments[0]](folder)))
        return 0
    try:
        for repeat in range(ended_repeats(folder) + 1, int(arguments[2]) + 1):
            Sweep(folder, repeat).run()
    except (OSError, ValueError, KeyError) as error:
        print(f"the sweep stopped: {type(error).__name__}: {error}", flush=True)
        return 1
    finally:
        forget(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
