"""One record of results: a cell of a sweep, run once. Read strictly, so that a broken file is never half used."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.bench.errors import BenchError
from slipway.bench.metrics import BY_KEY

FORMAT = 1
# Whole numbers that say which load a cell is: key in the file -> smallest value.
_SHAPE = {"random_input_len": 1, "random_output_len": 1, "max_concurrency": 1, "num_prompts": 1}
# What a cell that was measured has at least.
_MEASURED = ("duration", "completed", "output_throughput", "total_throughput")


@dataclass(frozen=True, order=True)
class Shape:
    """The load of a cell: tokens in and out of a request, requests at once, requests in all."""

    input_len: int
    output_len: int
    concurrency: int
    prompts: int

    def __str__(self) -> str:
        return f"{self.input_len}/{self.output_len} C={self.concurrency}"


@dataclass(frozen=True)
class Cell:
    """A cell as one run measured it. void: why it does not count; notes: what must be seen beside it though it counts.

    values: every figure by its key, those of parts as PART.KEY, such as server.gen_throughput_mean.
    """

    shape: Shape
    repeat: int
    void: tuple[str, ...]
    notes: tuple[str, ...]
    values: Mapping[str, float]
    started: str = ""

    @property
    def valid(self) -> bool:
        """Whether it counts."""
        return not self.void


def read_cell(line: str, where: str, label: str) -> Cell:
    """One line of results.jsonl. where: file and line, for errors. Raises BenchError."""
    row = _object(line, where)
    if row.get("format") != FORMAT or row.get("label") != label:
        found = f"format {row.get('format')!r}, label {row.get('label')!r}"
        raise BenchError(f"{where}: got {found}; must be format {FORMAT}, label {label!r}, the folder's name")
    shape = [_whole(row, key, least, where) for key, least in _SHAPE.items()]
    repeat = _whole(row, "repeat", 1, where)
    reasons, notes = _words(row, "reasons", where), _words(row, "notes", where)
    if row.get("status") not in ("valid", "void"):
        raise BenchError(f"{where}: status: got {row.get('status')!r}; must be valid or void")
    if (row["status"] == "void") != bool(reasons):
        raise BenchError(f"{where}: status is {row['status']} with {len(reasons)} reason(s); these contradict")
    values = {} if reasons else dict(_figures(row, where, ""))
    missing = [key for key in _MEASURED if key not in values and not reasons]
    if missing:
        raise BenchError(f"{where}: a valid cell without {', '.join(missing)}; run the sweep again")
    return Cell(Shape(*shape), repeat, reasons, notes, values, str(row.get("started", "")))


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BenchError(f"{where}: not JSON ({error}); remove the line, its cell is then measured again") from None
    if not isinstance(row, dict):
        raise BenchError(f"{where}: got {type(row).__name__}; must be one JSON object a line")
    return row


def _whole(row: Mapping[str, Any], key: str, least: int, where: str) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BenchError(f"{where}: {key}: got {value!r}; must be a whole number of at least {least}")
    return value


def _words(row: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = row.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BenchError(f"{where}: {key}: got {value!r}; must be a list of texts")
    return tuple(value)


def _figures(row: Mapping[str, Any], where: str, part: str) -> Iterator[tuple[str, float]]:
    """All numbers; one that is no number (NaN is what a division by nothing left) is an error, not a gap."""
    for key, value in row.items():
        if isinstance(value, dict) and not part:
            yield from _figures(value, where, f"{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if not math.isfinite(value) or (value < 0 and part + key in BY_KEY):
                raise BenchError(f"{where}: {part}{key}: got {value}; must be a number of 0 or more")
            yield part + key, float(value)
