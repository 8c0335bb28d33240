"""Writes down on each host what was done there, by whom and how it ended: ROOT/deployments/NAME/audit.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import gevent

from roles.origin import now, where, who
from roles.probe import inline
from roles.remote import execute
from roles.run import Run


def note(run: Run, host: str, step: str, result: str, **more: Any) -> None:
    """One line on one host. step: what was done, such as 'restart prefill-0'. result: ok, failed, begun, ...

    A line that cannot be written stops nothing: the run itself says what became of it. Nothing secret belongs here.
    """
    lock = run.notes.get("lock")
    line = {"when": now(), "who": who(), "from": where(), "run": lock.holder["id"] if lock else "",
            "what": lock.holder["what"] if lock else "", "step": step, "result": result, **more}  # fmt: skip
    request = {"folder": run.plan.host(host).paths["deployment"], "lines": [line]}
    execute(run.hosts[host], [*inline("audit"), json.dumps(request)])


def note_all(run: Run, hosts: Iterable[str], step: str, result: str, **more: Any) -> None:
    """The same line on several hosts, at once."""
    gevent.joinall([gevent.spawn(note, run, host, step, result, **more) for host in hosts])
