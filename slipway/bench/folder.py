"""Results folders, BENCH/LABEL/: results.jsonl, provenance.json, and done.json once a sweep has come to its end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.bench.errors import BenchError
from slipway.bench.record import Cell, Shape, read_cell
from slipway.config.errors import nearest

CELLS, PROVENANCE, DONE = "results.jsonl", "provenance.json", "done.json"
EXPERIMENT = "experiment.json"  # which variant of which experiment it is; written by the experiment
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Result:
    """What one label measured. provenance: as recorded. complete: whether the sweep came to its end."""

    label: str
    provenance: Mapping[str, Any]
    cells: tuple[Cell, ...]
    complete: bool

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The loads, smallest first."""
        return tuple(sorted({cell.shape for cell in self.cells}))

    def of(self, shape: Shape) -> tuple[Cell, ...]:
        """The runs of one load."""
        return tuple(cell for cell in self.cells if cell.shape == shape)


def labels(results: Path) -> list[str]:
    """Labels that have results, by name."""
    return sorted(path.parent.name for path in results.glob(f"*/{CELLS}"))


def read_result(results: Path, label: str) -> Result:
    """The results of `label`. Raises BenchError with what is wrong and where."""
    if not LABEL.fullmatch(label):
        raise BenchError(f"label {label!r}: must be of letters, digits, dots, dashes, underscores, such as NVFP4_tp4")
    folder = results / label
    if not (folder / CELLS).is_file():
        raise BenchError(_unknown(results, label))
    where = f"{folder}/{CELLS}"
    lines = _text(folder / CELLS).split("\n")[:-1]  # what follows the last newline is torn by a crash, or nothing
    cells = [read_cell(line, f"{where}:{at}", label) for at, line in enumerate(lines, 1) if line.strip()]
    if not cells:
        raise BenchError(f"{where}: no cell; measure one: pyinfra INVENTORY playbooks/bench.py --data label={label}")
    _check(cells, where)
    return Result(label, _provenance(folder), tuple(cells), _complete(folder, cells))


def read_results(results: Path, names: Iterable[str]) -> list[Result]:
    """Several at once."""
    return [read_result(results, name) for name in names]


def ended_rounds(folder: Path) -> int:
    """Repeats of a label that came to their end; 0 where there is none. Raises BenchError."""
    done = _object(folder / DONE) if (folder / DONE).is_file() else {}
    return int(done.get("repeat") or 0)


def _complete(folder: Path, cells: Iterable[Cell]) -> bool:
    """Whether the last repeat that has cells came to its end."""
    return ended_rounds(folder) == max(cell.repeat for cell in cells)


def _unknown(results: Path, label: str) -> str:
    known = labels(results)
    if (results / label / "state.json").is_file():
        return f"{label} is an experiment, not a label: slipway experiment {label} --report"
    close = nearest(label, known)
    hint = f"; did you mean {close}?" if close else f"; there are {', '.join(known) or 'none'}"
    return f"{label}: no results in {results}{hint}"


def _check(cells: Iterable[Cell], where: str) -> None:
    """One load has one number of prompts, and each of its repeats was run once."""
    seen: set[tuple[Shape, int]] = set()
    prompts: dict[tuple[int, int, int], int] = {}
    for cell in cells:
        shape = cell.shape
        load = (shape.input_len, shape.output_len, shape.concurrency)
        if prompts.setdefault(load, shape.prompts) != shape.prompts:
            raise BenchError(
                f"{where}: {shape} was run with {prompts[load]} and with {shape.prompts} prompts: these shapes do not "
                "mix; measure the second under a label of its own"
            )
        if (shape, cell.repeat) in seen:
            raise BenchError(f"{where}: {shape}, repeat {cell.repeat} is there twice; remove one of the lines")
        seen.add((shape, cell.repeat))


def _provenance(folder: Path) -> Mapping[str, Any]:
    path = folder / PROVENANCE
    if not path.is_file():
        raise BenchError(f"{path}: not there; results that do not say what was measured are not used")
    found = _object(path)
    if found.get("label") != folder.name:
        raise BenchError(f"{path}: its label is {found.get('label')!r}; must be {folder.name!r}, the folder's name")
    beside = folder / EXPERIMENT
    return {**found, "experiment": _object(beside)} if beside.is_file() else found


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise BenchError(f"{path}: not JSON ({error}); measure {path.parent.name} again") from None
    if not isinstance(found, dict):
        raise BenchError(f"{path}: got {type(found).__name__}; must be a JSON object")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path}: cannot be read ({error})") from None
