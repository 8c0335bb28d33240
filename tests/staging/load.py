"""A closed loop of streams through the router of a staging deployment, as a client on the controller's side of it.

    with Load(site, streams=64) as load:
        ...change something...
    load.lost, load.outage_s

Half of the streams stream. The client is Slipway's own (slipway/agent/load), in a process where the controller is.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.staging.lab.commands import until
from tests.staging.site import REPOSITORY, Site

INPUT, OUTPUT = 24, 48  # tokens
SILENCE_S, REQUEST_S = 60.0, 120.0


class Load:
    """The load, from entering to leaving. rows: every request, with start and end in one monotonic clock."""

    def __init__(self, site: Site, streams: int, folder: Path) -> None:
        self.site, self.folder = site, folder
        self.kinds = {"streamed": streams // 2, "whole": streams - streams // 2}
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def __enter__(self) -> Load:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "stop").unlink(missing_ok=True)
        self.processes = {kind: self._start(kind, streams) for kind, streams in self.kinds.items()}
        flowing = until(lambda: all(self._counted(kind) > streams for kind, streams in self.kinds.items()), 60, 0.2)
        assert flowing, "the load does not flow"
        self.began = time.monotonic()
        return self

    def _start(self, kind: str, streams: int) -> Any:
        url = f"http://{self.site.lab['h1'].ip}:8000"
        return self.site.lab.start(sys.executable, "-m", "tests.staging.load", url, kind, streams, self.folder,
                                   cwd=REPOSITORY)  # fmt: skip

    def _counted(self, kind: str) -> int:
        path = self.folder / f"{kind}.count"
        return int(path.read_text() or 0) if path.exists() else 0

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.lasted_s = time.monotonic() - self.began
        (self.folder / "stop").touch()
        for process in self.processes.values():
            said, _ = process.communicate(timeout=REQUEST_S + 30)
            assert process.returncode == 0 or kind, said
        if kind is None:
            for name in self.kinds:
                self.rows[name] = json.loads((self.folder / f"{name}.json").read_text())

    @property
    def all_rows(self) -> list[dict[str, Any]]:
        return [row for rows in self.rows.values() for row in rows]

    @property
    def failures(self) -> Counter[str]:
        """Reasons of requests that were not answered, with how many."""
        return Counter(row["error"] for row in self.all_rows if row["error"])

    @property
    def lost(self) -> int:
        return self.failures.total()

    def lost_of(self, kind: str) -> int:
        return sum(bool(row["error"]) for row in self.rows[kind])

    @property
    def outage_s(self) -> float:
        """The longest time in which no request came to its end with an answer."""
        ends = sorted(row["end"] for row in self.all_rows if not row["error"])
        return max((later - earlier for earlier, later in itertools.pairwise(ends)), default=0.0)

    @property
    def longest_s(self) -> float:
        """The longest time that an answered request took."""
        return max((row["end"] - row["start"] for row in self.all_rows if not row["error"]), default=0.0)


def main(url: str, kind: str, streams: str, folder: str) -> None:
    """Ask until the file `stop` is there; then leave the rows."""
    from slipway.agent.load.cell import Cell, Client
    from slipway.agent.load.prompts import vocabulary_of
    from slipway.agent.load.target import Shape, target_of

    place, seen = Path(folder), 0
    shape = Shape("chat", "tiny", OUTPUT, kind == "streamed", True, {})
    client = Client(target_of(url, "", False), vocabulary_of(None))
    words = client.calibrate(shape, INPUT, kind)

    def tick(rows: list[dict[str, Any]], _tokens: int) -> bool:
        nonlocal seen
        seen += len(rows)
        (place / f"{kind}.count").write_text(str(seen))
        return not (place / "stop").exists()

    cell = Cell(shape, INPUT, int(streams), None, kind, duration_s=3600.0, processes=1, timeout_s=REQUEST_S,
                silence_s=SILENCE_S, pause_s=0.2)  # fmt: skip
    rows = client.measure(cell, words, tick)["rows"]
    (place / f"{kind}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
