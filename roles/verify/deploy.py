"""Role verify: climbs the ladder after every deploy, on each worker's host and then on the router's."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from gevent.lock import BoundedSemaphore
from pyinfra import host as current_host
from pyinfra import state
from pyinfra.api import FunctionCommand, deploy, operation

from roles.ladder import climb, explain, ladder_of, show
from roles.run import Run
from roles.verify.summary import print_at_exit

_lock = BoundedSemaphore(1)


@deploy("Verify")
def verify(run: Run) -> None:
    """Prove that the deployment serves what the plan says; changes nothing."""
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
    rows = run.notes.get("climbed")  # the rollout's gate, a moment ago
    if rows is None:
        ladder = ladder_of(run)
        rows = climb(ladder)
        show(rows)
        explain(ladder, rows)
    proven = all(row.ok for row in rows)
    if proven:
        answers = next((dict(row.answers) for row in rows if row.answers), {})
        print_at_exit(run.plan, str(run.opened.inventory), answers)
    return proven
