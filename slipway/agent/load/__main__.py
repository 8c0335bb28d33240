"""A closed loop of streams against an OpenAI endpoint, from the command line.

usage: load --url http://HOST:PORT --model NAME --streams 64 (--prompts 640 | --duration 60) [--input 128] [--output 32]
            [--until FILE] [--api chat|completions] [--no-stream] [--warmups N] [--rows FILE] [--seed TEXT] ...

Prints progress on standard error and one JSON object on standard output: the record of the cell. Exit status 0: every
request was answered; 3: some were not (see failed, failures, and --rows for each); 2: the endpoint cannot be used.
The API key is read from SLIPWAY_LOAD_KEY. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

from .cell import Cell, Client
from .crew import CrewError
from .prompts import vocabulary_of
from .target import PATHS, Shape, TargetError, target_of

NOT_ALL, UNUSABLE = 3, 2


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(prog="load", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    found.add_argument("--url", required=True)
    found.add_argument("--model", required=True)
    found.add_argument("--api", choices=sorted(PATHS), default="chat")
    found.add_argument("--streams", type=int, default=1, help="requests under way at a time")
    amount = found.add_mutually_exclusive_group(required=True)
    amount.add_argument("--prompts", type=int, help="requests in all")
    amount.add_argument("--duration", type=float, metavar="SECONDS", help="begin requests for so long")
    found.add_argument("--until", metavar="FILE", help="begin no more requests once this file is there")
    found.add_argument("--input", type=int, default=128, help="tokens of a prompt, template included")
    found.add_argument("--output", type=int, default=32, help="tokens of an answer")
    found.add_argument("--no-stream", action="store_true")
    found.add_argument("--no-ignore-eos", action="store_true")
    found.add_argument("--extra", type=json.loads, default={}, metavar="JSON", help="more fields of the body")
    found.add_argument("--warmups", type=int, default=0)
    found.add_argument("--seed", default="")
    found.add_argument("--processes", type=int)
    found.add_argument("--timeout", type=float, default=3600.0, help="seconds a request may take in all")
    found.add_argument("--silence", type=float, default=600.0, help="seconds without a byte")
    found.add_argument("--pause", type=float, default=0.05, help="seconds to rest after a failed request")
    found.add_argument("--tokenizer", help="a tokenizer.json to draw words from")
    found.add_argument("--insecure", action="store_true", help="take any TLS certificate")
    found.add_argument("--rows", help="file for one JSON line a request")
    return found


def cell_of(options: argparse.Namespace) -> Cell:
    """The cell that the options describe."""
    shape = Shape(
        options.api, options.model, options.output, not options.no_stream, not options.no_ignore_eos, options.extra
    )
    return Cell(
        shape, options.input, options.streams, options.prompts, options.seed or f"{time.time()}",
        options.warmups, options.duration, options.processes, options.timeout, options.silence, options.pause,
    )  # fmt: skip


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure. Raises TargetError, CrewError, OSError."""
    target = target_of(options.url, os.environ.get("SLIPWAY_LOAD_KEY", ""), options.insecure)
    client, cell = Client(target, vocabulary_of(options.tokenizer)), cell_of(options)
    words = client.calibrate(cell.shape, cell.input, cell.seed)
    if cell.warmups:
        client.warm(cell, words, cell.warmups)
    began, seen, failed = time.monotonic(), 0, 0

    def tick(rows: list[dict[str, Any]], tokens: int) -> bool:
        nonlocal seen, failed
        seen, failed = seen + len(rows), failed + sum(bool(row["error"]) for row in rows)
        said = f"{seen} requests, {failed} failed, {tokens} tokens" if seen else f"no answer yet, {tokens} tokens"
        print(f"{time.monotonic() - began:6.1f} s  {said}", file=sys.stderr)
        return not (options.until and os.path.exists(options.until))

    return client.measure(cell, words, tick)


def main() -> int:
    """One call."""
    options = parser().parse_args()
    try:
        found = run(options)
    except (TargetError, CrewError, OSError, ValueError) as error:
        print(f"load: {error}", file=sys.stderr)
        return UNUSABLE
    rows = found.pop("rows")
    if options.rows:
        with open(options.rows, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({**row, "wall": found["wall_start"]}) + "\n" for row in rows)
    print(json.dumps(found))
    return NOT_ALL if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
