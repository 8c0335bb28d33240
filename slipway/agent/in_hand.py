"""How many requests a worker has in hand, by its own word. usage: in_hand URL; prints {"running": N or null}.

Asked are /v1/loads (answers 500 on the CPU engine), /get_load (gone since SGLang 0.5.21) and the gauges of /metrics,
whichever answers first. Standard library only, Python 3.9+.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import sys
from collections.abc import Callable
from typing import Any, Optional
from urllib.parse import urlsplit

QUEUES = (
    "prefill_bootstrap_queue_reqs",
    "prefill_inflight_queue_reqs",
    "decode_prealloc_queue_reqs",
    "decode_transfer_queue_reqs",
)
GAUGES = re.compile(
    r"^sglang:num_(?:running|queue|prefill_bootstrap_queue|prefill_inflight_queue|decode_prealloc_queue|"
    r"decode_transfer_queue)_reqs(?:\{[^}]*\})? ([0-9.e+]+)$",
    re.MULTILINE,
)


class Worker:
    """One that is asked. key: its API key, which it may want for what its scheduler says; '' for none."""

    def __init__(self, url: str, key: str = "") -> None:
        self.parts, self.headers = urlsplit(url), {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str) -> str:
        """The text of a 200; an OSError for anything else."""
        host, port = self.parts.hostname or "", self.parts.port
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=5)) as connection:
            connection.request("GET", path, headers=self.headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        if response.status != 200:
            raise OSError(f"{path} answers {response.status}")
        return text

    def loads(self) -> list[dict[str, Any]]:
        """The rows of /v1/loads, one a scheduler."""
        rows: list[dict[str, Any]] = json.loads(self.get("/v1/loads?include=all"))["loads"]
        return rows

    def old_loads(self) -> list[dict[str, Any]]:
        """The rows of /get_load."""
        rows: list[dict[str, Any]] = json.loads(self.get("/get_load"))
        return rows


def by_loads(worker: Worker) -> int:
    """/v1/loads: running, waiting, and on their way between prefill and decode."""
    return requests_of(worker.loads())


def requests_of(rows: list[dict[str, Any]]) -> int:
    """Of /v1/loads."""
    between = (row.get("disaggregation") or {} for row in rows)
    own = sum(int(row["num_running_reqs"]) + int(row.get("num_waiting_reqs", 0)) for row in rows)
    return own + sum(int(queues.get(name) or 0) for queues in between for name in QUEUES)


def by_load(worker: Worker) -> int:
    """/get_load of older releases."""
    return sum(int(row["num_reqs"]) for row in worker.old_loads())


def by_metrics(worker: Worker) -> int:
    """The gauges; there are none without --enable-metrics."""
    found = GAUGES.findall(worker.get("/metrics"))
    if not found:
        raise OSError("no gauges")
    return int(sum(float(value) for value in found))


def running(url: str) -> Optional[int]:  # noqa: UP045 - Python 3.9
    """The first answer that can be understood."""
    return first(Worker(url), by_loads, by_load, by_metrics)


def counted(url: str) -> Optional[int]:  # noqa: UP045 - Python 3.9
    """As `running`, but never by the gauges: those tell what was when the last batch was logged, idle or not."""
    return first(Worker(url), by_loads, by_load)


def idle(url: str, key: str = "") -> bool:
    """Whether the scheduler says that it holds nothing: no request in a queue, and no KV of one. key: its API key.

    A long prompt that is being computed in chunks is in none of the queues, but its KV is held (SGLang 0.5.13,
    load_inquirer.py).
    """
    return first(Worker(url, key), held_by_loads, held_by_load) == 0


def held_by_loads(worker: Worker) -> int:
    """/v1/loads: requests, and the tokens of KV that they hold; what is only cached is not among them."""
    rows = worker.loads()
    return requests_of(rows) + sum(int(row["num_used_tokens"]) for row in rows)


def held_by_load(worker: Worker) -> int:
    """/get_load: the same, with the tokens of waiting prompts."""
    return sum(int(row["num_reqs"]) + int(row["num_tokens"]) for row in worker.old_loads())


def first(worker: Worker, *sources: Callable[[Worker], int]) -> Optional[int]:  # noqa: UP045 - Python 3.9
    """Ask one after the other; None when none answers."""
    for source in sources:
        try:
            return source(worker)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            continue
    return None


if __name__ == "__main__":
    print(json.dumps({"running": running(sys.argv[1])}))
