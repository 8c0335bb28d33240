"""Reads fetched traces on the controller, and leaves table and picture beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.profile import breakdown, events, picture, summary, table_lines

CHUNK = 1 << 20


def show(worker: str, paths: Sequence[Path], load: Mapping[str, Any]) -> list[str]:
    """The lines to print: the load, the first rank in full, one line for each other rank. Raises TraceError."""
    found = {path: breakdown(events(_chunks(path))) for path in paths}
    first, *others = found
    for path, one in found.items():
        base = path.with_name(path.name.removesuffix(".trace.json.gz"))
        base.with_suffix(".svg").write_text(picture(one, f"{worker}: {path.name}"), encoding="utf-8")
    lines = ["", f"{worker} under {_load(load)}:", *table_lines(found[first])]
    lines += [f"{path.name}: {summary(found[path])}" for path in others]
    folder = first.parent
    (folder / "breakdown.txt").write_text("\n".join(lines[1:]) + "\n", encoding="utf-8")
    return [*lines, "", f"traces, table (breakdown.txt) and pictures (*.svg): {folder}"]


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _load(record: Mapping[str, Any]) -> str:
    """Streams, requests and failures of the load."""
    known = [f"{record[key]:.0f} {word}" for key, word in LOAD if key in record]
    return ", ".join(known) or "load"


LOAD = (("concurrency", "streams"), ("completed", "requests answered"), ("failed", "failed"))
