"""One cell: a shape and a concurrency, calibrated, warmed up, measured and judged."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .clocks import Clocks
from .crew import Tick, processes_for, run_load
from .figures import judged, record
from .prompts import Calibration, Prompts, even
from .target import PATHS, Shape, Target, TargetError
from .worker import Orders

FAILURES_AT_MOST = 16  # after so many the cell is void beyond doubt, and no more is asked
PROBES = 4
Say = Callable[[str], None]


@dataclass
class Cell:
    """What to measure. input: prompt tokens. prompts: how many requests, or None with duration_s.

    seed: of the prompts. processes: of the client, None: as many as fit.
    """

    shape: Shape
    input: int
    streams: int
    prompts: int | None
    seed: str
    warmups: int = 0
    duration_s: float | None = None
    processes: int | None = None
    timeout_s: float = 3600.0
    silence_s: float = 600.0
    pause_s: float = 0.25
    slo: dict[str, Any] = field(default_factory=dict)


class Client:
    """Measures cells of one target; remembers how many words make how many tokens."""

    def __init__(self, target: Target, vocabulary: list[str]) -> None:
        self._target, self._vocabulary = target, vocabulary
        self._calibration = Calibration()
        self._evened = False

    def calibrate(self, shape: Shape, tokens: int, seed: str) -> int:
        """How many words give a prompt of `tokens`, by asking for one token a few times. Raises TargetError."""
        probe = replace(shape, output=1, stream=False)
        if not self._evened:
            self._vocabulary = even(self._vocabulary, lambda prompt: self._counted(probe, prompt))
            self._evened = True
        for number in range(PROBES):
            words = self._calibration.words_for(tokens)
            prompt = Prompts(self._vocabulary, f"{seed}/probe {number}", words).prompt(0)
            counted = self._counted(probe, prompt)
            if counted is None:
                return words  # a server that counts nothing
            self._calibration.learn(words, counted)
            if counted == tokens:
                break
        return self._calibration.words_for(tokens)

    def _counted(self, shape: Shape, prompt: str) -> int | None:
        status, text = exchange(self._target, PATHS[shape.api], shape.body(prompt))
        try:
            usage = json.loads(text).get("usage") or {}
        except (ValueError, AttributeError):
            usage = {}
        if status != 200:
            raise TargetError(f"{self._target.url} answers {status} to a first request: {text[:300]}")
        return usage.get("prompt_tokens")

    def warm(self, cell: Cell, words: int, requests: int) -> int:
        """Send requests that do not count; how many of them failed."""
        rows = self._load(replace(cell, seed=f"{cell.seed}/warm", duration_s=None), words, requests, lambda *_: True)
        return sum(bool(row["error"]) for row in rows["rows"])

    def measure(self, cell: Cell, words: int, tick: Tick) -> dict[str, Any]:
        """The counted cell: figures, status, reasons and notes, and its rows under `rows`."""
        clocks = Clocks()
        result = self._load(cell, words, cell.prompts, stop_when_void(cell, tick))
        counted = record(result, cell.slo)
        verdict = judged(counted, cell.shape.stream)
        jumps = clocks.jumps()
        verdict["notes"] += jumps["notes"]
        if jumps["reasons"]:
            verdict = {**verdict, "status": "void", "reasons": [*verdict["reasons"], *jumps["reasons"]]}
        times = {"started": clocks.iso(clocks.wall), "ended": clocks.iso(time.time()), "seed": cell.seed}
        return {**verdict, **counted, **times, "wall_start": clocks.wall_at(result["start"]), "rows": result["rows"]}

    def _load(self, cell: Cell, words: int, requests: int | None, tick: Tick) -> dict[str, Any]:
        prompts, path = Prompts(self._vocabulary, cell.seed, words), PATHS[cell.shape.api]

        def payload(index: int) -> bytes:
            return self._target.request(path, cell.shape.body(prompts.prompt(index)))

        orders = Orders(
            self._target, payload, (cell.input, cell.shape.output), cell.shape.stream, cell.streams, 0.0,
            cell.duration_s, cell.timeout_s, cell.silence_s, cell.pause_s,
        )  # fmt: skip
        return run_load(orders, requests, processes_for(cell.streams, cell.processes), tick)


def stop_when_void(cell: Cell, tick: Tick) -> Tick:
    """Ask no more once many requests have failed; with a duration every loss counts, so go on."""
    failed = 0

    def counting(rows: list[dict[str, Any]], tokens: int) -> bool:
        nonlocal failed
        failed += sum(bool(row["error"]) for row in rows)
        return tick(rows, tokens) and (cell.duration_s is not None or failed < FAILURES_AT_MOST)

    return counting


def exchange(target: Target, path: str, body: bytes | None = None, timeout: float = 120.0) -> tuple[int, str]:
    """One request that nobody times: status and text. Raises TargetError when there is no answer."""
    connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout)
    if target.context:
        connection = http.client.HTTPSConnection(target.host, target.port, timeout=timeout, context=target.context)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if target.key:
        headers["Authorization"] = f"Bearer {target.key}"
    try:
        connection.request("GET" if body is None else "POST", target.base + path, body, headers)
        with connection.getresponse() as response:
            return response.status, response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise TargetError(f"{target.url} does not answer ({type(error).__name__}: {error})") from None
    finally:
        connection.close()
