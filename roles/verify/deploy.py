"""Role verify: climbs the ladder after every deploy, and alone for playbooks/verify.py; it changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import logger, state
from pyinfra.api import FunctionCommand, deploy, operation

from roles.audit import note_all
from roles.ladder import Ladder, Row, climb, explain, ladder_of, show, table
from roles.remote import RemoteError, ensure_agent, upload
from roles.run import Run
from roles.verify.periodic import leave_request
from roles.verify.summary import print_at_exit

_lock = BoundedSemaphore(1)
RESULTS = "verified.json"  # in the deployment's folder on the router's host


@deploy("Verify")
def verify(run: Run) -> None:
    """Prove that the deployment serves what the plan says; changes nothing."""
    ladder_of(run)  # what it is to ask with is read before anything is changed
    prove(name="Verify the deployment", run=run)


@operation()
def prove(run: Run) -> Generator[Any, None, None]:
    """Climb once for all hosts; a no-op when every rung holds, a failure otherwise.

    Example: `prove(name="Verify the deployment", run=run)`.
    """
    if not state.is_executing:  # a dry run asks nothing of what serves
        current_host.noop("verification changes nothing")
        return
    with _lock:
        if "verified" not in run.notes:
            run.notes["verified"] = _climb(run)
    if run.notes["verified"]:
        current_host.noop("every rung holds")
    else:
        yield FunctionCommand(_failed, (), {})


def _failed(state: Any, host: Any) -> bool:
    return False


def _climb(run: Run) -> bool:
    ladder = ladder_of(run)
    rows = run.notes.get("climbed")  # the rollout's gate, a moment ago
    if rows is None:
        rows = _agents(ladder) or climb(ladder)
        show(rows)
        explain(ladder, rows)
    _keep(ladder, rows, on_host="lock" in run.notes or not run.changes)
    proven = all(row.ok for row in rows)
    if "lock" in run.notes:  # a run that changes nothing leaves no trace either
        reason = "; ".join(f"{row.subject}, rung {row.rung}: {row.detail}" for row in rows if not row.ok)
        note_all(run, run.hosts, "verify", "ok" if proven else "failed", **({"reason": reason} if reason else {}))
    if proven:
        answers = next((dict(row.answers) for row in rows if row.answers), {})
        print_at_exit(run.plan, answers)
        _leave_request(ladder, run)
    return proven


def _leave_request(ladder: Ladder, run: Run) -> None:
    """Periodic verification asks from now on what was just proven."""
    try:
        leave_request(run, ladder.asking)
    except RemoteError as error:
        logger.warning(f"    periodic verification goes on with what it asked before: {error}")


def _agents(ladder: Ladder) -> list[Row]:
    """The agent lies on every host, also when no deploy came before; rows of those where it cannot."""
    rows = []
    for host in ladder.plan.hosts:
        try:
            ensure_agent(ladder.hosts[host.name], host)
        except RemoteError as error:
            rows.append(Row("agent", host.name, False, 0.0, str(error)))
    return rows


def _keep(ladder: Ladder, rows: list[Row], on_host: bool) -> None:
    """The results as JSON, on the router's host and where the configuration wants them.

    on_host: not for a deploy that changes nothing, which leaves nothing behind.
    """
    text = json.dumps({"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **table(ladder, rows)}, indent=1)
    try:
        for router in ladder.plan.of("router")[:1] if on_host else ():
            folder = ladder.plan.host(router.host).paths["deployment"]
            upload(ladder.hosts[router.host], text.encode(), f"{folder}/{RESULTS}")
        if ladder.asking.settings.json:
            Path(ladder.asking.settings.json).expanduser().write_text(text + "\n", encoding="utf-8")
    except (RemoteError, OSError) as error:
        logger.warning(f"    the results could not be kept: {error}")
