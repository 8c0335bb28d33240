"""One record of results: a cell of a sweep, run once. Read strictly, so that a broken file is never half used."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.bench.errors import BenchError
from slipway.bench.metrics import with_derived

# Whole numbers that say which load a cell is: key in the file -> smallest value.
_SHAPE = {"input_len": 1, "output_len": 1, "max_concurrency": 1, "num_prompts": 1}
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
    """A cell as one run measured it. void: why it does not count; marks: what a reader must know though it counts.

    values: every figure by its key.
    """

    shape: Shape
    repeat: int
    void: tuple[str, ...]
    marks: tuple[str, ...]
    values: Mapping[str, float]
    started: str = ""

    @property
    def valid(self) -> bool:
        """Whether it counts."""
        return not self.void


def read_cell(line: str, where: str) -> Cell:
    """One line of cells.jsonl. where: file and line, for errors. Raises BenchError."""
    row = _object(line, where)
    shape = [_whole(row, key, least, where) for key, least in _SHAPE.items()]
    repeat = _whole(row, "repeat", 0, where)
    void, marks = _words(row, "void", where), _words(row, "marks", where)
    if row.get("valid") not in (True, False):
        raise BenchError(f"{where}: valid: got {row.get('valid')!r}; must be true or false")
    if row["valid"] == bool(void):
        raise BenchError(f"{where}: valid is {row['valid']} and void has {len(void)} reason(s); these contradict")
    values = with_derived(_figures(row, where))
    missing = [key for key in _MEASURED if key not in values and not void]
    if missing:
        raise BenchError(f"{where}: a valid cell without {', '.join(missing)}; run the sweep again")
    return Cell(Shape(*shape), repeat, void, marks, values, str(row.get("started", "")))


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


def _figures(row: Mapping[str, Any], where: str) -> dict[str, float]:
    """All numbers; one that is no number (NaN is what a division by nothing left) is an error, not a gap."""
    found = {key: value for key, value in row.items() if isinstance(value, (int, float)) and value is not True}
    wrong = [key for key, value in found.items() if not math.isfinite(value) or value < 0]
    if wrong:
        raise BenchError(f"{where}: {wrong[0]}: got {found[wrong[0]]}; must be a number of 0 or more")
    return {key: float(value) for key, value in found.items() if value is not False}
