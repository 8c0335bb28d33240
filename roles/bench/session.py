"""One label being measured: start or take up its job, watch it, fetch what it has written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyinfra import logger

from roles.bench.gpus import Samplers
from roles.bench.place import Place
from roles.remote import RemoteError
from slipway.agent.bench_record import DONE, PROVENANCE, REQUESTS, RESULTS, SWEEP, read_lines
from slipway.bench.errors import BenchError
from slipway.bench.power import gpu_figures
from slipway.bench.subject import other_sweep, unlike_before, with_times
from slipway.verify.subjects import Asking

PLAN, KEY, CA = "plan.json", "key", "ca.pem"
POLL_S, SAY_S = 2.0, 10.0


class Session:
    """A label at a place. results: folder of the controller that labels are fetched to. deadline_s: of a sweep."""

    def __init__(self, place: Place, results: Path, label: str, deadline_s: float, samplers: Samplers) -> None:
        self._place, self._label, self._deadline_s, self._samplers = place, label, deadline_s, samplers
        self._folder = place.folder(label)
        self._fetched = results / label
        self._state: dict[str, Any] = place.ask("bench", "state", self._folder)

    def runs(self) -> bool:
        """Whether this label is being measured now. Raises BenchError when another one is."""
        status = self._place.ask("job", "status", self._place.jobs)
        if status["state"] != "running":
            return False
        running = str(status["key"]).rpartition("/")[0]
        if running != self._label:
            raise BenchError(
                f"{running} is being measured on {self._place.name} ({status['last']}); two sweeps would measure each "
                f"other: wait for it with --data label={running}"
            )
        logger.info(f"    {self._label} is being measured on {self._place.name} already: watching it")
        return True

    def wanted(self, repeats: int | None) -> int | None:
        """The repeat to go up to; None when there is nothing left to measure. Raises BenchError."""
        done = (self._state.get("done") or {}).get("repeat", 0) if self._state else 0
        begun = max((run["repeat"] for run in self._runs()), default=0)
        if begun > done:
            logger.info(f"    {self._label}: repeat {begun} was begun and not ended; going on with its first open cell")
            return max(begun, repeats or 0)
        if done and repeats is None and not (self._fetched / DONE).is_file():
            logger.info(f"    {self._label} was measured while nobody watched: fetching it")
            return None
        if done and repeats is None:
            raise BenchError(
                f"{self._label} is measured already ({done} repeat(s)); choose another label, or ask for more: "
                f"--data repeats={done + 1}"
            )
        if repeats is not None and repeats <= done:
            logger.info(f"    {self._label} has {done} repeat(s) already: nothing to measure")
            return None
        return repeats or 1

    def _runs(self) -> list[dict[str, Any]]:
        return list(((self._state or {}).get("provenance") or {}).get("runs", []))

    def start(self, repeat: int, request: dict[str, Any], record: dict[str, Any], plan: str, asking: Asking) -> None:
        """Write down what is measured, then begin. asking: has the API key. Raises BenchError, RemoteError."""
        self._refuse_another(request, record)
        release = record.pop("release")
        runs = self._runs()
        known = {run["repeat"] for run in runs}
        runs += [
            {"repeat": number, "release": release, "verified": True, "host": self._place.name,
             "started": None, "ended": None}
            for number in range(1, repeat + 1) if number not in known
        ]  # fmt: skip
        self._write(PLAN, plan)
        self._write(SWEEP, json.dumps(request, indent=1))
        self._write(PROVENANCE, json.dumps({**record, "runs": runs}, indent=1))
        if asking.key:  # for its owner alone; the client removes it at the end, and so does `finish`
            self._place.write(f"{self._folder}/{KEY}", asking.key, "600")
        if asking.ca:
            self._write(CA, asking.ca)
        command = self._place.command("bench", "run", self._folder, str(repeat))
        self._place.ask("job", "start", self._place.jobs, f"{self._label}/{repeat}", *command)
        where = f"{self._place.name}:{self._folder}"
        logger.info(f"    measuring {self._label}, {len(request['cells'])} cells up to repeat {repeat}, in {where}")

    def _refuse_another(self, request: dict[str, Any], record: dict[str, Any]) -> None:
        old, asked = (self._state or {}).get("provenance"), (self._state or {}).get("sweep")
        differs = unlike_before(old, record) if old else []
        differs += other_sweep(asked, request) if asked else []
        if differs:
            raise BenchError(
                f"{self._label} was measured on something else, so this is no repeat of it; choose another label. "
                f"What differs: {'; '.join(differs)}"
            )

    def _write(self, name: str, text: str) -> None:
        self._place.write(f"{self._folder}/{name}", text + "\n")

    def watch(self, still_ours: Callable[[], None] = lambda: None) -> bool:
        """Until the job has ended, saying how it goes; whether it ended well.

        still_ours: raises RemoteError when somebody else may change what is measured; the job is stopped then.
        """
        began = said = time.monotonic()
        offset = 0
        while True:
            news = self._place.ask("bench", "news", self._place.jobs, str(offset))
            offset, status = news["offset"], news["job"]
            for line in news["lines"]:
                ended = not line.startswith("cell ")
                if ended or time.monotonic() - said >= SAY_S:
                    said = time.monotonic()
                    logger.info(f"    {line[:300]}")
            if status["state"] != "running":
                return self._ended(status)
            if time.monotonic() - began > self._deadline_s:
                self._place.ask("job", "stop", self._place.jobs)
                raise RemoteError(f"not done within bench.deadline_s ({self._deadline_s:.0f} s), and stopped")
            self._guard(still_ours)
            time.sleep(POLL_S)

    def _guard(self, still_ours: Callable[[], None]) -> None:
        try:
            still_ours()
        except RemoteError as error:
            self._place.ask("job", "stop", self._place.jobs)
            raise RemoteError(f"{error}; the sweep was stopped in the cell that it was in") from None

    def _ended(self, status: dict[str, Any]) -> bool:
        if status["state"] == "done" and status["rc"] == 0:
            return True
        how = f"ended with {status['rc']}" if status["state"] == "done" else f"is {status['state']}"
        logger.error(f"    the sweep {how}: {status['last']}; the same command goes on with its first open cell")
        return False

    def finish(self) -> bool:
        """Fetch, and say what came of it; whether the sweep is complete."""
        self._place.ask("bench", "forget", self._folder)
        lines = self.fetch()
        void = [line for line in lines if line["status"] == "void"]
        for line in void:
            logger.warning(f"    void: {line['cell']}, repeat {line['repeat']}: {'; '.join(line['reasons'])}")
        logger.info(f"    {len(lines)} cells, {len(void)} void, in {self._fetched}")
        return bool(lines)

    def fetch(self) -> list[dict[str, Any]]:
        """Bring the label's files to the controller; the lines of its results. Raises RemoteError."""
        self._state = self._place.ask("bench", "state", self._folder)
        self._fetched.mkdir(parents=True, exist_ok=True)
        for name in self._state["files"]:
            if name in (PLAN, SWEEP, RESULTS, REQUESTS, DONE):
                self._keep(name, self._place.read(f"{self._folder}/{name}"))
        lines = read_lines(str(self._fetched / RESULTS))
        if self._samplers.gpus:
            lines = self._with_gpus(lines)
        record = with_times(self._state["provenance"], lines)
        self._keep(PROVENANCE, (json.dumps(record, indent=1) + "\n").encode())
        return lines

    def _with_gpus(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The figures of the GPUs put into the controller's copy."""
        samples = self._samplers.samples()
        lines = [{**line, "gpu": gpu_figures(samples, self._samplers.gpus, line)} for line in lines]
        self._keep(RESULTS, "".join(json.dumps(line) + "\n" for line in lines).encode())
        return lines

    def _keep(self, name: str, data: bytes) -> None:
        part = self._fetched / f"{name}.part"
        part.write_bytes(data)
        part.replace(self._fetched / name)
